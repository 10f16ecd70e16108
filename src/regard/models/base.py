"""What all models have in common: the configuration, the loss as a sum of terms, and the interface of translation.

Shapes: B batch, S source, T target, D size of the last layer, N predictions, V classes, for example the vocabulary,
C classes of examples
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, Field
from torch import Tensor, nn

from regard.data import Batch, Place
from regard.nn import Cost, Trace, linear


class ModelConfig(BaseModel, ABC, frozen=True, extra="forbid"):
    """Sizes and variants of an architecture: the [model] section of a recipe."""

    dropout: float = Field(default=0.1, ge=0, lt=1)

    @property
    @abstractmethod
    def width(self) -> int:
        """Size of the vectors between layers; wider models learn with lower rates."""

    @property
    def depth(self) -> int:
        """Number of layers: each has weights of its own, or a file of weights is refused."""
        return 0

    @abstractmethod
    def describe(self) -> str:
        """The size in a few words, such as "4+4 layers of 128"."""

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a sequence, with its begin or end token; None if there is no limit."""
        return None

    @property
    def layers(self) -> tuple[str, ...]:
        """Paths of the layers from the input to the output, for learning rates by layer; empty if there are none."""
        return ()

    def check_vocabulary(self, *, joint: bool, max_length: int) -> None:
        """Raises ValueError if the model cannot have such text: one vocabulary for both sides or two, and its length.

        `max_length` counts the begin or end token.
        """
        if self.max_length is not None and max_length > self.max_length:
            positions = f"{self.max_length} positions, one of them for the begin or end token"
            raise ValueError(f"text.max_length = {max_length - 1} is too long for this model, which has {positions}")


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

    @classmethod
    def check(cls, config: Any) -> None:
        """Raises ValueError if this model of the architecture does not have such a configuration."""

    @abstractmethod
    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        """The prediction problems of a batch, as many as `batch.n_targets` has counts."""

    def penalty(self, place: Place) -> Tensor | None:
        """A penalty on the weights alone, added to the loss once per update."""
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
