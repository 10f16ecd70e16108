"""`regard look RUN TEXT`: looks at the translation of one sentence."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.evaluate import write_text
from regard.cli.look.options import HeadSelection, Outputs, ShowName
from regard.errors import UserError
from regard.lens import Head, Interventions, Lens
from regard.lens.anatomy import head_ranges
from regard.lens.interventions import ATTENTIONS, Attention
from regard.lens.memory import memory_maps

if TYPE_CHECKING:
    from regard.lens.look import Look

_STEPS = {"encoder": "heads", "decoder": "masked", "cross": "cross"}  # the step of the HTML tour for each attention
_MORE = (
    "more: --show dependence shows what each word depends on, --png FILE draws all heads, "
    "--html FILE is an interactive tour, --heads-off cross.1.1 ablates a head\n"
)
_MORE_WITHOUT_ATTENTION = (
    "more: --show dependence shows what each word depends on, --png FILE draws, --json FILE has it all\n"
)


def look_at_sentence(
    run: Path,
    text: str,
    outputs: Outputs,
    show: ShowName,
    selection: HeadSelection,
    interventions: Interventions,
    **settings: Any,
) -> None:
    """Writes the requested files; without any, prints to the terminal. `settings` are those of `Lens.look`."""
    if outputs.png or outputs.svg:
        import regard.lens.plots  # noqa: F401  fails before the work if there is no matplotlib
    lens = Lens.load(run)
    head = _selected_head(selection)
    _check_heads(interventions.heads_off if head is None else {head, *interventions.heads_off}, lens)
    settings |= {"dependence": show == "dependence", "reach": show == "reach"}
    look = lens.look(text, interventions=interventions, **settings)
    if show == "states" and not (look.recurrent_sites or memory_maps(look)):
        hint = "rnn, lstm, gru and neural-gpu have; see docs/architectures.md"
        raise UserError("this model has no states over time", hint=hint)
    if show == "scores" and not look.layers(selection.attention or "cross"):
        raise UserError("this model has no such attention, and so no scores")
    if outputs.png or outputs.svg:
        _draw(look, outputs, show, selection, head)
    if outputs.html is not None:
        from regard.lens.html import look_page

        write_text(outputs.html, look_page(look.to_dict("base64"), _start_place(selection, head)))
    if outputs.json is not None:
        outputs.write_json(look.to_dict())
    if not outputs.any:
        from regard.cli.look.terminal import print_look

        attention = _shown_attention(look, selection, "cross")
        print_look(look, show, head or attention, selection.level, is_selected=bool(selection))
        sys.stderr.write(f"\n{_MORE if attention else _MORE_WITHOUT_ATTENTION}")


def _draw(look: "Look", outputs: Outputs, show: ShowName, selection: HeadSelection, head: Head | None) -> None:
    from regard.lens.plots.pictures import draw_dependence, draw_head, draw_heads, draw_reach, draw_vectors

    attention = _shown_attention(look, selection, "cross" if show == "scores" else "encoder")
    if attention is not None and [site.shape[0] for site in look.layers(attention)] == [1]:
        head = Head(attention, 0, 0)  # the only one
    if show == "dependence":
        outputs.draw(draw_dependence(look, selection.level))
    elif show == "reach":
        outputs.draw(draw_reach(look))
    elif show == "states" or attention is None:
        outputs.draw(draw_vectors(look))
    elif head is not None:
        outputs.draw(draw_head(look, head, selection.level, before_softmax=show == "scores"))
    else:
        outputs.draw(draw_heads(look, attention, selection.level, before_softmax=show == "scores"))


def _shown_attention(look: "Look", selection: HeadSelection, preferred: Attention) -> Attention | None:
    """The attention to show: the selected one, else the preferred one or another that the model has."""
    present = [attention for attention in (preferred, *ATTENTIONS) if look.layers(attention)]
    if selection.attention is None:
        return present[0] if present else None
    if selection.attention not in present:
        raise UserError(f"this model has no {selection.attention} attention")
    return selection.attention


def _start_place(selection: HeadSelection, head: Head | None) -> dict[str, str | int]:
    """Where the HTML file opens: at the selected heads; without a selection, at the beginning."""
    if not selection:
        return {}
    attention = selection.attention or "encoder"
    place = {} if head is None else {"layer": head.layer, "head": head.head}
    return {"stop": _STEPS[attention], "attention": attention, "level": selection.level, **place}


def _selected_head(selection: HeadSelection) -> Head | None:
    if selection.layer is None and selection.head is None:
        return None
    if selection.layer is None or selection.head is None:
        raise UserError("--layer and --head must be given together", hint="give neither to see all heads")
    return Head(selection.attention or "encoder", selection.layer - 1, selection.head - 1)


def parse_heads(names: str) -> frozenset[Head]:
    """`encoder.1.4,cross.2.1`, counted from 1."""
    return frozenset(_parse_head(name.strip()) for name in names.split(",") if name.strip())


def _parse_head(name: str) -> Head:
    match name.split("."):
        case [("encoder" | "decoder" | "cross") as attention, layer, head] if layer.isdecimal() and head.isdecimal():
            return Head(attention, int(layer) - 1, int(head) - 1)
    raise UserError(
        f"{name!r} is not a head", hint="write encoder, decoder or cross, then layer and head from 1: encoder.1.4"
    )


def _check_heads(heads: set[Head] | frozenset[Head], lens: Lens) -> None:
    existing = lens.all_heads
    if missing := sorted(heads.difference(existing)):
        name = f"{missing[0].attention}.{missing[0].layer + 1}.{missing[0].head + 1}"
        hint = f"it has {head_ranges(existing, 1)}, counted from 1" if existing else "it has no attention"
        raise UserError(f"this model has no head {name}", hint=hint)
