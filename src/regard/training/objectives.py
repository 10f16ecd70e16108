"""The training objective: cross-entropy with label smoothing, for every term of a model's loss.

N predictions without NO_TARGET, D size of the last layer, P passes
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.data import NO_TARGET, Batch
from regard.models import Model, Term
from regard.nn import linear_cross_entropy


class TermSums(NamedTuple):
    """Sums over the targets of one term; `loss` carries the gradient."""

    name: str
    scale: float
    loss: Tensor
    nll: Tensor
    n_correct: Tensor
    n_targets: int


def term_sums(model: Model, batch: Batch, smoothing: float = 0.0, r_drop: float = 0.0) -> list[TermSums]:
    """Cross-entropy with label smoothing (sections 3.4 and 5.4) of each term of the model's loss.

    R-Drop (Liang et al., 2021), if its weight is above 0: two passes with different dropout, and a penalty on their
    divergence. Half of the sum in their paper, so that a weight of 0 is plain cross-entropy at the same learning rate.
    """
    passes = 2 if r_drop else 1
    return [_sums(term, passes, smoothing, r_drop) for term in model.terms(batch.repeat(passes))]


def _sums(term: Term, passes: int, smoothing: float, r_drop: float) -> TermSums:
    # float32: under bfloat16 autocast the softmax over a whole vocabulary would drift
    hidden = term.hidden.float().reshape(passes, -1, term.hidden.shape[-1])  # (P, …, D)
    targets = term.targets.reshape(passes, -1)[0]
    is_asked = targets != NO_TARGET
    if not bool(torch.all(is_asked)):
        hidden, targets = hidden[:, is_asked], targets[is_asked]  # (P, N, D), (N,)
    scores = linear_cross_entropy(hidden, term.weight, targets, smoothing, r_drop, bias=term.bias)
    return TermSums(term.name, term.scale, scores.loss, scores.nll, scores.n_correct, len(targets))
