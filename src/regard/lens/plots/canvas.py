"""A sheet to draw on, measured in inches from its top left corner, and the finished picture.

matplotlib's object interface alone: no window, no global state. Text is measured before the sheet gets its size, so
that nothing is cut and nothing overlaps.
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
from regard.lens.plots.fonts import OWN_FONT, Coverage

DOTS_PER_INCH = 160
POINTS_PER_INCH = 72
# as on the page, in light
INK, SOFT, LINE, HIDDEN, GROUND = "#1c1d21", "#5d606b", "#d9dbe1", "#eeeff2", "#ffffff"
ACCENT, OTHER_ACCENT = "#2450d8", "#a3420b"
WEIGHTS = LinearSegmentedColormap.from_list("weights", [GROUND, ACCENT])
SIGNED = LinearSegmentedColormap.from_list("signed", [OTHER_ACCENT, GROUND, ACCENT])
MARGIN = 0.25
_SENTENCE_LINES = 3


@dataclass(frozen=True)
class Picture:
    """A drawing, and what its maker has to say about it (characters that no font has)."""

    figure: Figure
    title: str
    remarks: tuple[str, ...] = ()

    def save(self, path: Path, form: Literal["png", "svg"]) -> None:
        """Write it; the same drawing gives the same bytes. Letters in an SVG are outlines: alike everywhere."""
        buffer = BytesIO()
        metadata = {"Title": self.title} | ({"Date": None} if form == "svg" else {})
        with rc_context({"svg.hashsalt": "regard", "svg.fonttype": "path"}):
            self.figure.savefig(buffer, format=form, dpi=DOTS_PER_INCH, facecolor=GROUND, metadata=metadata)
        write_file(path, buffer.getvalue())


class Pen:
    """How text is written on one picture: its fonts, and how much room a text takes."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        canvas: Any = FigureCanvasAgg(Figure(dpi=DOTS_PER_INCH))  # untyped in matplotlib
        self._renderer = canvas.get_renderer()

    def style(self, size: float, colour: str = INK, *, bold: bool = False) -> dict[str, Any]:
        """Keywords for every text that matplotlib draws. A dollar is a dollar, never the start of a formula.

        Bold is for our own titles: not every fallback font has it.
        """
        return {
            "fontfamily": self._families(bold),
            "fontsize": size,
            "fontweight": "bold" if bold else "normal",
            "color": colour,
            "parse_math": False,
        }

    def width(self, text: str, size: float, *, bold: bool = False) -> float:
        """Inches."""
        font = FontProperties(family=self._families(bold), size=size, weight="bold" if bold else "normal")
        return float(self._renderer.get_text_width_height_descent(text, font, False)[0]) / DOTS_PER_INCH

    def _families(self, bold: bool) -> list[str]:
        return [OWN_FONT] if bold else list(self.coverage.families)

    def widest(self, texts: Iterable[str], size: float) -> float:
        return max((self.width(text, size) for text in texts), default=0.0)

    def label(self, text: str, most: int = 14) -> str:
        """A word as it stands beside a map: drawable, and shortened when it is long."""
        return shorten(self.coverage.drawable(text), most)

    def fold(self, text: str, size: float, width: float) -> list[str]:
        """A sentence in lines of at most `width` inches, three of them at most."""
        lines = [""]
        for word in self.coverage.drawable(text).split():
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and self.width(longer, size) > width:
                lines.append(word)
            else:
                lines[-1] = longer
        lines = [self._cut(line, size, width) for line in lines]
        if len(lines) > _SENTENCE_LINES:
            return [*lines[: _SENTENCE_LINES - 1], self._cut(lines[_SENTENCE_LINES - 1] + " …", size, width)]
        return lines

    def _cut(self, line: str, size: float, width: float) -> str:
        """Where there are no spaces to break at, or one word is very long."""
        if self.width(line, size) <= width:
            return line
        while line and self.width(line + "…", size) > width:
            line = line[: -max(1, len(line) // 20)]
        return line + "…"


class Sheet:
    """A figure of a known size, on which things are put by inches from the top left."""

    def __init__(self, width: float, height: float, pen: Pen) -> None:
        self.width, self.height, self.pen = width, height, pen
        self.figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, facecolor=GROUND)
        FigureCanvasAgg(self.figure)

    def text(self, x: float, y: float, text: str, size: float, colour: str = INK, **more: Any) -> None:
        """The top left of the text is at (x, y), unless `ha` and `va` say otherwise."""
        bold = bool(more.pop("bold", False))
        places = {"ha": "left", "va": "top"} | more
        self.figure.text(x / self.width, 1 - y / self.height, text, **self.pen.style(size, colour, bold=bold), **places)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """An empty field with its top left at (x, y): no ticks, no frame but a hairline."""
        box = (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(box)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set(color=LINE, linewidth=0.6)
        return axes


class Heading:
    """Title, sentences and explanation at the top of a picture, folded to the width that the picture has."""

    TITLE, SENTENCE, NOTE = 13.0, 9.0, 7.5

    def __init__(self, pen: Pen, title: str, sentences: Sequence[str], note: str, content_width: float) -> None:
        self._title, self._note = title, note
        widest = max(pen.width(self._title, self.TITLE, bold=True), pen.width(note, self.NOTE))
        self.width = max(content_width, widest)
        self._sentences = [pen.fold(sentence, self.SENTENCE, self.width) for sentence in sentences if sentence]
        n_lines = sum(map(len, self._sentences))
        self.height = 0.3 + 0.165 * n_lines + (0.04 if n_lines else 0) + (0.2 if note else 0) + 0.1

    def draw(self, sheet: Sheet, x: float, y: float) -> None:
        sheet.text(x, y, self._title, self.TITLE, bold=True)
        y += 0.3
        for lines in self._sentences:
            for line in lines:
                sheet.text(x, y, line, self.SENTENCE, SOFT)
                y += 0.165
        y += 0.04 if self._sentences else 0
        sheet.text(x, y, self._note, self.NOTE, SOFT)


def shorten(text: str, most: int) -> str:
    """At most so many columns of a terminal wide; Chinese, Japanese and Korean characters take two."""
    width = 0
    for place, char in enumerate(text):
        width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if width > most:
            return text[: max(1, place - 1)] + "…"
    return text
