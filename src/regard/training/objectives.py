"""Training objectives: functions (model, batch) → BatchLoss, so that the loop does not change for a new one.

B batch, T target, D d_model, N target tokens without padding, P passes
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


class BatchLoss(NamedTuple):
    """Sums over the target tokens of a batch, without padding; `loss` carries the gradient."""

    loss: Tensor
    nll: Tensor
    n_correct: Tensor
    n_tokens: int


Objective = Callable[[TranslationModel, Batch], BatchLoss]


def make_objective(config: TrainingConfig) -> Objective:
    """The objective of a training configuration."""
    return r_drop(config.smoothing, config.r_drop) if config.r_drop else cross_entropy(config.smoothing)


def cross_entropy(smoothing: float = 0.0) -> Objective:
    """Cross-entropy with label smoothing (sections 3.4 and 5.4)."""

    def objective(model: TranslationModel, batch: Batch) -> BatchLoss:
        hidden, targets = _features_and_targets(model, batch)
        scores = linear_cross_entropy(hidden[0], model.output_weight, targets, smoothing)
        return BatchLoss(scores.loss, scores.nll, scores.n_correct, len(targets))

    return objective


def r_drop(smoothing: float, weight: float) -> Objective:
    """R-Drop (Liang et al., 2021): two passes with different dropout, and a penalty on their divergence.

    Half of the sum in their paper, so that a weight of 0 is plain cross-entropy at the same learning rate.
    """

    def objective(model: TranslationModel, batch: Batch) -> BatchLoss:
        hidden, targets = _features_and_targets(model, batch, passes=2)
        scores = linear_r_drop(hidden, model.output_weight, targets, smoothing, weight)
        return BatchLoss(scores.loss, scores.nll, scores.n_correct, len(targets))

    return objective


def _features_and_targets(model: TranslationModel, batch: Batch, passes: int = 1) -> tuple[Tensor, Tensor]:
    """Features (P, N, D) and targets (N,) without padding; each pass has its own dropout."""
    src, tgt_in = batch.src.repeat(passes, 1), batch.tgt_in.repeat(passes, 1)
    # float32: under bfloat16 autocast the softmax over a whole vocabulary would drift
    hidden = model.features(src, tgt_in).float().unflatten(0, (passes, -1)).flatten(1, 2)  # (P, B·T, D)
    targets = batch.tgt_out.flatten()
    is_token = targets != model.pad_id
    return (hidden, targets) if bool(torch.all(is_token)) else (hidden[:, is_token], targets[is_token])
