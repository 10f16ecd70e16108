"""What a search works on, beside the options: how a model is asked, and what is given about each sentence.

B batch (sentences), P longest prefix, V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor

# (B,) last symbols, state → (B, V) log-probabilities of the next symbol, the state that includes them.
# A state has `select(rows)`: its batch rows in another order, repeated or left out.
StepFunction = Callable[[Tensor, Any], tuple[Tensor, Any]]

FREE = -1  # stands in a prefix where nothing is forced


@dataclass(frozen=True)
class SearchBatch:
    """B sentences that are searched together."""

    begin_id: int
    end_id: int
    numbers: Tensor  # (B,): which sentence a row is, when others have left
    limits: Tensor  # (B,): at most so many symbols, the end symbol among them
    prefixes: Tensor  # (B, P): what a translation must begin with, and FREE behind

    @classmethod
    def of(
        cls,
        limits: Sequence[int],
        begin_id: int,
        end_id: int,
        prefixes: Sequence[Sequence[int]] | None = None,
        device: torch.device | str = "cpu",
    ) -> SearchBatch:
        """A limit never cuts a prefix: one symbol more can always follow."""
        forced = [list(prefix) for prefix in prefixes] if prefixes is not None else [[] for _ in limits]
        longest = max(map(len, forced), default=0)
        lengths = [max(limit, len(prefix) + 1) for limit, prefix in zip(limits, forced, strict=True)]
        table = [prefix + [FREE] * (longest - len(prefix)) for prefix in forced]
        return cls(
            begin_id,
            end_id,
            torch.arange(len(forced), device=device),
            torch.tensor(lengths, dtype=torch.long, device=device),
            torch.tensor(table, dtype=torch.long, device=device).view(len(forced), longest),
        )

    def __len__(self) -> int:
        return len(self.numbers)

    def select(self, rows: Tensor) -> SearchBatch:
        return SearchBatch(self.begin_id, self.end_id, self.numbers[rows], self.limits[rows], self.prefixes[rows])

    def forced(self, n_symbols: int) -> Tensor | None:
        """(B,): the symbol that must come after `n_symbols`, or FREE; None when no sentence has one left."""
        return self.prefixes[:, n_symbols] if n_symbols < self.prefixes.shape[1] else None

    def begin(self) -> Tensor:
        """(B,): what stands before the first symbol."""
        return torch.full_like(self.numbers, self.begin_id)


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members: their rows move together."""

    members: tuple[Any, ...]

    def select(self, rows: Tensor) -> EnsembleState:
        return EnsembleState(tuple(state.select(rows) for state in self.members))


def ensemble_state(states: Sequence[Any]) -> EnsembleState:
    """The state before the first symbol, from those of the members."""
    return EnsembleState(tuple(states))


def ensemble(steps: Sequence[StepFunction]) -> StepFunction:
    """One step function of many: log (1/M Σ p_m). A mean of probabilities is a distribution again, and one model
    that is sure counts for more than in a mean of log-probabilities, where one that is unsure can forbid a symbol.
    """

    def step(last: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        answers = [one(last, member) for one, member in zip(steps, state.members, strict=True)]
        log_probs = torch.stack([answer[0] for answer in answers])  # (M, B, V)
        return log_probs.logsumexp(0) - log(len(answers)), EnsembleState(tuple(answer[1] for answer in answers))

    return step
