"""Decoding for the lens: the ordinary search, with a model that may be ablated.

B batch, S source, T target so far, V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decoding import DecodingOptions, Hypothesis, StepFunction, decode
from regard.decoding.beam import BeamStep
from regard.models import TranslationModel


def search(
    model: TranslationModel,
    src: Tensor,
    lengths: Sequence[int],
    options: DecodingOptions,
    *,
    begin_id: int,
    end_id: int,
    masked: bool = True,
    beam_steps: list[BeamStep] | None = None,
) -> list[Hypothesis]:
    """The best translation of each source of a batch (B, S); `lengths` do not count the end token."""
    step, state = start_search(model, src, masked)
    hypotheses = decode(
        step,
        state,
        [range(length) for length in lengths],
        options,
        begin_id=begin_id,
        end_id=end_id,
        max_length=model.config.max_length,
        device=src.device,
        beam_steps=beam_steps,
    )
    return [n_best[0] for n_best in hypotheses]


def start_search(model: TranslationModel, src: Tensor, masked: bool) -> tuple[StepFunction, Any]:
    """A step function, and the state before the first token.

    Without the mask, a new token changes what was computed for earlier ones, so nothing can be cached but the source.
    """
    memory = model.encode(src)
    if masked:
        return model.step, model.start(memory)
    return UncachedDecoder(model).step, Prefix(src, memory, src[:, :0])


def with_memory(model: TranslationModel, memory: Any) -> TranslationModel:
    """The same model, which does not encode the source again."""
    encoded = copy(model)
    encoded.__dict__["encode"] = lambda src, trace=None: memory
    return encoded


@dataclass(frozen=True)
class Prefix:
    """The source (B, S), as ids and encoded, and the target so far (B, T)."""

    src: Tensor
    memory: Any
    tokens: Tensor

    def select(self, rows: Tensor) -> Prefix:
        return Prefix(self.src[rows], self.memory.select(rows), self.tokens[rows])


@dataclass(frozen=True)
class UncachedDecoder:
    """Recomputes the whole prefix at each step."""

    model: TranslationModel

    def step(self, last: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        """(B,) → (B, V)."""
        tokens = torch.cat([state.tokens, last[:, None]], 1)
        hidden = with_memory(self.model, state.memory).features(state.src, tokens)[:, -1]
        return self.model.logits(hidden).log_softmax(-1), Prefix(state.src, state.memory, tokens)
