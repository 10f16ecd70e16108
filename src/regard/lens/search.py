"""Decoding for the lens: the ordinary search, with a model that may be ablated.

B batch, T target so far, V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding import DecodingOptions, Hypothesis, StepFunction, decode
from regard.decoding.beam import BeamStep
from regard.models.transformer import Transformer, TransformerMemory


def search(
    model: Transformer,
    src: Tensor,
    lengths: Sequence[int],
    options: DecodingOptions,
    *,
    begin_id: int,
    end_id: int,
    masked: bool = True,
    beam_steps: list[BeamStep] | None = None,
    memory: TransformerMemory | None = None,
) -> list[Hypothesis]:
    """The best translation of each source of a batch (B, S); `lengths` do not count the end token."""
    memory = model.encode(src) if memory is None else memory
    step, state = start_search(model, memory, masked)
    config = model.config
    hypotheses = decode(
        step,
        state,
        [range(length) for length in lengths],
        options,
        begin_id=begin_id,
        end_id=end_id,
        max_length=config.max_positions if config.positions == "learned" else None,
        device=src.device,
        beam_steps=beam_steps,
    )
    return [n_best[0] for n_best in hypotheses]


def start_search(model: Transformer, memory: TransformerMemory, masked: bool) -> tuple[StepFunction, Any]:
    """A step function, and the state before the first token.

    Without the mask, a new token changes the keys and values of earlier ones, so they cannot be cached.
    """
    if masked:
        return model.step, model.start(memory)
    return UncachedDecoder(model).step, Prefix(memory, torch.empty(len(memory.z), 0, dtype=torch.long))


@dataclass(frozen=True)
class Prefix:
    """The target so far (B, T), and the encoded source."""

    memory: TransformerMemory
    tokens: Tensor

    def select(self, rows: Tensor) -> Prefix:
        return Prefix(self.memory.select(rows), self.tokens[rows])


@dataclass(frozen=True)
class UncachedDecoder:
    """Recomputes the whole prefix at each step."""

    model: Transformer

    def step(self, last: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        """(B,) → (B, V)."""
        tokens = torch.cat([state.tokens, last[:, None]], 1)
        hidden = self.model.decode(state.memory, tokens)[:, -1]
        log_probs = F.linear(hidden, self.model.output_weight).log_softmax(-1)
        return log_probs, Prefix(state.memory, tokens)
