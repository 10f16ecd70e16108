"""Measures of a classifier from its confusion matrix, with bootstrap intervals, and how honest its probabilities are.

N examples, C classes, R trials
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regard.evaluate.significance import DEFAULT_SEED, Interval, interval_95

N_TRIALS = 1000
_N_BINS = 10  # of probabilities, for the calibration error
_MAX_PRINTED = 20  # classes of a confusion matrix


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each class was predicted for each class."""

    classes: tuple[str, ...]
    counts: NDArray[np.int64]  # (C, C): rows are the true classes, columns the predicted ones

    @classmethod
    def of(cls, classes: Sequence[str], gold: Sequence[int], predicted: Sequence[int]) -> Confusion:
        n = len(classes)
        cells = np.asarray(gold, dtype=np.int64) * n + np.asarray(predicted, dtype=np.int64)
        return cls(tuple(classes), np.bincount(cells, minlength=n * n).reshape(n, n))

    @cached_property
    def measures(self) -> dict[str, float]:
        diagonal, rows, columns = self.counts.diagonal(), self.counts.sum(1), self.counts.sum(0)
        return {
            name: float(measure(diagonal[None], rows[None], columns[None])[0]) for name, measure in MEASURES.items()
        }

    def intervals(self, n_trials: int = N_TRIALS, seed: int = DEFAULT_SEED) -> dict[str, Interval]:
        """95% intervals: examples are drawn with replacement, which draws the cells of the matrix."""
        n = len(self.classes)
        cells = np.flatnonzero(self.counts)  # at most as many as examples
        counts = self.counts.ravel()[cells]
        total = int(counts.sum())
        drawn = np.random.default_rng(seed).multinomial(total, counts / total, size=n_trials).astype(np.float64)
        is_row, is_column = cells[:, None] // n == np.arange(n), cells[:, None] % n == np.arange(n)  # (cells, C)
        diagonal, rows, columns = (
            drawn @ where.astype(np.float64) for where in (is_row & is_column, is_row, is_column)
        )
        return {name: interval_95(measure(diagonal, rows, columns)) for name, measure in MEASURES.items()}

    def to_text(self) -> str:
        """A table: rows are the true classes, columns the predicted ones."""
        n = len(self.classes)
        if n > _MAX_PRINTED:
            return f"{n} classes: --json has their confusion matrix, --png draws it\n"
        cells = [
            ["", *self.classes],
            *([name, *map(str, row)] for name, row in zip(self.classes, self.counts, strict=True)),
        ]
        widths = [max(len(row[i]) for row in cells) for i in range(n + 1)]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            )
            for row in cells
        ]
        return "true \\ predicted\n" + "".join(f"{line.rstrip()}\n" for line in lines)


_Sums = NDArray[np.floating] | NDArray[np.integer]  # (R, C)
_Values = NDArray[np.float64]  # (R,)


def _accuracy(diagonal: _Sums, rows: _Sums, columns: _Sums) -> _Values:
    return np.asarray(diagonal.sum(1) / rows.sum(1))


def _macro_f1(diagonal: _Sums, rows: _Sums, columns: _Sums) -> _Values:
    """The mean over classes of 2 · right / (true + predicted); 0 for a class that neither occurs nor is predicted."""
    total = rows + columns
    return np.asarray((2 * diagonal / np.where(total > 0, total, 1)).mean(1))


def _matthews(diagonal: _Sums, rows: _Sums, columns: _Sums) -> _Values:
    """The correlation of true and predicted classes (Gorodkin, 2004); 0 if one of them is always the same."""
    n, rows, columns = rows.sum(1, dtype=np.float64), rows.astype(np.float64), columns.astype(np.float64)
    covariance = diagonal.sum(1) * n - (rows * columns).sum(1)
    variances = (n**2 - (rows**2).sum(1)) * (n**2 - (columns**2).sum(1))
    return np.asarray(covariance / np.sqrt(np.where(variances > 0, variances, 1)))


MEASURES: Mapping[str, Callable[[_Sums, _Sums, _Sums], _Values]] = {
    "accuracy": _accuracy,
    "macro_f1": _macro_f1,
    "matthews": _matthews,
}


def calibration_error(probabilities: Sequence[float], is_right: Sequence[bool]) -> float:
    """Expected calibration error (Guo et al., 2017): |mean probability − share that is right|, over bins."""
    p, right = np.asarray(probabilities, dtype=np.float64), np.asarray(is_right, dtype=np.float64)
    bins = np.minimum((p * _N_BINS).astype(np.int64), _N_BINS - 1)
    differences = np.bincount(bins, p - right, minlength=_N_BINS)
    return float(np.abs(differences).sum() / max(1, len(p)))
