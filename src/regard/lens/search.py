"""How the lens finds a translation: the search that everyone uses, of a model that may be altered.

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


def find(
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
    """The best translation of each source of a batch (B, S), whose lengths without end symbol are given."""
    memory = model.encode(src) if memory is None else memory
    step, state = begin(model, memory, masked)
    config = model.config
    found = decode(
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
    return [one[0] for one in found]


def begin(model: Transformer, memory: TransformerMemory, masked: bool) -> tuple[StepFunction, Any]:
    """A step function, and the state before the first symbol.

    Where the mask is lifted, a new symbol changes what was computed of the older ones: no cache can be right.
    """
    if masked:
        return model.step, model.start(memory)
    return WholePrefix(model).step, Prefix(memory, torch.empty(len(memory.z), 0, dtype=torch.long))


@dataclass(frozen=True)
class Prefix:
    """All that was said so far (B, T), and the source."""

    memory: TransformerMemory
    symbols: Tensor

    def select(self, rows: Tensor) -> Prefix:
        return Prefix(self.memory.select(rows), self.symbols[rows])


@dataclass(frozen=True)
class WholePrefix:
    """Computes everything anew at each step."""

    model: Transformer

    def step(self, last: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        """(B,) → (B, V)."""
        symbols = torch.cat([state.symbols, last[:, None]], 1)
        hidden = self.model.decode(state.memory, symbols)[:, -1]
        log_probs = F.linear(hidden, self.model.output_weight).log_softmax(-1)
        return log_probs, Prefix(state.memory, symbols)
