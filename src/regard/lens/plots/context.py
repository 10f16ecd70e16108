"""A picture of the loss of a language model by the length of the context."""

from collections.abc import Sequence

from regard.lens.plots.canvas import ACCENT, GRAY, LINE, MARGIN, Canvas, Heading, Picture, Typesetter
from regard.lens.plots.fonts import select_fonts

_WIDTH, _HEIGHT, _BELOW = 5.6, 2.8, 0.95  # inches
_NOTE = "Each point is the mean loss per token, with so many tokens of the text before it. Lower is better."


def draw_context(labels: Sequence[str], losses: Sequence[float], title: str, sentence: str) -> Picture:
    """A line from no context to the longest."""
    typesetter = Typesetter(select_fonts([*labels, title, sentence]))
    heading = Heading(typesetter, title, (sentence, _NOTE), "", _WIDTH)
    canvas = Canvas(heading.width + 2 * MARGIN, heading.height + 0.3 + _HEIGHT + _BELOW + 2 * MARGIN, typesetter)
    heading.draw(canvas, MARGIN, MARGIN)
    left, top = MARGIN, MARGIN + heading.height + 0.3
    axes = canvas.axes(left, top, _WIDTH, _HEIGHT)
    low, high = min(losses), max(losses)
    space = 0.1 * (high - low) or 0.1
    axes.set_xlim(-0.5, len(losses) - 0.5)
    axes.set_ylim(low - space, high + 2 * space)
    axes.plot(range(len(losses)), losses, color=ACCENT, marker="o", markersize=4, linewidth=1.6)
    axes.yaxis.grid(visible=True, color=LINE)
    axes.set_axisbelow(True)
    for i, (label, loss) in enumerate(zip(labels, losses, strict=True)):
        x = left + (i + 0.5) * _WIDTH / len(losses)
        share = (high + 2 * space - loss) / (high - low + 3 * space)
        above = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # legible where it lies on the line
        canvas.text(x, top + share * _HEIGHT - 0.1, f"{loss:.2f}", 7, ha="center", va="bottom", bbox=above)
        canvas.text(x, top + _HEIGHT + 0.08, label, 7, ha="center", va="top", rotation=45, colour=GRAY)
    canvas.text(left + _WIDTH / 2, top + _HEIGHT + _BELOW - 0.12, "tokens of context", 8, ha="center", va="top")
    return Picture(canvas.figure, title, typesetter.fonts.warnings)
