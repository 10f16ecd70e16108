"""`regard look RUN TEXT`: looks at the translation of one sentence."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.look.options import HeadSelection, InterventionOptions, Outputs, write_text
from regard.errors import UserError
from regard.lens import Head, Interventions, Lens
from regard.lens.anatomy import head_ranges
from regard.lens.interventions import ATTENTIONS, Attention

if TYPE_CHECKING:
    from regard.lens.look import Look

_STEPS = {"encoder": "heads", "decoder": "masked", "cross": "cross"}  # the step of the HTML tour for each attention
_MORE = "more: --png FILE draws all heads, --html FILE is an interactive tour, --heads-off cross.1.1 ablates a head\n"
_MORE_WITHOUT_ATTENTION = "more: --gradient shows what each word depends on, --png FILE draws, --json FILE has it all\n"


@dataclass(frozen=True)
class SentenceOptions:
    """The sentence, and how it is translated."""

    text: str
    translation: str | None
    beam: int
    target: str | None
    gradient: bool


def look_at_sentence(
    run: Path, sentence: SentenceOptions, outputs: Outputs, selection: HeadSelection, options: InterventionOptions
) -> None:
    """Writes the requested files; without any, prints to the terminal."""
    if outputs.png or outputs.svg:
        from regard.lens.plots import check_matplotlib

        check_matplotlib()  # before the work, not after it
    lens = Lens.load(run)
    head = _selected_head(selection, lens)
    look = lens.look(
        sentence.text,
        sentence.translation,
        interventions=_interventions(options, lens),
        beam=sentence.beam,
        target=sentence.target,
        gradient=sentence.gradient,
    )
    if outputs.png or outputs.svg:
        _draw(look, outputs, selection, head)
    if outputs.html is not None:
        from regard.lens.html import look_page

        write_text(outputs.html, look_page(look.to_dict("base64"), _start_place(selection)))
    if outputs.json is not None:
        outputs.write_json(look.to_dict())
    if not outputs.any:
        from regard.cli.look.terminal import print_look

        attention = _shown_attention(look, selection, "cross")
        print_look(look, head or attention, selection.level, is_selected=any(selection.given.values()))
        sys.stderr.write(f"\n{_MORE if attention else _MORE_WITHOUT_ATTENTION}")


def _draw(look: "Look", outputs: Outputs, selection: HeadSelection, head: Head | None) -> None:
    from regard.lens.plots import draw_dependence, draw_head, draw_heads, draw_vectors

    attention = _shown_attention(look, selection, "encoder")
    if head is not None:
        outputs.draw(draw_head(look, head, selection.level))
    elif look.gradients is not None and selection.attention is None:
        outputs.draw(draw_dependence(look, selection.level))
    elif attention is not None:
        outputs.draw(draw_heads(look, attention, selection.level))
    else:
        outputs.draw(draw_vectors(look))


def _shown_attention(look: "Look", selection: HeadSelection, preferred: Attention) -> Attention | None:
    """The attention to show: the selected one, else the preferred one or another that the model has."""
    present = [attention for attention in (preferred, *ATTENTIONS) if look.layers(attention)]
    if selection.attention is None:
        return present[0] if present else None
    if selection.attention not in present:
        raise UserError(f"this model has no {selection.attention} attention")
    return selection.attention


def _start_place(selection: HeadSelection) -> dict[str, str | int]:
    """Where the HTML file opens: at the selected heads; without a selection, at the beginning."""
    place: dict[str, str | int] = {}
    if any(selection.given.values()):
        attention = selection.attention or "encoder"
        place = {"stop": _STEPS[attention], "attention": attention, "level": selection.level}
        if selection.layer is not None and selection.head is not None:
            place |= {"layer": selection.layer - 1, "head": selection.head - 1}
    return place


def _selected_head(selection: HeadSelection, lens: Lens) -> Head | None:
    if selection.layer is None and selection.head is None:
        return None
    if selection.layer is None or selection.head is None:
        raise UserError("--layer and --head must be given together", hint="give neither to see all heads")
    return _existing(Head(selection.attention or "encoder", selection.layer - 1, selection.head - 1), lens)


def _interventions(options: InterventionOptions, lens: Lens) -> Interventions:
    names = [name.strip() for name in (options.heads_off or "").split(",") if name.strip()]
    return Interventions(
        heads_off=frozenset(_existing(_parse_head(name), lens) for name in names),
        scale=not options.no_scale,
        mask=not options.no_mask,
        positions=options.positions_as,
    )


def _parse_head(name: str) -> Head:
    """encoder.1.4, counted from 1."""
    for attention in ATTENTIONS:
        start, _, numbers = name.partition(".")
        layer, _, head = numbers.partition(".")
        if start == attention and layer.isdecimal() and head.isdecimal():
            return Head(attention, int(layer) - 1, int(head) - 1)
    raise UserError(
        f"{name!r} is not a head", hint="write encoder, decoder or cross, then layer and head from 1: encoder.1.4"
    )


def _existing(head: Head, lens: Lens) -> Head:
    heads = lens.all_heads
    if head not in heads:
        name = f"{head.attention}.{head.layer + 1}.{head.head + 1}"
        hint = f"it has {head_ranges(heads, 1)}, counted from 1" if heads else "it has no attention"
        raise UserError(f"this model has no head {name}", hint=hint)
    return head
