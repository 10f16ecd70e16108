"""Decoding for the lens: the ordinary search, with a model that may be ablated.

B batch, S source, T target so far, V vocabulary
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.decoding import DecodingOptions, Hypothesis, StepFunction, decode
from regard.decoding.beam import BeamStep
from regard.models import TranslationModel


def search(
    model: TranslationModel,
    src: Tensor,
    options: DecodingOptions,
    *,
    begin_id: int,
    end_id: int,
    masked: bool = True,
    beam_steps: list[BeamStep] | None = None,
) -> list[Hypothesis]:
    """The best translation of each source of a batch (B, S)."""
    step, state = start_search(model, src, masked)
    lengths = ((src != model.pad_id).sum(1) - 1).tolist()  # without the end token
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

    def step(last: Tensor, prefix: Prefix) -> tuple[Tensor, Prefix]:
        """(B,) → (B, V), from the whole prefix."""
        tokens = torch.cat([prefix.tokens, last[:, None]], 1)
        hidden = with_memory(model, prefix.memory).features(prefix.src, tokens)[:, -1]
        return model.logits(hidden).log_softmax(-1), replace(prefix, tokens=tokens)

    return step, Prefix(src, memory, src[:, :0])


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
