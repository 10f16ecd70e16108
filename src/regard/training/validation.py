"""The result of a validation; loss and accuracy, with the correct previous tokens given (teacher forcing)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from regard.data import Batch
from regard.models import Model
from regard.training.objectives import term_sums


class Validation(NamedTuple):
    """The measures of a model on the validation data, and some of its outputs to show.

    A sample has texts by name: first the input, last the output of the model, and between them what it should be.
    """

    metrics: Mapping[str, float]
    samples: tuple[Mapping[str, str], ...] = ()


class TermScores(NamedTuple):
    """Means over the targets of one term."""

    loss: float = 0.0  # negative log-likelihood, without smoothing
    accuracy: float = 0.0  # share of targets that got the highest probability


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """No dropout and no gradients inside the `with` block."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def score_terms(model: Model, batches: Iterable[Batch], device: torch.device) -> dict[str, TermScores]:
    """Scores of every term of the model's loss, by name."""
    totals: dict[str, tuple[float, float, int]] = {}
    with evaluation_mode(model):
        for batch in batches:
            for sums in term_sums(model, batch.to(device)):
                nll, n_correct, n = totals.get(sums.name, (0.0, 0.0, 0))
                totals[sums.name] = nll + float(sums.nll), n_correct + float(sums.n_correct), n + sums.n_targets
    return {name: TermScores(nll / max(1, n), right / max(1, n)) for name, (nll, right, n) in totals.items()}
