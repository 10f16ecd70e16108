"""The positional encoding as a picture (section 3.5): all of it as a field, and some dimensions as waves."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from regard.lens.plots.canvas import ACCENT, DOTS_PER_INCH, LINE, MARGIN, SIGNED, SOFT, Heading, Pen, Picture, Sheet
from regard.lens.plots.fonts import cover

_FIELD_WIDTH, _FIELD_HEIGHT, _WAVE_HEIGHT, _LEFT, _RIGHT = 8.5, 4.0, 0.62, 0.9, 0.6
_N_WAVES = 5
_NOTE = "Each row of the field is what is added to a word at that position; below, some of its columns, as waves."


def draw_waves(table: NDArray[np.floating], title: str, subtitle: str = "") -> Picture:
    """(T, D) → the field, and single dimensions below it."""
    n_positions, d_model = table.shape
    reach = float(np.abs(table).max()) or 1.0
    pen = Pen(cover([title, subtitle]))
    dots = max(1, round(_FIELD_WIDTH * DOTS_PER_INCH / d_model))  # a whole number a column, or stripes appear
    width = d_model * dots / DOTS_PER_INCH
    heading = Heading(pen, title, (subtitle,), _NOTE, _LEFT + width + _RIGHT)
    waves_top = MARGIN + heading.height + _FIELD_HEIGHT + 0.75
    sheet = Sheet(heading.width + 2 * MARGIN, waves_top + _N_WAVES * (_WAVE_HEIGHT + 0.1) + 0.45, pen)
    heading.draw(sheet, MARGIN, MARGIN)
    left = MARGIN + _LEFT
    field = sheet.axes(left, MARGIN + heading.height, width, _FIELD_HEIGHT)
    image = field.imshow(table, cmap=SIGNED, vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest")
    _scale(field, pen, "position", "dimension")
    bar = sheet.axes(left + width + 0.12, MARGIN + heading.height, 0.12, _FIELD_HEIGHT)
    sheet.figure.colorbar(image, cax=bar, ticks=[-reach, 0, reach], format=_number)
    bar.tick_params(length=2, color=LINE, labelsize=8, labelcolor=SOFT)
    for spine in bar.spines.values():
        spine.set(color=LINE, linewidth=0.6)
    for number, dimension in enumerate(_shown(d_model)):
        top = waves_top + number * (_WAVE_HEIGHT + 0.1)
        axes = sheet.axes(left, top, width, _WAVE_HEIGHT)
        axes.axhline(0, color=LINE, linewidth=0.6)
        axes.plot(np.arange(n_positions), table[:, dimension], color=ACCENT, linewidth=1.2)
        axes.set_xlim(-0.5, n_positions - 0.5)
        axes.set_ylim(-1.15 * reach, 1.15 * reach)
        sheet.text(left - 0.08, top + _WAVE_HEIGHT / 2, f"dimension {dimension}", 8, SOFT, ha="right", va="center")
    _scale(axes, pen, "", "position")
    return Picture(sheet.figure, title, pen.coverage.remarks)


def _scale(axes: Axes, pen: Pen, down: str, across: str) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlabel(across, labelpad=2, **pen.style(9, SOFT))
    if down:
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_ylabel(down, labelpad=4, **pen.style(9, SOFT))
    axes.tick_params(length=2, color=LINE, labelsize=8, labelcolor=SOFT)


def _number(value: float, _place: int) -> str:
    return f"{value:.2g}".replace("-", "−")


def _shown(d_model: int) -> list[int]:
    """From the quickest wave to a slow one; the dimensions beyond the middle hardly move within a sentence."""
    return sorted({min(d_model - 1, int(share * d_model) // 2 * 2) for share in (0, 0.06, 0.15, 0.27, 0.5)})
