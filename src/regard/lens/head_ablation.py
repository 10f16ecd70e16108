"""Recomputes a batch without one head.

B batch, S source, T target, D d_model, N real target tokens
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from regard.data import NO_TARGET, Batch
from regard.decoding import DecodingOptions, Hypothesis
from regard.lens.ablate import ablate
from regard.lens.anatomy import attention_layers
from regard.lens.interventions import Head, Interventions
from regard.lens.search import search, with_memory
from regard.models import TranslationModel
from regard.nn import Trace, linear_cross_entropy


class TokenScores(NamedTuple):
    """Sums over real target tokens: negative log-likelihood, and how many were predicted correctly."""

    nll: float = 0.0
    n_correct: float = 0.0
    n_tokens: int = 0

    def plus(self, other: TokenScores) -> TokenScores:
        return TokenScores(self.nll + other.nll, self.n_correct + other.n_correct, self.n_tokens + other.n_tokens)

    @property
    def loss(self) -> float:
        return self.nll / self.n_tokens

    @property
    def accuracy(self) -> float:
        return self.n_correct / self.n_tokens


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

    def scores(self, hidden: Tensor) -> TokenScores:
        """Scores of a decoder output (B, T, D), with all heads or without one."""
        real = self.batch.targets[0] != NO_TARGET
        model, targets = self.model, self.batch.targets[0][real]
        scores = linear_cross_entropy(hidden[real], model.output_weight, targets, bias=model.output_bias)
        return TokenScores(float(scores.nll), float(scores.n_correct), int(real.sum()))

    def without(self, head: Head) -> Tensor:
        """(B, T, D): the decoder's output without a head."""
        src, tgt_in = self.batch.inputs
        return self._ablated(head).features(src, tgt_in)

    def translate(self, *, end_id: int, begin_id: int, without: Head | None = None) -> list[Hypothesis]:
        """Greedy translations, with all heads or without one."""
        src = self.batch.inputs[0]
        model = with_memory(self.model, self.memory) if without is None else self._ablated(without)
        lengths = ((src != self.model.pad_id).sum(1) - 1).tolist()
        return search(model, src, lengths, DecodingOptions(beam=1), begin_id=begin_id, end_id=end_id)

    def _ablated(self, head: Head) -> TranslationModel:
        """The model without a head. The source is encoded again only if the head belongs to the encoder."""
        model = ablate(self.model, Interventions(heads_off=frozenset([head])), 1)
        site = attention_layers(self.trace.sites(), head.attention)[head.layer]
        return model if site.module in self.encoder_modules else with_memory(model, self.memory)
