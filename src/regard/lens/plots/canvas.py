"""A drawing surface measured in inches from its top left corner, and the finished picture.

Uses only matplotlib's object interface: no window, no global state. Text is measured before the canvas gets its size,
so that nothing is clipped and nothing overlaps.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from regard.durable import write_file
from regard.lens.plots.fonts import DEFAULT_FONT, Fonts

DOTS_PER_INCH = 160
POINTS_PER_INCH = 72
# the light colours of the web page
INK, GRAY, LINE, MASKED, BACKGROUND = "#1c1d21", "#5d606b", "#d9dbe1", "#eeeff2", "#ffffff"
ACCENT, NEGATIVE = "#2450d8", "#a3420b"
WEIGHTS = LinearSegmentedColormap.from_list("weights", [BACKGROUND, ACCENT])
SIGNED = LinearSegmentedColormap.from_list("signed", [NEGATIVE, BACKGROUND, ACCENT])
MARGIN = 0.25
_MAX_SENTENCE_LINES = 3


@dataclass(frozen=True)
class Picture:
    """A drawing, with warnings about characters that no font has."""

    figure: Figure
    title: str
    warnings: tuple[str, ...] = ()

    def save(self, path: Path, file_format: Literal["png", "svg"]) -> None:
        """Write the file."""
        write_file(path, self.to_bytes(file_format))

    def to_bytes(self, file_format: Literal["png", "svg"]) -> bytes:
        """One drawing always gives the same bytes; text in an SVG is outlines, so it needs no fonts."""
        buffer = BytesIO()
        metadata = {"Title": self.title} | ({"Date": None} if file_format == "svg" else {})
        with rc_context({"svg.hashsalt": "regard", "svg.fonttype": "path"}):
            self.figure.savefig(buffer, format=file_format, dpi=DOTS_PER_INCH, facecolor=BACKGROUND, metadata=metadata)
        return buffer.getvalue()


class Typesetter:
    """Styles, measures and wraps the text of one picture."""

    def __init__(self, fonts: Fonts) -> None:
        self.fonts = fonts
        canvas: Any = FigureCanvasAgg(Figure(dpi=DOTS_PER_INCH))  # untyped in matplotlib
        self._renderer = canvas.get_renderer()

    def style(self, size: float, colour: str = INK, *, bold: bool = False) -> dict[str, Any]:
        """Keywords for matplotlib's text functions; "$" never starts a formula.

        Bold is only for our own titles: not every fallback font has it.
        """
        return {
            "fontfamily": self._families(bold),
            "fontsize": size,
            "fontweight": "bold" if bold else "normal",
            "color": colour,
            "parse_math": False,
        }

    def width(self, text: str, size: float, *, bold: bool = False) -> float:
        """In inches."""
        font = FontProperties(family=self._families(bold), size=size, weight="bold" if bold else "normal")
        return float(self._renderer.get_text_width_height_descent(text, font, False)[0]) / DOTS_PER_INCH

    def _families(self, bold: bool) -> list[str]:
        return [DEFAULT_FONT] if bold else list(self.fonts.families)

    def max_width(self, texts: Iterable[str], size: float) -> float:
        return max((self.width(text, size) for text in texts), default=0.0)

    def label(self, text: str, max_columns: int = 14) -> str:
        """A word as a label of a map: drawable, and shortened if it is long."""
        return shorten(self.fonts.drawable(text), max_columns)

    def wrap(self, text: str, size: float, width: float) -> list[str]:
        """A sentence in at most three lines of at most `width` inches."""
        lines = [""]
        for word in self.fonts.drawable(text).split():
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and self.width(longer, size) > width:
                lines.append(word)
            else:
                lines[-1] = longer
        lines = [self._truncate(line, size, width) for line in lines]
        if len(lines) > _MAX_SENTENCE_LINES:
            last = self._truncate(lines[_MAX_SENTENCE_LINES - 1] + " …", size, width)
            return [*lines[: _MAX_SENTENCE_LINES - 1], last]
        return lines

    def _truncate(self, line: str, size: float, width: float) -> str:
        """Needed where there is no space to break at."""
        if self.width(line, size) <= width:
            return line
        while line and self.width(line + "…", size) > width:
            line = line[: -max(1, len(line) // 20)]
        return line + "…"


class Canvas:
    """A figure of a given size; coordinates are inches from its top left corner."""

    def __init__(self, width: float, height: float, typesetter: Typesetter) -> None:
        self.width, self.height, self.typesetter = width, height, typesetter
        self.figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, facecolor=BACKGROUND)
        FigureCanvasAgg(self.figure)

    def text(self, x: float, y: float, text: str, size: float, colour: str = INK, **options: Any) -> None:
        """The top left of the text is at (x, y), unless `ha` and `va` are given."""
        style = self.typesetter.style(size, colour, bold=bool(options.pop("bold", False)))
        alignment = {"ha": "left", "va": "top"} | options
        self.figure.text(x / self.width, 1 - y / self.height, text, **style, **alignment)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Empty axes with the top left corner at (x, y), with a thin frame and no ticks."""
        box = (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(box)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set(color=LINE, linewidth=0.6)
        return axes


class Heading:
    """Title, sentences and note at the top of a picture, wrapped to the width of its content."""

    TITLE_SIZE, SENTENCE_SIZE, NOTE_SIZE = 13.0, 9.0, 7.5

    def __init__(
        self, typesetter: Typesetter, title: str, sentences: Sequence[str], note: str, content_width: float
    ) -> None:
        self._title, self._note = title, note
        title_width = typesetter.width(title, self.TITLE_SIZE, bold=True)
        self.width = max(content_width, title_width, typesetter.width(note, self.NOTE_SIZE))
        self._lines = [
            line
            for sentence in sentences
            if sentence
            for line in typesetter.wrap(sentence, self.SENTENCE_SIZE, self.width)
        ]
        n_lines = len(self._lines)
        self.height = 0.3 + 0.165 * n_lines + (0.04 if n_lines else 0) + (0.2 if note else 0) + 0.1

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        canvas.text(x, y, self._title, self.TITLE_SIZE, bold=True)
        y += 0.3
        for line in self._lines:
            canvas.text(x, y, line, self.SENTENCE_SIZE, GRAY)
            y += 0.165
        y += 0.04 if self._lines else 0
        canvas.text(x, y, self._note, self.NOTE_SIZE, GRAY)


def shorten(text: str, max_columns: int) -> str:
    """At most this many terminal columns; Chinese, Japanese and Korean characters take two."""
    width = 0
    for position, char in enumerate(text):
        width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if width > max_columns:
            return text[: max(1, position - 1)] + "…"
    return text
