"""Bootstrap resampling, and approximate randomisation between two systems.

The random draws equal those of sacreBLEU for the same seed, so intervals and p-values can be compared with it.
"""

# N sentences, R trials, K statistics

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from regard.evaluate.measures import Array

DEFAULT_SEED = 12345  # sacreBLEU's
_MAX_CELLS = 1 << 22  # in an (R, N) matrix in memory
_STUDENT_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # 97.5%, 1 to 10 degrees
_NORMAL = 1.959964  # the 97.5th percentile of the normal distribution
_BITS = 32  # random bits come in words of 32: blocks of whole words do not change the stream


@dataclass(frozen=True)
class Interval:
    """From the 2.5th to the 97.5th percentile."""

    low: float
    high: float


def interval_95(values: Array) -> Interval:
    """The central 95% of the values, by the same rule as sacreBLEU."""
    ordered = np.sort(values)
    outside = len(ordered) // 40
    return Interval(float(ordered[outside]), float(ordered[len(ordered) - outside - 1]))


def mean_interval(values: Sequence[float]) -> Interval:
    """The 95% interval of the mean of independent values, by Student's t; of two or more."""
    n, middle = len(values), fmean(values)
    half = student_t(n - 1) * stdev(values) / n**0.5
    return Interval(middle - half, middle + half)


def share_interval(n_hits: int, n: int) -> Interval:
    """The 95% interval of a share, by Wilson (1927): not empty for a share of 0 or 1, unlike a bootstrap's."""
    share, z2 = n_hits / n, _NORMAL**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _NORMAL / (1 + z2 / n) * (share * (1 - share) / n + z2 / (4 * n * n)) ** 0.5
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def interval_of_mean(values: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """The 95% interval of the mean of independent values, from theirs (Zou and Donner, 2008)."""
    pairs, n = list(zip(values, intervals, strict=True)), len(values)
    below = sum((value - interval.low) ** 2 for value, interval in pairs) ** 0.5
    above = sum((interval.high - value) ** 2 for value, interval in pairs) ** 0.5
    lowest, highest = fmean(interval.low for interval in intervals), fmean(interval.high for interval in intervals)
    return Interval(
        max(lowest, fmean(values) - below / n), min(highest, fmean(values) + above / n)
    )  # rounded: not −0.0


def student_t(degrees: int) -> float:
    """The 97.5th percentile: from a table, or above it by an expansion (Abramowitz and Stegun, 26.7.5)."""
    if degrees <= len(_STUDENT_T):
        return _STUDENT_T[degrees - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def resampled_sums(statistics: Array, n_trials: int, seed: int) -> Array:
    """Bootstrap: the summed statistics of N sentences drawn with replacement, R times."""
    rng = np.random.default_rng(seed)
    n_sentences = len(statistics)
    sums = np.empty((n_trials, statistics.shape[1]))
    for block in _blocks(n_trials, n_sentences):
        n_rows = block.stop - block.start
        drawn = rng.integers(0, n_sentences, size=(n_rows, n_sentences))
        drawn += np.arange(n_rows)[:, None] * n_sentences
        counts = np.bincount(drawn.ravel(), minlength=n_rows * n_sentences).reshape(n_rows, n_sentences)
        sums[block] = counts.astype(np.float64) @ statistics
    return sums  # (R, K)


def swapped_sums(a: Array, b: Array, n_trials: int, seed: int) -> tuple[Array, Array]:
    """Approximate randomisation: sums after swapping the outputs of each sentence with probability 1/2, R times."""
    rng = np.random.default_rng(seed)
    difference = a - b
    swapped_a = np.empty((n_trials, a.shape[1]))
    for block in _blocks(n_trials, len(a)):
        keeps = rng.integers(2, size=(block.stop - block.start, len(a)), dtype=bool)
        swapped_a[block] = keeps.astype(np.float64) @ difference
    swapped_a += b.sum(axis=0)
    return swapped_a, a.sum(axis=0) + b.sum(axis=0) - swapped_a


def p_value(trials: Array, observed: float) -> float:
    """The share of trials that reach the observed value.

    Unlike in sacreBLEU, a trial equal to the observation counts, so two equal systems get 1, not 1 / trials.
    """
    n_reaching = int((trials >= observed - 1e-9).sum())
    return (n_reaching + 1) / (len(trials) + 1)


def _blocks(n_trials: int, n_sentences: int) -> Iterator[slice]:
    n_rows = max(_BITS, _MAX_CELLS // n_sentences // _BITS * _BITS)
    for start in range(0, n_trials, n_rows):
        yield slice(start, min(start + n_rows, n_trials))
