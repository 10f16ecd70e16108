"""A look as text: the probability of each word, what it attends to, and the effect of an intervention."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from math import prod
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from regard.cli.evaluate import escape_controls
from regard.cli.look.recorded import Row, alternative_rows, print_columns, recorded_rows
from regard.lens import Head
from regard.lens.interventions import ATTENTION_NAMES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from regard.lens.before_after import Change
    from regard.lens.interventions import Attention
    from regard.lens.look import Level, Look

_SHADES = ((0.75, "█"), (0.5, "▓"), (0.25, "▒"), (0.1, "░"), (0.0, "·"))
_MIN_NAMED_WEIGHT, _MAX_NAMED, _MAX_MAP_WIDTH = 0.1, 3, 40


def print_look(
    look: "Look", shown: "Head | Attention | None", level: "Level" = "words", *, is_selected: bool = False
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
    if look.gradients is not None and not is_selected:
        shares = look.dependence(level)
        assert shares is not None
        _print_map(console, look, "cross", level, shares, "depends on (norm of the gradient, as shares)")
    elif shown is not None and (look.change is None or is_selected):
        attention = shown.attention if isinstance(shown, Head) else shown
        title, weights = _weights(look, shown, level)
        _print_map(console, look, attention, level, weights, f"attends to ({title})")
    elif look.change is None:
        print_columns(console, list(alternative_rows(look)), right_aligned={1})
        print_columns(console, list(recorded_rows(look.trace)), right_aligned=set())


def _print_map(
    console: Console, look: "Look", attention: "Attention", level: "Level", weights: "NDArray[np.float32]", title: str
) -> None:
    """Word or sub-word, its probability if it is an output, a map of its weights, and the largest of them."""
    labels, columns = ([escape_controls(text) for text in texts] for texts in look.labels(attention, level))
    probabilities = _probabilities(look, level) if attention == "cross" else [()] * len(labels)
    rows: list[Row] = [(level.removesuffix("s"), *(("probability",) if attention == "cross" else ()), "", Text(title))]
    for label, probability, row in zip(labels, probabilities, weights, strict=True):
        largest = sorted(zip(row, columns, strict=True), reverse=True, key=lambda item: float(item[0]))[:_MAX_NAMED]
        named = ", ".join(f"{text} {weight:.2f}" for weight, text in largest if weight >= _MIN_NAMED_WEIGHT)
        cells = "".join(_shade(float(weight)) for weight in row) if len(row) <= _MAX_MAP_WIDTH else ""
        rows.append((Text(label), *probability, cells, Text(named)))
    print_columns(console, rows, right_aligned={1} if attention == "cross" else set())


def _weights(look: "Look", shown: "Head | Attention", level: "Level") -> "tuple[str, NDArray[np.float32]]":
    """The weights of a head, or for an attention the alignment head's; if there is none, the last layer's mean."""
    if shown == "cross" and look.model["alignment_head"] is not None:
        shown = Head("cross", **look.model["alignment_head"])
    if isinstance(shown, Head):
        return shown.title + look.off_mark(shown), look.weights(shown.attention, shown.layer, level)[shown.head]
    n_layers = len(look.layers(shown))
    title = f"{ATTENTION_NAMES[shown]} · layer {n_layers} · mean of all heads"
    return title, look.weights(shown, n_layers - 1, level).mean(0)


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
    header: Row = ("before", "original model", "changed model")
    rows: list[Row] = [(*header, "after", "changed model") if is_changed else header]
    for old, new in _align([text for text, _ in before.words], [text for text, _ in after.words]):
        row: Row = ("", "", "")
        if old is not None:
            (text, original), (_, changed) = before.words[old], change.of_before.words[old]
            row = (_highlight(text, new is None), f"{original:.1%}", f"{changed:.1%}")
        if is_changed and new is not None:
            text, probability = after.words[new]
            row = (*row, _highlight(text, old is None), f"{probability:.1%}")
        elif is_changed:
            row = (*row, "", "")
        rows.append(row)
    print_columns(console, rows, right_aligned={1, 2, 4})


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


def _shade(weight: float) -> str:
    return next(shade for minimum, shade in _SHADES if weight >= minimum)


def _log_probability(value: float) -> Text:
    number = f"{value:.2f}".replace("-", "−")
    return Text(f" log-probability {number}", "dim")
