"""Scores on the validation set: loss and accuracy with teacher forcing, BLEU and chrF of translations."""

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
    """A validation sentence and its translation, to show during training."""

    source: str
    reference: str
    translation: str


class TranslationScores(NamedTuple):
    """Scores of translated validation sentences, and the first few of them."""

    bleu: float
    chrf: float
    samples: tuple[Sample, ...]


TranslationScorer = Callable[[nn.Module], TranslationScores]


@dataclass(frozen=True)
class Validation:
    """Means over the target tokens of the validation set."""

    loss: float  # negative log-likelihood, without smoothing
    accuracy: float  # share of tokens where the reference token has the highest probability
    translation: TranslationScores | None = None

    @property
    def perplexity(self) -> float:
        return exp(min(self.loss, 700.0))

    def score(self, by: str) -> float:
        """The value that ranks checkpoints; lower is better."""
        if by == "loss" or self.translation is None:
            return self.loss
        return -(self.translation.bleu if by == "bleu" else self.translation.chrf)


def validate(model: nn.Module, batches: Iterable[Batch], device: torch.device) -> Validation:
    """One pass in evaluation mode with teacher forcing; restores the mode of the model."""
    objective, was_training = cross_entropy(), model.training
    model.eval()
    nll, n_correct, n_tokens = 0.0, 0.0, 0
    try:
        with torch.inference_mode():
            for batch in batches:
                sums = objective(model, batch.to(device))  # type: ignore[arg-type]
                nll += float(sums.nll)
                n_correct += float(sums.n_correct)
                n_tokens += sums.n_tokens
    finally:
        model.train(was_training)
    return Validation(nll / max(1, n_tokens), n_correct / max(1, n_tokens))
