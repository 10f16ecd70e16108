"""Recomputes a batch without one head.

B batch, T target, D d_model
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.data import NO_TARGET, Batch
from regard.decoding import DecodingOptions, Hypothesis
from regard.lens.ablate import ablate
from regard.lens.anatomy import attention_layers
from regard.lens.interventions import Head, Interventions
from regard.lens.search import search, with_memory
from regard.models import TranslationModel
from regard.nn import Trace, linear_cross_entropy
from regard.nn.cross_entropy import CrossEntropySums


@dataclass(frozen=True)
class TracedBatch:
    """A batch, and everything that the unchanged model computed for it."""

    model: TranslationModel
    batch: Batch
    trace: Trace
    memory: Any
    encoder_modules: frozenset[str]  # the modules that encode the source
    hidden: Tensor  # (B, T, D)

    @classmethod
    def of(cls, model: TranslationModel, batch: Batch) -> TracedBatch:
        trace, (src, tgt_in) = Trace(), batch.inputs
        memory = model.encode(src, trace)
        modules = frozenset(site.module for site in trace.sites())
        hidden = with_memory(model, memory).features(src, tgt_in, trace)
        return cls(model, batch, trace, memory, modules, hidden)

    def scores(self, without: Head | None = None) -> CrossEntropySums:
        """Sums over the real target tokens, with all heads or without one."""
        src, tgt_in = self.batch.inputs
        hidden = self.hidden if without is None else self._ablated(without).features(src, tgt_in)  # (B, T, D)
        real = self.batch.targets[0] != NO_TARGET
        model, targets = self.model, self.batch.targets[0][real]
        return linear_cross_entropy(hidden[real], model.output_weight, targets, bias=model.output_bias)

    def translate(self, *, end_id: int, begin_id: int, without: Head | None = None) -> list[Hypothesis]:
        """Greedy translations, with all heads or without one."""
        model = with_memory(self.model, self.memory) if without is None else self._ablated(without)
        return search(model, self.batch.inputs[0], DecodingOptions(beam=1), begin_id=begin_id, end_id=end_id)

    def _ablated(self, head: Head) -> TranslationModel:
        """The model without a head. The source is encoded again only if the head belongs to the encoder."""
        model = ablate(self.model, Interventions(heads_off=frozenset([head])), 1)
        site = attention_layers(self.trace.sites(), head.attention)[head.layer]
        return model if site.module in self.encoder_modules else with_memory(model, self.memory)
