"""What each word depends on, as text: attention, gradients and words left out side by side, and how far they agree."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.text import Text

from regard.cli.evaluate import escape_controls
from regard.cli.look.recorded import Row, print_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regard.lens.look import Importance, Level, Look

_SHADES = ((0.75, "█"), (0.5, "▓"), (0.25, "▒"), (0.1, "░"), (float("-inf"), "·"))
_MAX_NAMED, _MAX_MAP_WIDTH, _MIN_NAMED_FALL = 3, 40, 0.1
_NAMES: "dict[Importance, str]" = {"attention": "attention", "gradient": "gradient", "left_out": "left out"}
_LEGEND = """\
gradient   norm of the gradient of the log-probability, as shares of the row
left out   the share of its probability that a word loses when a source word is left out; on the right, the largest
           changes of the log-probability
τ          Kendall's rank correlation of two of them: 1 is the same order of the source words, 0 no relation
"""


def print_dependence(console: Console, look: "Look", level: "Level", probabilities: Sequence[Row]) -> None:
    """One line per word or sub-word of the translation; the agreement of sub-words is that of their word."""
    labels, columns = ([escape_controls(text) for text in texts] for texts in look.labels("cross", level))
    views, agreement = look.importance(level), look.agreement()
    falls = views["left_out"]
    views["left_out"] = 1 - np.exp(-falls)  # of the probability
    between = [f"τ {a[0]}–{b[0]}" for a, b in agreement]
    names = (_NAMES[name] for name in views)
    rows: list[Row] = [(level.removesuffix("s"), "probability", *names, *between, "without a word")]
    words = [piece.word for piece in look.target.outputs.pieces] if level == "pieces" else list(range(len(labels)))
    for number, (label, probability) in enumerate(zip(labels, probabilities, strict=True)):
        maps = [shades(values[number]) for values in views.values()]
        taus = [_tau(by_word[words[number]]) for by_word, _ in agreement.values()]
        named = name_largest(-falls[number], columns, _MIN_NAMED_FALL, np.abs(falls[number]))
        rows.append((Text(label), *probability, *maps, *taus, Text(named)))
    n_views = len(views)
    print_columns(console, rows, right_aligned={1, *range(2 + n_views, 2 + n_views + len(between))})
    means = [f"{_NAMES[a]} and {_NAMES[b]} {_tau(mean)}" for (a, b), (_, mean) in agreement.items()]
    console.print(Text(f"\nmean τ: {', '.join(means)}\n"))
    if (alignment := look.alignment(level)) is not None:
        console.print(Text(f"attention  {alignment[0]}", "dim"))
    console.print(Text(_LEGEND.rstrip(), "dim"))


def shades(shares: "NDArray[np.float32]") -> str:
    """One character per column; nothing if there are too many."""
    if len(shares) > _MAX_MAP_WIDTH:
        return ""
    return "".join(next(shade for minimum, shade in _SHADES if share >= minimum) for share in shares.tolist())


def name_largest(
    values: "NDArray[np.float32]", names: Sequence[str], at_least: float, sizes: "NDArray[np.float32] | None" = None
) -> str:
    """The columns with the largest numbers, or the largest `sizes`."""
    sizes = values if sizes is None else sizes
    order = np.argsort(-sizes, kind="stable")[:_MAX_NAMED]
    return ", ".join(f"{names[i]} {_number(values[i])}" for i in order.tolist() if sizes[i] >= at_least)


def _tau(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else _number(value)


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")
