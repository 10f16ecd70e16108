"""A look as text: how sure the model was of each word, where it looked, and what a change did."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from math import prod
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from regard.cli.evaluate import visible
from regard.lens import Head
from regard.lens.plots.pictures import NAMES, name_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from regard.lens.before_after import Change
    from regard.lens.interventions import Attention
    from regard.lens.look import Level, Look

_SHADES = ((0.75, "█"), (0.5, "▓"), (0.25, "▒"), (0.1, "░"), (0.0, "·"))
_WORTH_NAMING, _MOST_NAMED, _WIDEST_MAP = 0.1, 3, 40

Row = tuple[str | Text, ...]


def show(look: "Look", shown: "Head | Attention" = "cross", level: "Level" = "words", *, asked: bool = False) -> None:
    """The sentence, its translation, and a line a word. Of a changed model the map comes only when it is asked for."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(visible(look.source.text)))
    if look.change is None:
        console.print(Text(visible(look.target.text), "bold"), Text(f" {_sum(look.log_probability)}", "dim"))
    else:
        _show_change(console, look.change)
    if look.change is None or asked:
        rows = list(_map(look, shown, level))
        _print(console, rows, right={1} if len(rows[0]) == 4 else set())


def _map(look: "Look", shown: "Head | Attention", level: "Level") -> Iterator[Row]:
    """Word or piece, its probability where it was made, a map of what it looks at, and what it looked at most."""
    attention = shown.attention if isinstance(shown, Head) else shown
    title, weights = _weights(look, shown, level)
    rows, columns = ([visible(text) for text in texts] for texts in look.labels(attention, level))
    made = _probabilities(look, level) if attention == "cross" else [()] * len(rows)
    yield (
        level.removesuffix("s"),
        *(("probability",) if attention == "cross" else ()),
        "",
        Text(f"looks at ({title})"),
    )
    for text, probability, row in zip(rows, made, weights, strict=True):
        strongest = sorted(zip(row, columns, strict=True), reverse=True, key=lambda one: float(one[0]))[:_MOST_NAMED]
        named = ", ".join(f"{text} {weight:.2f}" for weight, text in strongest if weight >= _WORTH_NAMING)
        cells = "".join(_shade(float(weight)) for weight in row) if len(row) <= _WIDEST_MAP else ""
        yield (Text(text), *probability, cells, Text(named))


def _weights(look: "Look", shown: "Head | Attention", level: "Level") -> "tuple[str, NDArray[np.float32]]":
    """Of a head. Of an attention: of the head that aligns, where the model says which; else the last layer's mean."""
    if shown == "cross" and look.model.alignment_head is not None:
        shown = Head("cross", *look.model.alignment_head)
    if isinstance(shown, Head):
        off = " (off)" if shown in look.interventions.heads_off else ""
        return name_of(shown) + off, look.weights(shown.attention, shown.layer, level)[shown.head]
    config = look.model.config
    n_layers = config.n_encoder_layers if shown == "encoder" else config.n_decoder_layers
    title = f"{NAMES[shown]} · all heads of layer {n_layers}, on average"
    return title, look.weights(shown, n_layers - 1, level).mean(0)


def _probabilities(look: "Look", level: "Level") -> list[Row]:
    """Of each word of the translation, or of each piece."""
    found = [step.chosen.probability for step in look.steps]
    if level == "words":
        found = [prod(found[i] for i in word.pieces) for word in look.target.outputs.words]
    return [(_share(probability),) for probability in found]


def _show_change(console: Console, change: "Change") -> None:
    before, after = change.before, change.after
    for name, version in (("before ", before), ("after  ", after)):
        number = Text(f" {_sum(version.log_probability)}", "dim")
        console.print(Text(name), Text(visible(version.text), "bold"), number)
    changed = before.text != after.text
    heads: Row = ("before", "unchanged", "changed")
    rows: list[Row] = [(*heads, "after", "changed") if changed else heads]
    for old, new in _side_by_side([text for text, _ in before.words], [text for text, _ in after.words]):
        left: Row = ("", "", "")
        if old is not None:
            (text, was), (_, now) = before.words[old], change.of_before.words[old]
            left = (_marked(text, new is None), _share(was), _share(now))
        if changed:
            right: Row = (
                ("", "") if new is None else (_marked(after.words[new][0], old is None), _share(after.words[new][1]))
            )
            left = (*left, *right)
        rows.append(left)
    _print(console, rows, right={1, 2, 4})


def _side_by_side(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """The same words beside each other; others in lines of their own."""
    for kind, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(range(i, i_end), range(j, j_end), strict=True)
        else:
            yield from ((one, None) for one in range(i, i_end))
            yield from ((None, one) for one in range(j, j_end))


def _print(console: Console, rows: Sequence[Row], right: set[int]) -> None:
    """Columns, never cut; measured in cells of a terminal, of which a Chinese character takes two."""
    console.print()
    widths = [max(cell_len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        line = Text(style="dim" if number == 0 else "")
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell_len(str(cell)))
            line.append(space if column in right else "")
            line.append(cell)
            line.append(("" if column in right else space) + "  ")
        line.rstrip()
        console.print(line)


def _marked(text: str, changed: bool) -> Text:
    return Text(visible(text), "bold yellow" if changed else "")


def _shade(weight: float) -> str:
    return next(shade for least, shade in _SHADES if weight >= least)


def _share(probability: float) -> str:
    return f"{probability:.1%}"


def _sum(log_probability: float) -> str:
    return f"log-probability {log_probability:.2f}".replace("-", "−").replace("log−", "log-")
