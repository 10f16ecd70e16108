"""Recomputes a batch without one head, starting from that head's layer.

B batch, S source, T target, D d_model, N real target tokens
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from regard.data import NO_TARGET, Batch
from regard.decoding import DecodingOptions, Hypothesis
from regard.lens.ablate import ablate, without_head
from regard.lens.interventions import Head, Interventions
from regard.lens.search import search
from regard.models.transformer import Transformer, TransformerMemory
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

    model: Transformer
    batch: Batch
    trace: Trace
    memory: TransformerMemory
    hidden: Tensor  # (B, T, D)

    @classmethod
    def of(cls, model: Transformer, batch: Batch) -> TracedBatch:
        trace = Trace()
        memory = model.encode(batch.inputs[0], trace)
        return cls(model, batch, trace, memory, model.decode(memory, batch.inputs[1], trace))

    def scores(self, hidden: Tensor) -> TokenScores:
        """Scores of a decoder output (B, T, D), with all heads or without one."""
        real = self.batch.targets[0] != NO_TARGET
        scores = linear_cross_entropy(hidden[real], self.model.output_weight, self.batch.targets[0][real])
        return TokenScores(float(scores.nll), float(scores.n_correct), int(real.sum()))

    def without(self, head: Head) -> Tensor:
        """(B, T, D): the decoder's output without a head. Earlier layers are not recomputed."""
        if head.attention == "encoder":
            return self.model.decode(self._encode_without(head), self.batch.inputs[1])
        y = self.trace[f"decoder.{head.layer}.self.before"]
        layers = list(self.model.decoder)[head.layer :]
        for layer in (without_head(layers[0], head.attention, head.head), *layers[1:]):
            y = layer(y, self.memory)
        hidden: Tensor = self.model.decoder_norm(y)
        return hidden

    def translate(self, *, end_id: int, begin_id: int, without: Head | None = None) -> list[Hypothesis]:
        """Greedy translations, with all heads or without one."""
        memory, heads_off = self.memory, frozenset[Head]() if without is None else frozenset([without])
        if without is not None and without.attention == "encoder":
            memory = self._encode_without(without)
        model = ablate(self.model, Interventions(heads_off=heads_off), 1)
        lengths = ((self.batch.inputs[0] != self.model.pad_id).sum(1) - 1).tolist()
        return search(
            model,
            self.batch.inputs[0],
            lengths,
            DecodingOptions(beam=1),
            begin_id=begin_id,
            end_id=end_id,
            memory=memory,
        )

    def _encode_without(self, head: Head) -> TransformerMemory:
        x, layers = self.trace[f"encoder.{head.layer}.self.before"], list(self.model.encoder)[head.layer :]
        for layer in (without_head(layers[0], head.attention, head.head), *layers[1:]):
            x = layer(x, self.memory.visible)
        return TransformerMemory(self.model.encoder_norm(x), self.memory.visible)
