"""Looking at one sentence: reading the request, and writing the answer."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.look.options import Altering, Outputs, Which, write_text
from regard.errors import UserError
from regard.lens import Head, Interventions, Lens
from regard.lens.interventions import ATTENTIONS, all_heads

if TYPE_CHECKING:
    from regard.lens.interventions import Attention
    from regard.lens.look import Look
    from regard.models.transformer import TransformerConfig

_STOPS = {"encoder": "heads", "decoder": "masked", "cross": "cross"}  # where the page tells about each attention
_MORE = (
    "more: --png FILE draws all heads, --html FILE is a walk through the model, --heads-off cross.1.1 silences one\n"
)


@dataclass(frozen=True)
class Sentence:
    """What is looked at, and how it is translated."""

    text: str
    translation: str | None
    beam: int
    target: str | None


def look_at_sentence(run: Path, sentence: Sentence, outputs: Outputs, which: Which, change: Altering) -> None:
    """Files where they were asked for; else what a terminal can show."""
    if outputs.png or outputs.svg:
        from regard.lens.plots.pictures import check_matplotlib

        check_matplotlib()  # better before the work than after it
    lens = Lens.load(run)
    config = lens.loaded.config
    one = _one_head(which, config)
    seen = lens.look(
        sentence.text,
        sentence.translation,
        interventions=_interventions(change, config),
        beam=sentence.beam,
        target=sentence.target,
    )
    if outputs.png or outputs.svg:
        _draw(seen, outputs, which, one)
    if outputs.html is not None:
        from regard.lens.html import look_page

        write_text(outputs.html, look_page(seen.to_dict("base64"), _place(which)))
    if outputs.json is not None:
        outputs.dump(seen.to_dict())
    if not outputs.any:
        from regard.cli.look.terminal import show

        show(seen, _shown(which, one), which.level, asked=any(which.given.values()))
        sys.stderr.write(f"\n{_MORE}")


def _shown(which: Which, one: Head | None) -> "Head | Attention":
    """As text there is room for one map: of the head that was asked for, or of an attention as a whole."""
    return one or which.attention or "cross"


def _draw(seen: "Look", outputs: Outputs, which: Which, one: Head | None) -> None:
    from regard.lens.plots.pictures import draw_head, draw_heads

    if one is not None:
        outputs.draw(draw_head(seen, one, which.level))
    else:
        outputs.draw(draw_heads(seen, which.attention or "encoder", which.level))


def _place(which: Which) -> dict[str, str | int]:
    """Where the page opens: at the start of the walk, unless something was asked for."""
    place: dict[str, str | int] = {}
    if any(which.given.values()):
        attention = which.attention or "encoder"
        place = {"stop": _STOPS[attention], "attention": attention, "level": which.level}
        if which.layer is not None and which.head is not None:
            place |= {"layer": which.layer - 1, "head": which.head - 1}
    return place


def _one_head(which: Which, config: "TransformerConfig") -> Head | None:
    if which.layer is None and which.head is None:
        return None
    if which.layer is None or which.head is None:
        raise UserError("--layer and --head go together", hint="give both, or neither for all heads")
    return _known(Head(which.attention or "encoder", which.layer - 1, which.head - 1), config)


def _interventions(change: Altering, config: "TransformerConfig") -> Interventions:
    names = [name.strip() for name in (change.heads_off or "").split(",") if name.strip()]
    return Interventions(
        heads_off=frozenset(_known(_parsed(name), config) for name in names),
        scale=not change.no_scale,
        mask=not change.no_mask,
        positions=change.positions_as,
    )


def _parsed(name: str) -> Head:
    """encoder.1.4, as people count."""
    for attention in ATTENTIONS:
        start, _, numbers = name.partition(".")
        layer, _, head = numbers.partition(".")
        if start == attention and layer.isdecimal() and head.isdecimal():
            return Head(attention, int(layer) - 1, int(head) - 1)
    raise UserError(f"{name!r} is no head", hint="encoder, decoder or cross, layer and head from 1: encoder.1.4")


def _known(head: Head, config: "TransformerConfig") -> Head:
    if head not in all_heads(config):
        sizes = f"{config.n_encoder_layers} + {config.n_decoder_layers} layers of {config.n_heads} heads"
        name = f"{head.attention}.{head.layer + 1}.{head.head + 1}"
        raise UserError(f"this model has no head {name}", hint=f"it has {sizes}, counted from 1")
    return head
