"""What is asked of CTranslate2's search, and what its answers mean.

How CTranslate2 searches (its `decoding.cc`), as far as another search has to know it to give the same answers:
- each step looks at the 2·beam best continuations. Of the first `beam` of them, those that end are finished
  hypotheses, and the best of the others that do not end take their places; an end among the second `beam` is lost;
- a sentence is done as soon as it has `beam` finished hypotheses (the last step may bring more than that), whatever
  the hypotheses that are still alive could become. With a length penalty of exactly 0 it would stop earlier, so it is
  never given 0;
- at the length limit, which counts the end symbol, the first `beam` continuations are finished as they are;
- a hypothesis is then worth Σ log p / length^β, and only the `beam` best are given back, which are ranked again here
  by ((5 + length) / 6)^α. β is chosen so that both penalties grow alike at the length of the source: what is lost
  are the worst of the surplus;
- a symbol that may not come is taken out before the softmax, so its probability goes to the others, and a forced
  prefix costs nothing. Where that matters, hypotheses are scored again here, by forced decoding;
- behind a forced prefix, the end may come next only as the single best continuation;
- the attention that it gives for the first symbol of a beam search is another sentence's (seen in 4.8.4), so the
  hypotheses are gone through once more for their attention, greedily, as forced prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding.options import DecodingOptions, gnmt
from regard.engines.engine import Ids
from regard.text.vocabulary import EOS_ID

_SMALLEST_BETA = 1e-9  # in float32, length to this power is 1
_IMPOSSIBLE = -1e9  # CTranslate2 fills up with hypotheses of about -1e10 where there are not enough
END = str(EOS_ID)
ROWS_OF_TOKENS = 4096  # of the source, padding included, times the beam: more leave the cache
MOST_TOKENS = 2048
SENTENCES_PER_BATCH = 256


@dataclass(frozen=True)
class Job:
    """One sentence: its place in the list that was given, and the most symbols that it may become."""

    place: int
    source: Ids
    prefix: Ids
    limit: int


def batches_of(jobs: Sequence[Job], n_workers: int, beam: int = 1) -> list[list[Job]]:
    """Sources of like length together, the longest first; forced prefixes apart; work for every worker."""
    max_tokens = min(MOST_TOKENS, ROWS_OF_TOKENS // beam)
    most = min(SENTENCES_PER_BATCH, max(1, -(-len(jobs) // n_workers)))
    batches: list[list[Job]] = []
    for job in sorted(jobs, key=lambda job: (not job.prefix, -len(job.source))):
        batch = batches[-1] if batches else []
        full = len(batch) == most or (len(batch) + 1) * (len(batch[0].source) + 1) > max_tokens if batch else True
        if full or bool(batch[0].prefix) != bool(job.prefix):
            batches.append([job])
        else:
            batch.append(job)
    return batches


def of_one_limit(jobs: Sequence[Job], n_workers: int, beam: int = 1) -> list[list[Job]]:
    """Batches whose sentences may all become equally long."""
    limits = sorted({job.limit for job in jobs}, reverse=True)
    alike = [[job for job in jobs if job.limit == limit] for limit in limits]
    return [batch for group in alike for batch in batches_of(group, n_workers, beam)]


@dataclass(frozen=True)
class RawHypothesis:
    """A hypothesis as the search left it."""

    ids: tuple[int, ...]
    ended: bool  # or cut off at the limit
    total: float  # Σ log p

    def score(self, alpha: float) -> float:
        return self.total / gnmt(len(self.ids) + self.ended, alpha)


def settings_of(options: DecodingOptions, n_symbols: int) -> dict[str, Any]:
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


def beta_of(alpha: float, length: int) -> float:
    """The exponent with which length^β grows as ((5 + length) / 6)^α does; never 0, which is another search."""
    return max(alpha * length / (length + 5), _SMALLEST_BETA)


def outcomes_of(result: Any, beta: float) -> list[RawHypothesis]:
    """What CTranslate2 gives, its own length penalty taken back."""
    done = []
    for tokens, score in zip(result.hypotheses, result.scores, strict=True):
        ended = bool(tokens) and tokens[-1] == END
        ids = tuple(map(int, tokens[:-1] if ended else tokens))
        done.append(RawHypothesis(ids, ended, score * len(tokens) ** beta))
    return [one for one in done if one.total > _IMPOSSIBLE] or done[:1]


def ranked(found: list[RawHypothesis], options: DecodingOptions) -> list[RawHypothesis]:
    return sorted(found, key=lambda one: -one.score(options.length_penalty))[: options.n_best]


def constrains(options: DecodingOptions) -> bool:
    """Whether the probabilities of the search are others than the model's."""
    return bool(options.min_length or options.no_repeat_ngram or options.banned or options.sampling)
