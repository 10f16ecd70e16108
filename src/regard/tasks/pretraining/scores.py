"""How well a model answers the questions that it learns from: hidden words, next sentences, replaced words.

N targets, P passages
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data import NO_TARGET, Batch
from regard.evaluate.significance import DEFAULT_SEED, Interval, interval_95, resampled_sums
from regard.models import PretrainingModel
from regard.nn import linear
from regard.training.validation import evaluation_mode

_N_TRIALS = 1000
_ACCURACIES = {"words": "word_accuracy", "next": "next_accuracy"}


@dataclass
class _Answers:
    """To one question."""

    scale: float
    nll: list[float] = field(default_factory=list)  # sums
    counts: list[NDArray[np.int64]] = field(default_factory=list)  # (B, 2): right answers and targets of each passage
    scores: list[Tensor] = field(default_factory=list)  # (N,) of the second of two classes, and
    classes: list[Tensor] = field(default_factory=list)  # (N,) the right ones


@dataclass(frozen=True)
class Scores:
    """Measures by name, and the intervals of some of them."""

    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval]


def score(model: PretrainingModel, batches: Iterable[Batch], device: torch.device) -> Scores:
    """Asks all questions of some batches."""
    answers: dict[str, _Answers] = {}
    with evaluation_mode(model):
        for batch in batches:
            for term in model.terms(batch.to(device)):
                to = answers.setdefault(term.name, _Answers(term.scale))
                log_p = linear(term.hidden, term.weight, term.bias).float().log_softmax(-1).flatten(0, -2).cpu()
                targets = term.targets.flatten().cpu()
                is_asked = targets != NO_TARGET
                log_p, targets = log_p[is_asked], targets[is_asked]
                to.nll.append(-float(log_p.gather(-1, targets[:, None]).double().sum()))
                if term.name in _ACCURACIES:
                    is_right = (log_p.argmax(-1) == targets).numpy()
                    to.counts.append(_by_row(batch.targets[list(_ACCURACIES).index(term.name)], is_right))
                else:
                    to.scores.append(log_p[:, 1])
                    to.classes.append(targets)
    return _scores(answers)


def _by_row(targets: Tensor, is_right: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(B, 2): right answers, and targets of each row. The targets were asked row by row."""
    asked = (targets != NO_TARGET).numpy().reshape(len(targets), -1)
    rows = np.nonzero(asked)[0]
    return np.stack([np.bincount(rows[is_right], minlength=len(asked)), asked.sum(1)], axis=1)


def _scores(answers: Mapping[str, _Answers]) -> Scores:
    metrics, intervals, loss = {}, {}, 0.0
    for name, given in answers.items():
        n_targets = int(sum(counts[:, 1].sum() for counts in given.counts)) or sum(map(len, given.classes))
        loss += given.scale * sum(given.nll) / max(1, n_targets)
        if name in _ACCURACIES and n_targets:
            counts = np.concatenate(given.counts).astype(np.float64)  # (P, 2)
            sums = resampled_sums(counts, _N_TRIALS, DEFAULT_SEED)
            metrics[_ACCURACIES[name]] = float(counts[:, 0].sum() / n_targets)
            intervals[_ACCURACIES[name]] = interval_95(sums[:, 0] / np.maximum(1, sums[:, 1]))
        elif given.scores:
            metrics["replaced_auc"] = area_under_curve(
                torch.cat(given.scores).numpy(), torch.cat(given.classes).numpy()
            )
    return Scores({"loss": loss} | metrics, intervals)


def area_under_curve(scores: NDArray[np.floating], classes: NDArray[np.integer]) -> float:
    """The probability that one of class 1 gets a higher score than one of class 0; half of the ties count."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # (N,), equal scores have their mean rank
    n_1, n_0 = int((classes == 1).sum()), int((classes == 0).sum())
    if not n_1 or not n_0:
        return 0.5
    return float((ranks[classes == 1].sum() - n_1 * (n_1 + 1) / 2) / (n_1 * n_0))
