"""A look as text: the probability of each word, what it attends to, and the effect of an intervention."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.text import Text

from regard.cli.evaluate import escape_controls
from regard.cli.look.dependence import name_largest, print_dependence, shades
from regard.cli.look.options import ShowName
from regard.cli.look.recorded import Row, alternative_rows, memory_tables, print_columns, recorded_rows, state_tables
from regard.lens import Head
from regard.lens.interventions import ATTENTION_NAMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regard.lens.before_after import Change
    from regard.lens.interventions import Attention
    from regard.lens.look import Level, Look
    from regard.lens.reach import Reach

_MIN_NAMED_WEIGHT = 0.1


def print_look(
    look: "Look",
    show: "ShowName" = "attention",
    shown: "Head | Attention | None" = None,
    level: "Level" = "words",
    *,
    is_selected: bool = False,
) -> None:
    """Prints the sentence, its translation, and one line per word: what it attends to, or depends on.

    After an intervention, only what was selected. Without attention, what the model recorded.
    """
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(escape_controls(look.source.text)))
    if look.change is None:
        console.print(Text(escape_controls(look.target.text), "bold"), _log_probability(look.log_probability))
    else:
        _print_change(console, look.change)
    if show == "dependence":
        print_dependence(console, look, level, _probabilities(look, level))
    elif show == "reach":
        _print_reach(console, look.reach or ())
    elif show == "states":
        for rows in memory_tables(look):
            print_columns(console, rows, right_aligned=set())
        for rows in state_tables(look):
            print_columns(console, rows, right_aligned=set(range(1, len(rows[0]))))
    elif shown is not None and (look.change is None or is_selected or show == "scores"):
        _print_map(console, look, shown, level, before_softmax=show == "scores")
    elif look.change is None:
        print_columns(console, list(alternative_rows(look)), right_aligned={1})
        print_columns(console, list(recorded_rows(look.trace)), right_aligned=set())
        for rows in memory_tables(look):
            print_columns(console, rows, right_aligned=set())


def _print_map(
    console: Console, look: "Look", shown: "Head | Attention", level: "Level", *, before_softmax: bool
) -> None:
    """Word or sub-word, its probability if it is an output, a map of its weights, and the largest of them."""
    attention = shown.attention if isinstance(shown, Head) else shown
    title, values = _scores(look, shown, level) if before_softmax else _weights(look, shown, level)
    labels, columns = ([escape_controls(text) for text in texts] for texts in look.labels(attention, level))
    probabilities = _probabilities(look, level) if attention == "cross" else [()] * len(labels)
    rows: list[Row] = [(level.removesuffix("s"), *(("probability",) if attention == "cross" else ()), "", Text(title))]
    for label, probability, row in zip(labels, probabilities, values, strict=True):
        shares = (row - row.min()) / max(float(np.ptp(row)), 1e-30) if before_softmax else row
        named = name_largest(row, columns, -inf if before_softmax else _MIN_NAMED_WEIGHT)
        rows.append((Text(label), *probability, shades(shares), Text(named)))
    print_columns(console, rows, right_aligned={1} if attention == "cross" else set())


def _print_reach(console: Console, reaches: "Sequence[Reach]") -> None:
    """After each layer, the farthest tokens before and after a position that it depends on, and the share of all."""
    rows: list[Row] = [("after layer", *(reach.title for reach in reaches))]
    for layer in range(1, max(len(reach.layers) for reach in reaches) + 1):
        rows.append((str(layer), *(_distances(reach, layer) for reach in reaches)))
    print_columns(console, rows, right_aligned={0})


def _distances(reach: "Reach", layer: int) -> str:
    if layer > len(reach.layers):
        return ""
    found = reach.distances(layer)
    numbers = "nothing" if found is None else f"{found[0]:+d} … {found[1]:+d}".replace("-", "−").replace("+0", "0")
    return f"{numbers}  ({reach.share(layer):.0%})"


def _weights(look: "Look", shown: "Head | Attention", level: "Level") -> "tuple[str, NDArray[np.float32]]":
    """The weights of a head, or for an attention the alignment head's; if there is none, the last layer's mean."""
    if shown == "cross" and (alignment := look.alignment(level)) is not None:
        title, weights = alignment
    elif isinstance(shown, Head):
        title = shown.title + look.off_mark(shown)
        weights = look.weights(shown.attention, shown.layer, level)[shown.head]
    else:
        n_layers = len(look.layers(shown))
        title = f"{ATTENTION_NAMES[shown]} · layer {n_layers} · mean of all heads"
        weights = look.weights(shown, n_layers - 1, level).mean(0)
    return f"attends to ({title})", weights


def _scores(look: "Look", shown: "Head | Attention", level: "Level") -> "tuple[str, NDArray[np.float32]]":
    """The scores of a head before the softmax; of an attention, those of its alignment head or its first head."""
    if not isinstance(shown, Head):
        chosen = look.model["alignment_head"] if shown == "cross" else None
        shown = Head(shown, **(chosen or {"layer": len(look.layers(shown)) - 1, "head": 0}))
    title = f"scores before the softmax ({shown.title}{look.off_mark(shown)})"
    return title, look.scores(shown.attention, shown.layer, level)[shown.head]


def _probabilities(look: "Look", level: "Level") -> list[Row]:
    """For each word or sub-word of the translation."""
    probabilities = [step.chosen.probability for step in look.steps]
    if level == "words":
        probabilities = [prod(probabilities[i] for i in word.pieces) for word in look.target.outputs.words]
    return [(f"{probability:.1%}",) for probability in probabilities]


def _print_change(console: Console, change: "Change") -> None:
    before, after = change.before, change.after
    for name, translation in (("before ", before), ("after  ", after)):
        number = _log_probability(translation.log_probability)
        console.print(Text(name), Text(escape_controls(translation.text), "bold"), number)
    is_changed = before.text != after.text
    in_training = ("as in training",) if change.of_before != change.of_before_in_use else ()
    header: Row = ("before", "original model", "changed model", *in_training)
    rows: list[Row] = [(*header, "after", "changed model") if is_changed else header]
    for old, new in _align([text for text, _ in before.words], [text for text, _ in after.words]):
        row: Row = ("",) * len(header)
        if old is not None:
            scored = (before, change.of_before_in_use, *((change.of_before,) if in_training else ()))
            probabilities = (f"{translation.words[old][1]:.1%}" for translation in scored)
            row = (_highlight(before.words[old][0], new is None), *probabilities)
        if is_changed and new is not None:
            text, probability = after.words[new]
            row = (*row, _highlight(text, old is None), f"{probability:.1%}")
        elif is_changed:
            row = (*row, "", "")
        rows.append(row)
    print_columns(console, rows, right_aligned={*range(1, len(header)), len(header) + 1})


def _align(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """Pairs of indices of equal words; other words have None on the other side."""
    for kind, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(range(i, i_end), range(j, j_end), strict=True)
        else:
            yield from ((index, None) for index in range(i, i_end))
            yield from ((None, index) for index in range(j, j_end))


def _highlight(text: str, changed: bool) -> Text:
    return Text(escape_controls(text), "bold yellow" if changed else "")


def _log_probability(value: float) -> Text:
    number = f"{value:.2f}".replace("-", "−")
    return Text(f" log-probability {number}", "dim")
