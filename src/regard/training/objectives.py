"""What is minimised. An objective is (model, batch) → Outcome; the loop never changes for a new one.

B batch, T target, D d_model, N real target symbols
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.data import Batch
from regard.models import TranslationModel
from regard.nn import linear_cross_entropy, linear_r_drop
from regard.training.config import TrainingConfig


class Outcome(NamedTuple):
    """Sums over the real target symbols of a batch; `loss` carries the gradient."""

    loss: Tensor
    nll: Tensor
    n_correct: Tensor
    n_tokens: int


Objective = Callable[[TranslationModel, Batch], Outcome]


def make_objective(config: TrainingConfig) -> Objective:
    """As the configuration says."""
    return r_drop(config.smoothing, config.r_drop) if config.r_drop else cross_entropy(config.smoothing)


def cross_entropy(smoothing: float = 0.0) -> Objective:
    """Sections 3.4 and 5.4: the right symbol's cross-entropy, smoothed."""

    def objective(model: TranslationModel, batch: Batch) -> Outcome:
        hidden, targets = _real(model, batch)
        scores = linear_cross_entropy(hidden[0], model.output_weight, targets, smoothing)
        return Outcome(scores.loss, scores.nll, scores.n_correct, len(targets))

    return objective


def r_drop(smoothing: float, weight: float) -> Objective:
    """Two passes under different dropout, and a penalty for disagreeing (Liang et al., 2021).

    Half the sum that their paper writes, so that a weight of 0 is plain cross-entropy at the same rate.
    """

    def objective(model: TranslationModel, batch: Batch) -> Outcome:
        hidden, targets = _real(model, batch, passes=2)
        scores = linear_r_drop(hidden, model.output_weight, targets, smoothing, weight)
        return Outcome(scores.loss, scores.nll, scores.n_correct, len(targets))

    return objective


def _real(model: TranslationModel, batch: Batch, passes: int = 1) -> tuple[Tensor, Tensor]:
    """The features and targets of what is not padding: (P, N, D), (N,); each pass draws its own dropout."""
    src, tgt_in = batch.src.repeat(passes, 1), batch.tgt_in.repeat(passes, 1)
    # float32: under bfloat16 autocast the softmax over a whole vocabulary would drift
    hidden = model.features(src, tgt_in).float().unflatten(0, (passes, -1)).flatten(1, 2)  # (P, B·T, D)
    targets = batch.tgt_out.flatten()
    real = targets != model.pad_id
    return (hidden, targets) if bool(torch.all(real)) else (hidden[:, real], targets[real])
