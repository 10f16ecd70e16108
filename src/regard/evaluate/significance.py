"""Chance, from a seed: sentences drawn again, and sentences swapped between two systems.

The draws are those of sacreBLEU for the same seed, so that intervals and p-values can be checked against it.
"""

# N sentences, R trials, K statistics

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.evaluate.measures import Array

DEFAULT_SEED = 12345  # sacreBLEU's
_MAX_CELLS = 1 << 22  # of an (R, N) matrix that is held at once
_BITS = 32  # random bits are drawn in words of 32; whole words keep the stream the same in blocks


@dataclass(frozen=True)
class Interval:
    """From the 2.5th to the 97.5th percentile."""

    low: float
    high: float


def interval_95(values: Array) -> Interval:
    """Where 95% of the values lie, counted as sacreBLEU counts."""
    ordered = np.sort(values)
    outside = len(ordered) // 40
    return Interval(float(ordered[outside]), float(ordered[len(ordered) - outside - 1]))


def resampled_sums(statistics: Array, n_trials: int, seed: int) -> Array:
    """Bootstrap: each of R times, N of the N sentences are drawn with replacement and their statistics summed."""
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
    """Approximate randomisation: each of R times, each sentence's two outputs change sides, or not, by a coin."""
    rng = np.random.default_rng(seed)
    apart = a - b
    swapped_a = np.empty((n_trials, a.shape[1]))
    for block in _blocks(n_trials, len(a)):
        kept = rng.integers(2, size=(block.stop - block.start, len(a)), dtype=bool)
        swapped_a[block] = kept.astype(np.float64) @ apart
    swapped_a += b.sum(axis=0)
    return swapped_a, a.sum(axis=0) + b.sum(axis=0) - swapped_a


def p_value(trials: Array, observed: float) -> float:
    """How often chance alone gives at least what was observed.

    Unlike sacreBLEU's, a trial that equals the observation counts, so two equal systems get 1, not 1 / trials.
    """
    n_reaching = int((trials >= observed - 1e-9).sum())
    return (n_reaching + 1) / (len(trials) + 1)


def _blocks(n_trials: int, n_sentences: int) -> Iterator[slice]:
    n_rows = max(_BITS, _MAX_CELLS // n_sentences // _BITS * _BITS)
    for start in range(0, n_trials, n_rows):
        yield slice(start, min(start + n_rows, n_trials))
