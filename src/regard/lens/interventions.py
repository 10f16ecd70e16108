"""What can be changed in a model to see what it is good for. Plain values: no torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.models.transformer import TransformerConfig

Attention = Literal["encoder", "decoder", "cross"]
Positions = Literal["normal", "shuffled", "none"]

ATTENTIONS: tuple[Attention, ...] = get_args(Attention)


class Head(NamedTuple):
    """One head: of the encoder's self-attention, the decoder's own, or the decoder's over the source."""

    attention: Attention
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.attention}.{self.layer}.{self.head}"


@dataclass(frozen=True, kw_only=True)
class Interventions:
    """What is done to a model; the defaults do nothing."""

    heads_off: frozenset[Head] = frozenset()  # these bring back zeros
    scale: bool = True  # False: q · k without ÷ √d_k
    mask: bool = True  # False: the decoder's own attention sees the future
    positions: Positions = "normal"

    def __bool__(self) -> bool:
        """Whether anything is changed at all."""
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
    """Every head of a model: the encoder's, the decoder's own, those over the source."""
    layers = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers, "cross": config.n_decoder_layers}
    return [
        Head(attention, layer, head)
        for attention in ATTENTIONS
        for layer in range(layers[attention])
        for head in range(config.n_heads)
    ]


def check_interventions(interventions: Interventions, config: TransformerConfig) -> None:
    """Refuse what the model does not have, and settings that nobody knows."""
    if missing := interventions.heads_off.difference(all_heads(config)):
        sizes = f"{config.n_encoder_layers} + {config.n_decoder_layers} layers of {config.n_heads} heads"
        raise UserError(
            f"this model has no head {min(missing, key=str)}", hint=f"it has {sizes}, all counted from 0: encoder.0.0"
        )
    if not interventions.scale and config.attention != "scaled_dot_product":
        raise UserError(
            f"this model's attention ({config.attention}) has no scale to leave out",
            hint="only scaled_dot_product divides by √d_k",
        )
    if interventions.positions not in get_args(Positions):
        raise UserError(
            f"positions can not be {interventions.positions!r}", hint=f"one of {', '.join(get_args(Positions))}"
        )
