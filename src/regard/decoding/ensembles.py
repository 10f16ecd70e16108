"""Several models as one: their probabilities are averaged at each step.

B batch, V vocabulary, M models
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor

from regard.decoding.search_batch import Step


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members: their rows move together."""

    members: tuple[Any, ...]

    def select(self, rows: Tensor) -> EnsembleState:
        return EnsembleState(tuple(state.select(rows) for state in self.members))


def ensemble_state(states: Sequence[Any]) -> EnsembleState:
    """The state before the first symbol, from those of the members."""
    return EnsembleState(tuple(states))


def ensemble(steps: Sequence[Step]) -> Step:
    """One step function of many: log (1/M Σ p_m). A mean of probabilities is a distribution again, and one model
    that is sure counts for more than in a mean of log-probabilities, where one that is unsure can forbid a symbol.
    """

    def step(last: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        answers = [one(last, member) for one, member in zip(steps, state.members, strict=True)]
        log_probs = torch.stack([answer[0] for answer in answers])  # (M, B, V)
        return log_probs.logsumexp(0) - log(len(answers)), EnsembleState(tuple(answer[1] for answer in answers))

    return step
