"""Interventions on a model: what can be ablated or changed. Plain values, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.models.transformer import TransformerConfig

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
        return {
            "heads_off": [head._asdict() for head in sorted(self.heads_off)],
            "scale": self.scale,
            "mask": self.mask,
            "positions": self.positions,
        }


UNCHANGED = Interventions()


def all_heads(config: TransformerConfig) -> list[Head]:
    """Every head of a model: encoder, decoder, encoder–decoder."""
    layers = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers, "cross": config.n_decoder_layers}
    return [
        Head(attention, layer, head)
        for attention in ATTENTIONS
        for layer in range(layers[attention])
        for head in range(config.n_heads)
    ]


def check_interventions(interventions: Interventions, config: TransformerConfig) -> None:
    """Raise UserError for heads that the model does not have and for unknown settings."""
    if missing := interventions.heads_off.difference(all_heads(config)):
        sizes = f"{config.n_encoder_layers} + {config.n_decoder_layers} layers of {config.n_heads} heads"
        raise UserError(
            f"this model has no head {min(missing, key=str)}", hint=f"it has {sizes}, all counted from 0: encoder.0.0"
        )
    if not interventions.scale and config.attention != "scaled_dot_product":
        raise UserError(
            f"this model's attention ({config.attention}) has no scale to remove",
            hint="only scaled_dot_product divides by √d_k",
        )
    if interventions.positions not in get_args(Positions):
        raise UserError(
            f"positions cannot be {interventions.positions!r}", hint=f"use one of {', '.join(get_args(Positions))}"
        )
