"""What configurations of models have in common: the [model] section of a recipe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator


class ModelConfig(BaseModel, ABC, frozen=True, extra="forbid"):
    """Sizes and variants of an architecture."""

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
    def bos_is_last(self) -> bool:
        """Whether the layers read bos behind the text, so that a trace of a text has it there."""
        return False

    @property
    def layers(self) -> tuple[str, ...]:
        """Paths of the layers from the input to the output, for learning rates by layer; empty if there are none."""
        return ()

    def check_vocabulary(self, *, joint: bool, max_length: int) -> None:
        """Raises ValueError if the model cannot have such text: one vocabulary for both sides or two, and its length.

        `max_length` counts the begin or end token.
        """
        if self.max_length is not None and max_length > self.max_length:
            raise ValueError(
                f"text.max_length = {max_length - 1} needs model.max_positions = {max_length} or more: "
                f"one more for the begin or end token (it is {self.max_length})"
            )


class TranslationConfig(ModelConfig, frozen=True, extra="forbid"):
    """Of a model with two languages."""

    # Which embeddings share a matrix (section 3.4 of the Transformer's paper). "all": source, target and output, which
    # needs one vocabulary for both languages; "target": target and output; "none": a matrix for each.
    tie: Literal["all", "target", "none"] = "all"

    def check_vocabulary(self, *, joint: bool, max_length: int) -> None:
        super().check_vocabulary(joint=joint, max_length=max_length)
        if self.tie == "all" and not joint:
            raise ValueError("text.joint = false needs model.tie = 'target' or 'none'")

    def check_symbols(self, n_src_symbols: int, n_tgt_symbols: int) -> None:
        if self.tie == "all" and n_src_symbols != n_tgt_symbols:
            raise ValueError("tie = 'all' needs one vocabulary for both languages; use 'target' or 'none'")


class AttentionConfig(ModelConfig, frozen=True, extra="forbid"):
    """Of a model with layers of multi-head attention and a feed-forward network, with the Transformer's names."""

    d_model: int = Field(default=128, ge=2, le=65_536, multiple_of=2)
    d_ff: int = Field(default=256, ge=1, le=1_048_576)
    n_heads: int = Field(default=4, ge=1, le=1024)

    @property
    def width(self) -> int:
        return self.d_model

    @model_validator(mode="after")
    def _heads_divide_the_model(self) -> Self:
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model ({self.d_model}) must be a multiple of n_heads ({self.n_heads})")
        return self


class StackConfig(AttentionConfig, frozen=True, extra="forbid"):
    """Of one stack of such layers."""

    n_layers: int = Field(default=4, ge=1, le=1000)

    @property
    def depth(self) -> int:
        return self.n_layers

    def describe(self) -> str:
        return f"{self.n_layers} layer{'s' if self.n_layers > 1 else ''} of {self.d_model}"
