"""Interventions on a model: what can be ablated or changed. Plain values, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

Attention = Literal["encoder", "decoder", "cross"]
Positions = Literal["normal", "shuffled", "none"]

ATTENTIONS: tuple[Attention, ...] = get_args(Attention)
ATTENTION_NAMES: dict[Attention, str] = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Encoder–decoder"}


class Head(NamedTuple):
    """One head of the encoder's self-attention, the decoder's self-attention, or the encoder–decoder attention."""

    attention: Attention
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.attention}.{self.layer}.{self.head}"

    @property
    def title(self) -> str:
        """For display, counted from 1: "Encoder · layer 2 · head 3"."""
        return f"{ATTENTION_NAMES[self.attention]} · layer {self.layer + 1} · head {self.head + 1}"


@dataclass(frozen=True, kw_only=True)
class Interventions:
    """What to change in a model; the defaults change nothing."""

    heads_off: frozenset[Head] = frozenset()  # their outputs become zeros
    scale: bool = True  # False: q · k without ÷ √d_k
    mask: bool = True  # False: the decoder's self-attention also sees later positions
    positions: Positions = "normal"

    def __bool__(self) -> bool:
        """Whether anything is changed."""
        return self != UNCHANGED

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON of a look."""
        return vars(self) | {"heads_off": [head._asdict() for head in sorted(self.heads_off)]}


UNCHANGED = Interventions()
