"""BLEU, chrF++ and TER as defined by sacreBLEU: statistics of each sentence, and scores of their sums.

A corpus score is a function of summed sentence statistics. So the text is processed once, and the scores of thousands
of resampled or swapped sets of sentences are computed from sums of rows by the three functions below.
"""

# N sentences, R sums (resamples, buckets or single sentences), K statistics of a measure

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import UserError

Array = NDArray[np.float64]

TOKENIZERS = ("13a", "intl", "char", "zh", "ja-mecab", "ko-mecab")
_SPACELESS = ("char", "zh", "ja-mecab")
_EXTRA = {"ja-mecab": "ja", "ko-mecab": "ko"}
_BLEU_ORDER = 4
_CHRF_BETA = 2


@dataclass(frozen=True)
class Measured:
    """The corpus score and sentence statistics of one set of outputs."""

    value: float
    """The corpus score as computed by sacreBLEU."""
    statistics: Array  # (N, K)


@dataclass(frozen=True)
class Measure:
    """A metric of sacreBLEU with its references."""

    name: str
    lower_is_better: bool
    metric: Metric
    values: Callable[[Array], Array]
    """Scores of summed statistics: (R, K) → (R)."""

    def measure(self, outputs: Sequence[str]) -> Measured:
        """Score the outputs, and keep the statistics of each sentence.

        sacreBLEU has no public API for sentence statistics; a test pins the private names to the version they are of.
        """
        rows = self.metric._extract_corpus_statistics(outputs, None)
        value = float(self.metric._aggregate_and_compute(rows).score)
        return Measured(value, np.array(rows, dtype=np.float64))

    def signature(self, **notes: int | None) -> str:
        """sacreBLEU's signature, with the numbers of trials (bs, ar) and the seed."""
        signature = self.metric.get_signature()
        for key, value in notes.items():
            signature.update(key, value)
        return str(signature)


class Measures(NamedTuple):
    """The three measures of one set of references, in the order of display."""

    bleu: Measure
    chrf: Measure
    ter: Measure

    def n_tokens(self, sentences: Sequence[str]) -> list[int]:
        """Lengths in tokens, as tokenized for BLEU."""
        return [len(self.bleu.metric._preprocess_segment(sentence).split()) for sentence in sentences]


def build_measures(references: Sequence[Sequence[str]], *, lowercase: bool = False, tokenize: str = "13a") -> Measures:
    """The measures for one or more lists of reference translations.

    TER always ignores case, as in sacreBLEU, and counts characters if the tokenizer is for a script without spaces; its
    signature states both.
    """
    check_tokenizer(tokenize)
    spaceless = tokenize in _SPACELESS
    bleu = BLEU(lowercase=lowercase, force=True, tokenize=tokenize, references=references)
    chrf = CHRF(word_order=2, beta=_CHRF_BETA, lowercase=lowercase, references=references)
    ter = TER(normalized=spaceless, asian_support=spaceless, references=references)
    return Measures(
        Measure("BLEU", False, bleu, bleu_values),
        Measure("chrF++", False, chrf, chrf_values),
        Measure("TER", True, ter, ter_values),
    )


def check_tokenizer(name: str) -> None:
    """Raise a UserError if the tokenizer is unknown or not installed; call it before hours of translating."""
    if name not in TOKENIZERS:
        raise UserError(f"{name!r} is not a tokenizer for BLEU", hint=f"choose one of {', '.join(TOKENIZERS)}")
    try:
        BLEU(tokenize=name)
    except RuntimeError as error:
        hint = f"pip install 'sacrebleu[{_EXTRA[name]}]', or use --tokenize char"
        raise UserError(f"the tokenizer {name} is not installed", hint=hint) from error


def bleu_values(sums: Array) -> Array:
    """BLEU from (R, 10) sums: output length, reference length, four counts of matching n-grams, four of all n-grams."""
    n_output, n_reference = sums[:, 0], sums[:, 1]
    matches, totals = sums[:, 2 : 2 + _BLEU_ORDER], sums[:, 2 + _BLEU_ORDER :]
    n_zeros = np.cumsum(matches == 0, axis=1)  # "exp" smoothing: the k-th zero count becomes 2^-k
    smoothed = np.where(matches == 0, 0.5**n_zeros, matches)
    logs = np.log(100 * smoothed / np.maximum(totals, 1)).mean(axis=1)
    log_brevity_penalty = np.minimum(0, 1 - n_reference / np.maximum(n_output, 1))
    defined = matches.any(axis=1) & totals.all(axis=1)
    return np.where(defined, np.exp(log_brevity_penalty + logs), 0.0)


def chrf_values(sums: Array) -> Array:
    """chrF from (R, 3 × orders) sums: per order the n-grams of the output, of the reference, and in common."""
    of_output, of_reference, common = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]  # (R, orders)
    counted = (of_output > 0) & (of_reference > 0)
    n_orders = np.maximum(counted.sum(axis=1), 1)
    precision = (counted * common / np.maximum(of_output, 1)).sum(axis=1) / n_orders
    recall = (counted * common / np.maximum(of_reference, 1)).sum(axis=1) / n_orders
    factor = _CHRF_BETA**2
    denominator = factor * precision + recall
    return cast(Array, 100 * (1 + factor) * precision * recall / np.where(denominator > 0, denominator, 1))


def ter_values(sums: Array) -> Array:
    """TER from (R, 2) sums: number of edits, mean length of the references."""
    edits, n_reference = sums[:, 0], sums[:, 1]
    rate = edits / np.where(n_reference > 0, n_reference, 1)
    return 100 * np.where(n_reference > 0, rate, edits > 0)
