"""Scores by sentence length, as in Figure 2 of Bahdanau et al. (2015): five buckets of about as many sentences each."""

# N sentences, R trials

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.evaluate.measures import Measure, Measured, Measures
from regard.evaluate.significance import Interval, interval_95, resampled_sums

Side = Literal["source", "reference"]

_N_BUCKETS = 5


class LengthBucket(NamedTuple):
    """The sentences whose lengths are between two numbers of tokens."""

    label: str
    mean_length: float
    inside: NDArray[np.bool_]  # (N,)


@dataclass(frozen=True)
class BucketScore:
    """Scores of the sentences of one bucket."""

    label: str
    mean_length: float
    n_sentences: int
    bleu: float
    bleu_interval: Interval
    chrf: float


def measured_side(
    measures: Measures, sources: Sequence[str] | None, references: Sequence[Sequence[str]]
) -> tuple[Side, list[LengthBucket]]:
    """Buckets by the length of the source; where there is none, of the first reference."""
    side: Side = "reference" if sources is None else "source"
    return side, length_buckets(measures.n_tokens(references[0] if sources is None else sources))


def length_buckets(lengths: Sequence[int]) -> list[LengthBucket]:
    """At most five, fewer if many sentences have the same length."""
    of_each, ordered = np.array(lengths), np.sort(lengths)
    starts = sorted({int(ordered[len(ordered) * i // _N_BUCKETS]) for i in range(_N_BUCKETS)})
    numbers = np.searchsorted(starts, of_each, side="right") - 1  # (N,)
    buckets = []
    for number in range(len(starts)):
        inside = numbers == number
        low, high = int(of_each[inside].min()), int(of_each[inside].max())
        label = f"{low}–{high}" if low < high else f"{low}"
        buckets.append(LengthBucket(label, float(of_each[inside].mean()), inside))
    return buckets


def bucket_score(
    bucket: LengthBucket, measures: Measures, bleu: Measured, chrf: Measured, n_bootstrap: int, seed: int
) -> BucketScore:
    """BLEU with its 95% interval, and chrF++."""
    rows = bleu.statistics[bucket.inside]
    interval = interval_95(measures.bleu.values(resampled_sums(rows, n_bootstrap, seed)))
    scores = value(measures.bleu, bleu, bucket), interval, value(measures.chrf, chrf, bucket)
    return BucketScore(bucket.label, bucket.mean_length, len(rows), *scores)


def value(measure: Measure, measured: Measured, bucket: LengthBucket) -> float:
    """The corpus score of the sentences of a bucket."""
    return float(measure.values(measured.statistics[bucket.inside].sum(axis=0, keepdims=True))[0])
