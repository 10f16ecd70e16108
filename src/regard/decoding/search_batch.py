"""What a search works on: a step function, of one model or an ensemble, and a batch of sentences.

Shapes: B batch (sentences), P longest prefix, V vocabulary, M models of an ensemble
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor

# (B,) last tokens, state → (B, V) log-probabilities of the next token, new state.
# A state has `select(rows)`, which reorders, repeats or drops batch rows.
StepFunction = Callable[[Tensor, Any], tuple[Tensor, Any]]

FREE = -1  # in a prefix: no token is forced here


@dataclass(frozen=True)
class SearchBatch:
    """The sentences that are still searched. Finished sentences leave the batch."""

    begin_id: int
    end_id: int
    sentences: Tensor  # (B,): index of each row's sentence in the original batch
    limits: Tensor  # (B,): maximum number of tokens, including the end token
    prefixes: Tensor  # (B, P): tokens that the translation must begin with, padded with FREE

    @classmethod
    def create(
        cls,
        limits: Sequence[int],
        begin_id: int,
        end_id: int,
        prefixes: Sequence[Sequence[int]] | None = None,
        device: torch.device | str = "cpu",
    ) -> SearchBatch:
        """A batch of all sentences. A limit is raised if its prefix needs it: at least one more token can follow."""
        forced = [list(prefix) for prefix in prefixes] if prefixes is not None else [[] for _ in limits]
        longest = max(map(len, forced), default=0)
        raised = [max(limit, len(prefix) + 1) for limit, prefix in zip(limits, forced, strict=True)]
        padded = [prefix + [FREE] * (longest - len(prefix)) for prefix in forced]
        return cls(
            begin_id,
            end_id,
            torch.arange(len(forced), device=device),
            torch.tensor(raised, dtype=torch.long, device=device),
            torch.tensor(padded, dtype=torch.long, device=device).view(len(forced), longest),
        )

    def __len__(self) -> int:
        return len(self.sentences)

    def select(self, rows: Tensor) -> SearchBatch:
        return SearchBatch(self.begin_id, self.end_id, self.sentences[rows], self.limits[rows], self.prefixes[rows])

    def forced(self, n_tokens: int) -> Tensor | None:
        """(B,): the token that must come after `n_tokens` tokens, or FREE. None if all prefixes are shorter."""
        return self.prefixes[:, n_tokens] if n_tokens < self.prefixes.shape[1] else None

    def begin_tokens(self) -> Tensor:
        """(B,): the input of the first step."""
        return torch.full_like(self.sentences, self.begin_id)


@dataclass(frozen=True)
class EnsembleState:
    """The states of all models of an ensemble."""

    states: tuple[Any, ...]

    def select(self, rows: Tensor) -> EnsembleState:
        return EnsembleState(tuple(state.select(rows) for state in self.states))


def ensemble(steps: Sequence[StepFunction]) -> StepFunction:
    """A step function that averages the probabilities of several models: log (1/M Σ p_m).

    The mean of probabilities is again a distribution. With a mean of log-probabilities instead, a single model that
    gives a token a tiny probability would forbid it.
    """

    def step(last: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        results = [model_step(last, model_state) for model_step, model_state in zip(steps, state.states, strict=True)]
        log_probs = torch.stack([log_probs for log_probs, _ in results])  # (M, B, V)
        return log_probs.logsumexp(0) - log(len(results)), EnsembleState(tuple(new_state for _, new_state in results))

    return step
