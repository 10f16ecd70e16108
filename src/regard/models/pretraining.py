"""What the models that learn from plain text have in common: BERT, ELECTRA, XLNet.

Shapes: B batch, T length, N positions, V vocabulary
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field
from torch import Tensor, nn

from regard.data import NO_TARGET, Masking
from regard.models.base import Model
from regard.models.config import StackConfig
from regard.nn import Trace

Question = Literal["words", "next", "replaced"]  # a hidden word, whether B follows A, whether a word was replaced


class PretrainedConfig(StackConfig, frozen=True, extra="forbid"):
    """Sizes, with the Transformer's names."""

    norm_epsilon: float = Field(default=1e-5, gt=0, le=0.1)  # added to variances; imported models have their own

    @property
    def masking(self) -> Masking:
        """Which words are asked for, and what the model sees in their place."""
        return Masking()

    @property
    def asks(self) -> tuple[Question, ...]:
        """The terms of the loss, in this order."""
        return ("words",)

    @property
    def n_before(self) -> int:
        """How many tokens of the text before a passage come with it in pre-training."""
        return 0


class Reading(NamedTuple):
    """What a model says about texts; None where it has not learned to answer."""

    words: Tensor | None = None  # (N, V) logits of the N blanks, row by row
    next: Tensor | None = None  # (B,) probability that the second text follows the first
    replaced: Tensor | None = None  # (B, T) probability that the word is not the writer's


class PretrainingModel(Model):
    """An encoder with the questions that it learns from. A classifier takes over its weights.

    The inputs of a batch are ids (B, T), segments (B, T) and draws (B, T), and the text before (B, M) if `n_before` of
    the configuration is not 0. The targets are words (B, T) and, for "next", classes (B,). `regard.data.MaskedTexts`
    makes them.
    """

    reads_text = True
    pad_id: int
    has_orders: ClassVar[bool] = False  # whether `read_in_order` predicts words in any order

    @abstractmethod
    def read(self, ids: Tensor, segments: Tensor, blanks: Tensor, trace: Trace | None = None) -> Reading:
        """(B, T), (B, T), and where a word is missing (B, T) → what the model says about the texts."""

    def read_in_order(
        self, ids: Tensor, segments: Tensor, order: Tensor, asked: Tensor, trace: Trace | None = None
    ) -> Tensor:
        """Ids, segments, a place in the order, and what is asked, each (B, T) → (N, V) logits, row by row.

        Each word is predicted from those with a lower place; those with the place -1 see each other only.
        """
        raise NotImplementedError(f"{type(self).__name__} predicts in no order")


def is_asked(words: Tensor) -> Tensor:
    """(B, T) targets → where there is one."""
    return words != NO_TARGET


def set_norm_epsilon(model: nn.Module, epsilon: float) -> None:
    """In every LayerNorm of the model."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = epsilon
