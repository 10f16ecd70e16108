"""What all models have in common: the loss as a sum of terms, and the interface of translation.

Shapes: B batch, S source, T target or segment, L length of a text, D size of the last layer, N predictions, V classes,
for example the vocabulary, C classes of examples
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from regard.data import Batch, Place
from regard.models.config import ModelConfig
from regard.nn import Cost, Trace, linear


class Term(NamedTuple):
    """One prediction problem inside a batch: the logits are hidden @ weight.T + bias."""

    name: str
    hidden: Tensor  # (N, D), or more dimensions in place of N
    weight: Tensor  # (V, D)
    bias: Tensor | None  # (V,)
    targets: Tensor  # (N,); NO_TARGET where nothing is asked
    scale: float = 1.0  # weight of the term in the loss


class Model(nn.Module, ABC):
    """What training and validation ask of a model."""

    config: ModelConfig
    reads_text: ClassVar[bool] = False  # if so, a model directory without a vocabulary is refused
    # what belongs to the task, not to the text: new if training starts from a model of another task or other classes
    own_parts: ClassVar[tuple[str, ...]] = ()
    # defaults of the configuration, where those of the architecture are for another task
    variant: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def check(cls, config: Any) -> None:
        """Raises ValueError if this model of the architecture does not have such a configuration."""

    @abstractmethod
    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        """The prediction problems of a batch, as many as `batch.n_targets` has counts."""

    def penalty(self, place: Place) -> Tensor | None:
        """A penalty on the weights alone, added to the loss once per update."""
        return None

    @property
    def cost_lengths(self) -> tuple[int, ...] | None:
        """What `cost` is asked for, if that is the same for all examples; None if it depends on the example."""
        return None

    def cost(self, *lengths: int) -> Cost:
        """Of one example, whose inputs have these lengths: of a translation, the source and the target."""
        raise NotImplementedError(f"{type(self).__name__} has no cost")

    @property
    def n_parameters(self) -> int:
        """Number of learned values; a shared matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())


class TranslationModel(Model):
    """`features` for training; `encode`, `start` and `step` for decoding. Both compute the same probabilities."""

    reads_text = True
    pad_id: int

    @abstractmethod
    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, S), (B, T) → (B, T, D): what the logits of the token after each position are computed from."""

    @property
    @abstractmethod
    def output_weight(self) -> Tensor:
        """(V, D): the logits are `features @ output_weight.T + output_bias`."""

    @property
    def output_bias(self) -> Tensor | None:
        """(V,)"""
        return None

    @abstractmethod
    def encode(self, src: Tensor, trace: Trace | None = None) -> Any:
        """(B, S) → the encoded source; its `select(rows)` reorders, repeats or drops batch rows."""

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """The state before the first token: what is cached between steps, also with `select(rows)`."""

    @abstractmethod
    def step(self, last: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(B,) last tokens → (B, V) log-probabilities of the next tokens, and the new state."""

    def forward(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, S), (B, T) → logits (B, T, V) of the token after each position."""
        logits = self.logits(self.features(src, tgt_in, trace))
        if trace is not None:
            trace.record("logits", logits, kind="logits", axes=("target", "symbol"))
        return logits

    def logits(self, features: Tensor) -> Tensor:
        """(…, D) → (…, V)."""
        return linear(features, self.output_weight, self.output_bias)

    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        """One term: the next token at every target position."""
        src, tgt_in = batch.inputs
        hidden = self.features(src, tgt_in, trace)  # (B, T, D)
        return (Term("tokens", hidden, self.output_weight, self.output_bias, batch.targets[0]),)


class ClassificationModel(Model):
    """A vector per example, and from it a softmax over the classes."""

    own_parts = ("output",)
    output: nn.Linear

    @abstractmethod
    def features(self, *inputs: Any, **trace: Any) -> Tensor:
        """The inputs of a batch, with `trace` as the last argument → (B, D): what the logits are computed from."""

    def forward(self, *inputs: Tensor, trace: Trace | None = None) -> Tensor:
        """The inputs of a batch → logits (B, C)."""
        logits: Tensor = self.output(self.features(*inputs, trace=trace))
        if trace is not None:
            trace.record("logits", logits, kind="logits", axes=("class",))
        return logits

    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        """One term: the class of every example."""
        hidden = self.features(*batch.inputs, trace=trace)  # (B, D)
        return (Term("class", hidden, self.output.weight, self.output.bias, batch.targets[0]),)


class TextClassificationModel(ClassificationModel):
    """A classifier of texts.

    The inputs of a batch are ids (B, T), which begin with bos, and segments (B, T): 0, and 1 in the second text of a
    pair. `regard.data.collate_texts` makes them.
    """

    reads_text = True
    pad_id: int

    @abstractmethod
    def features(self, ids: Tensor, segments: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, T), (B, T) → (B, D)."""


class LanguageModel(Model):
    """The next token of a text, from those before it.

    A text is read in segments. The state has what a segment sees of the earlier ones: the states of a recurrence, the
    tokens that a Transformer reads again, or the memory of Transformer-XL. A text begins with eos, which also ends each
    of its lines; padding is behind it, where it cannot be seen.

    The arguments are the configuration, and `n_symbols`, `segment` and `pad_id` as keywords.
    """

    reads_text = True
    pad_id: int
    segment: int  # tokens that are read at once in training: with absolute positions, the model has no more of them
    training_memory: ClassVar[int | None] = None  # of `start`, in training
    usual_segments: ClassVar[tuple[int, int]] = (64, 4)  # defaults: tokens of a segment, segments of an example

    @property
    @abstractmethod
    def output_weight(self) -> Tensor:
        """(V, D): the logits are `features @ output_weight.T + output_bias`."""

    @property
    def output_bias(self) -> Tensor | None:
        """(V,)"""
        return None

    @property
    def evaluation_segment(self) -> int:
        """Tokens that are read at once where only predictions matter."""
        return self.segment

    @abstractmethod
    def start(self, n_rows: int, memory: int | None = None) -> Any:
        """The state before the first token of some texts, with `select(rows)`.

        `memory` is how many tokens of earlier segments a segment sees: if it is None, as many as the model is made for.
        A recurrence sees all of them, or with 0 none.
        """

    @abstractmethod
    def read(self, ids: Tensor, state: Any, trace: Trace | None = None) -> tuple[Tensor, Any]:
        """(B, T) the next segment, at most `segment` tokens → (B, T, D) features, and the state after it.

        The features are what the logits of the token after each position are computed from. No gradient goes through
        a state.
        """

    def step(self, last: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(B,) last tokens → (B, V) log-probabilities of the next tokens, and the new state."""
        features, state = self.read(last[:, None], state)  # (B, 1, D)
        return self.logits(features[:, 0]).log_softmax(-1), state

    def features(self, ids: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, L) → (B, L, D): one segment after the other, from the beginning. A trace has the last segment."""
        state, parts = self.start(len(ids), self.training_memory), []
        for segment in ids.split(self.segment, 1):
            features, state = self.read(segment, state, trace)
            parts.append(features)
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0]

    def forward(self, ids: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, L) → logits (B, L, V) of the token after each position; a trace has those of the last segment."""
        logits = self.logits(self.features(ids, trace))
        if trace is not None:
            last = logits[:, (ids.shape[1] - 1) // self.segment * self.segment :]
            trace.record("logits", last, kind="logits", axes=("source", "symbol"))
        return logits

    def logits(self, features: Tensor) -> Tensor:
        """(…, D) → (…, V)."""
        return linear(features, self.output_weight, self.output_bias)

    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        """One term: the next token at every position of a stretch of text."""
        hidden = self.features(batch.inputs[0], trace)  # (B, L, D)
        return (Term("tokens", hidden, self.output_weight, self.output_bias, batch.targets[0]),)
