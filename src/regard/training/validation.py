"""How well the model predicts text that it is not trained on, given the right prefix (teacher forcing)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp

import torch
from torch import nn

from regard.data import Batch
from regard.training.objectives import cross_entropy


@dataclass(frozen=True)
class Validation:
    """Means over the real target symbols of the validation set."""

    loss: float  # −log p of the right symbol, without smoothing
    accuracy: float  # share of symbols where the right one was the likeliest

    @property
    def perplexity(self) -> float:
        return exp(min(self.loss, 700.0))


def validate(model: nn.Module, batches: Iterable[Batch], device: torch.device) -> Validation:
    """One pass, without dropout; leaves the model training or not, as it was."""
    objective, was_training = cross_entropy(), model.training
    model.eval()
    nll, n_right, n_tokens = 0.0, 0.0, 0
    try:
        with torch.inference_mode():
            for batch in batches:
                outcome = objective(model, batch.to(device))  # type: ignore[arg-type]
                nll += float(outcome.nll)
                n_right += float(outcome.n_right)
                n_tokens += outcome.n_tokens
    finally:
        model.train(was_training)
    return Validation(nll / max(1, n_tokens), n_right / max(1, n_tokens))
