"""A batch that was read once, and is read again without one head: from that head's layer on, not from the beginning.

B batch, S source, T target, D d_model, N real target symbols
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from regard.data import Batch
from regard.decoding import DecodingOptions, Hypothesis
from regard.lens.ablate import altered, silenced
from regard.lens.interventions import Head, Interventions
from regard.lens.search import find
from regard.models.transformer import Transformer, TransformerMemory
from regard.nn import Trace, linear_cross_entropy


class Correctness(NamedTuple):
    """Sums over real target symbols: how surprising they were, and how often the right one was the likeliest."""

    nll: float = 0.0
    n_correct: float = 0.0
    n_symbols: int = 0

    def plus(self, other: Correctness) -> Correctness:
        return Correctness(self.nll + other.nll, self.n_correct + other.n_correct, self.n_symbols + other.n_symbols)

    @property
    def loss(self) -> float:
        return self.nll / self.n_symbols

    @property
    def accuracy(self) -> float:
        return self.n_correct / self.n_symbols


@dataclass(frozen=True)
class Reading:
    """A batch, and all that the model computed of it."""

    model: Transformer
    batch: Batch
    trace: Trace
    memory: TransformerMemory
    hidden: Tensor  # (B, T, D)

    @classmethod
    def of(cls, model: Transformer, batch: Batch) -> Reading:
        trace = Trace()
        memory = model.encode(batch.src, trace)
        return cls(model, batch, trace, memory, model.decode(memory, batch.tgt_in, trace))

    def correctness(self, hidden: Tensor) -> Correctness:
        """Of the decoder's output (B, T, D): the reading's own, or that without a head."""
        real = self.batch.tgt_out != self.model.pad_id
        scores = linear_cross_entropy(hidden[real], self.model.output_weight, self.batch.tgt_out[real])
        return Correctness(float(scores.nll), float(scores.n_correct), int(real.sum()))

    def without(self, head: Head) -> Tensor:
        """(B, T, D): the decoder's output when a head is silent. What lies before its layer is as it was."""
        if head.attention == "encoder":
            return self.model.decode(self._encoded_without(head), self.batch.tgt_in)
        y = self.trace[f"decoder.{head.layer}.self.before"]
        layers = list(self.model.decoder)[head.layer :]
        for layer in (silenced(layers[0], head.attention, head.head), *layers[1:]):
            y = layer(y, self.memory)
        hidden: Tensor = self.model.decoder_norm(y)
        return hidden

    def translate(self, *, end_id: int, begin_id: int, without: Head | None = None) -> list[Hypothesis]:
        """Greedy translations, of the model as it is or without a head."""
        memory, off = self.memory, frozenset[Head]() if without is None else frozenset([without])
        if without is not None and without.attention == "encoder":
            memory = self._encoded_without(without)
        changed = altered(self.model, Interventions(heads_off=off), 1)
        lengths = ((self.batch.src != self.model.pad_id).sum(1) - 1).tolist()
        return find(
            changed, self.batch.src, lengths, DecodingOptions(beam=1), begin_id=begin_id, end_id=end_id, memory=memory
        )

    def _encoded_without(self, head: Head) -> TransformerMemory:
        x, layers = self.trace[f"encoder.{head.layer}.self.before"], list(self.model.encoder)[head.layer :]
        for layer in (silenced(layers[0], head.attention, head.head), *layers[1:]):
            x = layer(x, self.memory.visible)
        return TransformerMemory(self.model.encoder_norm(x), self.memory.visible)
