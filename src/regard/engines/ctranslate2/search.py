"""Batches and settings for CTranslate2's search, and the meaning of its results.

How CTranslate2 searches (its `decoding.cc`), for any other search that has to give the same results:
- each step considers the 2·beam best continuations. Of the first `beam`, those that end are finished hypotheses, and
  the best of the others replace them; an end token among the second `beam` is ignored;
- a sentence stops as soon as `beam` hypotheses have finished (the last step may add more), even if a live hypothesis
  could still become better. With a length penalty of exactly 0 it would stop earlier, so it never gets 0;
- at the length limit, which includes the end token, the first `beam` continuations are finished as they are;
- it ranks hypotheses by Σ log p / length^β and returns the best `beam`, which are then ranked here by
  ((5 + length) / 6)^α. β is chosen so that both penalties grow equally at the length of the source: only the worst of
  the additional hypotheses are lost;
- a forbidden token is removed before the softmax, so its probability goes to the other tokens, and a forced prefix has
  probability 1. Where that matters, hypotheses are scored again by forced decoding;
- after a forced prefix, the end token can come next only if it is the single best continuation;
- beam search returns another sentence's attention for the first token (seen in 4.8.4), so attention is computed in a
  second, greedy pass with the hypotheses as forced prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding.options import DecodingOptions, gnmt
from regard.engines.engine import Ids
from regard.text.vocabulary import EOS_ID

_MIN_BETA = 1e-9  # in float32, length to this power is 1
_MIN_TOTAL = -1e9  # if there are too few hypotheses, CTranslate2 adds some with about -1e10
END = str(EOS_ID)
MAX_ROW_TOKENS = 4096  # source tokens per batch including padding, times the beam size: more do not fit into the cache
MAX_TOKENS = 2048
MAX_SCORED_TOKENS = 256  # scoring keeps the logits of all tokens: with more, it takes up to three times as long
MAX_SENTENCES = 256


@dataclass(frozen=True)
class BatchItem:
    """One sentence of a batch."""

    index: int  # in the list of sources
    source: Ids
    prefix: Ids
    limit: int  # maximum number of tokens, including the end token


def make_batches(
    items: Sequence[BatchItem], n_workers: int, beam: int = 1, max_tokens: int = MAX_TOKENS
) -> list[list[BatchItem]]:
    """Batches of similar source length, longest first; at least one per worker. Forced prefixes have their own."""
    max_tokens = min(max_tokens, MAX_ROW_TOKENS // beam)
    max_sentences = min(MAX_SENTENCES, max(1, -(-len(items) // n_workers)))
    batches: list[list[BatchItem]] = []
    for item in sorted(items, key=lambda item: (not item.prefix, -len(item.source))):
        batch = batches[-1] if batches else []
        is_full = not batch or (
            len(batch) == max_sentences or (len(batch) + 1) * (len(batch[0].source) + 1) > max_tokens
        )
        if is_full or bool(batch[0].prefix) != bool(item.prefix):
            batches.append([item])
        else:
            batch.append(item)
    return batches


def make_batches_by_limit(items: Sequence[BatchItem], n_workers: int, beam: int = 1) -> list[list[BatchItem]]:
    """Batches whose sentences all have the same length limit."""
    limits = sorted({item.limit for item in items}, reverse=True)
    groups = [[item for item in items if item.limit == limit] for limit in limits]
    return [batch for group in groups for batch in make_batches(group, n_workers, beam)]


@dataclass(frozen=True)
class RawHypothesis:
    """A hypothesis of CTranslate2, without its length penalty."""

    ids: tuple[int, ...]
    ended: bool  # False: cut off at the length limit
    total: float  # Σ log p

    def score(self, alpha: float) -> float:
        return self.total / gnmt(len(self.ids) + self.ended, alpha)


def search_settings(options: DecodingOptions, n_symbols: int) -> dict[str, Any]:
    """Keyword arguments of `translate_batch` that are the same for all batches."""
    settings: dict[str, Any] = {
        "asynchronous": True,
        "max_input_length": 0,
        "return_end_token": True,
        "return_scores": True,
        "beam_size": options.beam,
        "num_hypotheses": options.beam,
        "no_repeat_ngram_size": options.no_repeat_ngram,
        "suppress_sequences": [[str(i)] for i in options.banned] or None,
    }
    if options.sampling is not None:
        settings |= {
            "beam_size": 1,
            "num_hypotheses": options.n_best,
            "sampling_topk": min(options.sampling.top_k, n_symbols),
            "sampling_topp": options.sampling.top_p,
            "sampling_temperature": options.sampling.temperature,
        }
    return settings


def length_exponent(alpha: float, length: int) -> float:
    """The β for which length^β grows like ((5 + length) / 6)^α at this length. Never 0: that is another search."""
    return max(alpha * length / (length + 5), _MIN_BETA)


def parse_result(result: Any, beta: float) -> list[RawHypothesis]:
    """The hypotheses of a CTranslate2 result, with its length penalty removed."""
    hypotheses = []
    for tokens, score in zip(result.hypotheses, result.scores, strict=True):
        ended = bool(tokens) and tokens[-1] == END
        ids = tuple(map(int, tokens[:-1] if ended else tokens))
        hypotheses.append(RawHypothesis(ids, ended, score * len(tokens) ** beta))
    return [hypothesis for hypothesis in hypotheses if hypothesis.total > _MIN_TOTAL] or hypotheses[:1]


def rank(hypotheses: list[RawHypothesis], options: DecodingOptions) -> list[RawHypothesis]:
    """The `n_best` by our length penalty, best first."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score(options.length_penalty))[: options.n_best]


def changes_probabilities(options: DecodingOptions) -> bool:
    """Whether the probabilities of the search differ from the model's."""
    return options.is_constrained or options.sampling is not None
