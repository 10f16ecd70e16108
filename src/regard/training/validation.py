"""How well the model predicts text that it is not trained on, and how well it translates it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import exp
from typing import NamedTuple

import torch
from torch import nn

from regard.data import Batch
from regard.training.objectives import cross_entropy


class Sample(NamedTuple):
    """One sentence to look at."""

    source: str
    reference: str
    translation: str


class Translated(NamedTuple):
    """What the model made of some validation sentences without being told the right prefix."""

    bleu: float
    chrf: float
    samples: tuple[Sample, ...]


Translate = Callable[[nn.Module], Translated]


@dataclass(frozen=True)
class Validation:
    """Means over the real target symbols of the validation set."""

    loss: float  # −log p of the right symbol, without smoothing
    accuracy: float  # share of symbols where the right one was the likeliest
    translated: Translated | None = None

    @property
    def perplexity(self) -> float:
        return exp(min(self.loss, 700.0))

    def score(self, by: str) -> float:
        """What checkpoints are ranked by; lower is better."""
        if by == "loss" or self.translated is None:
            return self.loss
        return -(self.translated.bleu if by == "bleu" else self.translated.chrf)


def validate(model: nn.Module, batches: Iterable[Batch], device: torch.device) -> Validation:
    """One pass, without dropout, given the right prefix each time (teacher forcing); leaves the model as it was."""
    objective, was_training = cross_entropy(), model.training
    model.eval()
    nll, n_correct, n_tokens = 0.0, 0.0, 0
    try:
        with torch.inference_mode():
            for batch in batches:
                outcome = objective(model, batch.to(device))  # type: ignore[arg-type]
                nll += float(outcome.nll)
                n_correct += float(outcome.n_correct)
                n_tokens += outcome.n_tokens
    finally:
        model.train(was_training)
    return Validation(nll / max(1, n_tokens), n_correct / max(1, n_tokens))
