"""Attention as pictures: all heads of one kind side by side, or one head large with its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from numpy.typing import NDArray

from regard.lens.plots.canvas import (
    GROUND,
    HIDDEN,
    INK,
    MARGIN,
    POINTS_PER_INCH,
    SOFT,
    WEIGHTS,
    Heading,
    Pen,
    Picture,
    Sheet,
)
from regard.lens.plots.fonts import cover

Matrix = NDArray[np.floating]

_WALL_INCHES = 15.0  # as wide or as high as all maps together may get while labels are still of a good size
_SMALLEST_PITCH, _LARGEST_PITCH = 0.07, 0.2  # inches a word, so that its label can be read
_LARGEST_MAP, _SMALLEST_MAP = 5.6, 1.05
_GAP = 0.16
_WITH_VALUES = 0.27  # inches a cell, from which on its value fits in
_NOTE = "Each row is a word that looks; the darker a column, the more it looks there. A row sums to 1."


@dataclass(frozen=True)
class Map:
    """One head's weights (rows look at columns), with the title that says which head it is."""

    title: str
    weights: Matrix  # (T, S)
    hides_future: bool = False


@dataclass(frozen=True)
class Caption:
    """What stands above: a title, and the sentences it is about."""

    title: str
    sentences: tuple[str, ...] = ()


def draw_wall(maps: Sequence[Sequence[Map]], rows: Sequence[str], columns: Sequence[str], caption: Caption) -> Picture:
    """Small multiples: a row of maps a layer, a column a head, all with the same scale."""
    pen = Pen(cover([*rows, *columns, caption.title, *caption.sentences]))
    n_layers, n_heads = len(maps), max(map(len, maps))
    fitting = min(_WALL_INCHES / (n_heads * len(columns)), _WALL_INCHES / (n_layers * len(rows)))
    pitch = min(max(fitting, _SMALLEST_PITCH), _LARGEST_PITCH)
    width, height = (min(max(n * pitch, _SMALLEST_MAP), _LARGEST_MAP) for n in (len(columns), len(rows)))
    rows_axis, columns_axis = _Labels(pen, rows, height / len(rows)), _Labels(pen, columns, width / len(columns))
    content = rows_axis.room + n_heads * width + (n_heads - 1) * _GAP
    heading = Heading(pen, caption.title, caption.sentences, _NOTE, content)
    row_height = 0.24 + height + columns_axis.room + _GAP
    sheet = Sheet(heading.width + 2 * MARGIN, heading.height + n_layers * row_height + 2 * MARGIN - _GAP, pen)
    heading.draw(sheet, MARGIN, MARGIN)
    for layer, heads in enumerate(maps):
        top = MARGIN + heading.height + layer * row_height
        for number, one in enumerate(heads):
            left = MARGIN + rows_axis.room + number * (width + _GAP)
            sheet.text(left, top, one.title, 8)
            axes = sheet.axes(left, top + 0.2, width, height)
            _paint(axes, one)
            columns_axis.below(axes)
            if number == 0:
                rows_axis.beside(axes)
    return Picture(sheet.figure, caption.title, pen.coverage.remarks)


def draw_map(one: Map, rows: Sequence[str], columns: Sequence[str], sentences: tuple[str, ...] = ()) -> Picture:
    """One head, large; with values where they fit."""
    pen = Pen(cover([*rows, *columns, one.title, *sentences]))
    pitch = min(max(13 / max(len(columns), len(rows)), 0.11), 0.46)
    width, height = (max(n * pitch, 1.4) for n in (len(columns), len(rows)))
    rows_axis, columns_axis = (_Labels(pen, words, pitch, most=22) for words in (rows, columns))
    heading = Heading(pen, one.title, sentences, _NOTE, rows_axis.room + width)
    left, top = MARGIN + rows_axis.room, MARGIN + heading.height + 0.05
    sheet = Sheet(heading.width + 2 * MARGIN, top + height + columns_axis.room + MARGIN, pen)
    heading.draw(sheet, MARGIN, MARGIN)
    axes = sheet.axes(left, top, width, height)
    _paint(axes, one)
    rows_axis.beside(axes)
    columns_axis.below(axes)
    if pitch >= _WITH_VALUES:
        _write_values(axes, one.weights, pen, size=min(8.0, pitch * 19))
    return Picture(sheet.figure, one.title, pen.coverage.remarks)


class _Labels:
    """The words along one side of a map: how large they can be, how much room they take, and where they go."""

    def __init__(self, pen: Pen, words: Sequence[str], pitch: float, most: int = 14) -> None:
        self._every = ceil(_SMALLEST_PITCH / pitch - 1e-6)  # of very long texts not every word has room for a label
        self._places = range(0, len(words), self._every)
        self._words = [pen.label(words[place], most) for place in self._places]
        self._size = min(9.0, pitch * self._every * POINTS_PER_INCH * 0.86)
        self._style = pen.style(self._size, INK)
        self.room = pen.widest(self._words, self._size) + 0.07

    def below(self, axes: Axes) -> None:
        place = axes.get_xaxis_transform()
        gap = 0.045 / axes.bbox.height * axes.figure.dpi
        upright = self._style | {"rotation": 90, "rotation_mode": "anchor", "ha": "right", "va": "center_baseline"}
        for x, word in zip(self._places, self._words, strict=True):
            axes.text(x, -gap, word, transform=place, **upright)

    def beside(self, axes: Axes) -> None:
        place = axes.get_yaxis_transform()
        gap = 0.045 / axes.bbox.width * axes.figure.dpi
        for y, word in zip(self._places, self._words, strict=True):
            axes.text(-gap, y, word, transform=place, ha="right", va="center_baseline", **self._style)


def _paint(axes: Axes, one: Map) -> None:
    """The weights as they are: no smoothing, the same colour for the same weight in every map."""
    axes.imshow(one.weights, cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    if one.hides_future:
        future = np.triu(np.ones_like(one.weights, dtype=bool), k=1) & (one.weights == 0)
        grey = np.ma.masked_where(~future, np.zeros_like(one.weights))
        axes.imshow(grey, cmap=ListedColormap([HIDDEN]), aspect="auto", interpolation="nearest")
    axes.set_xlim(-0.5, one.weights.shape[1] - 0.5)
    axes.set_ylim(one.weights.shape[0] - 0.5, -0.5)


def _write_values(axes: Axes, weights: Matrix, pen: Pen, size: float) -> None:
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= 0.005:
            written = f"{weight:.2f}".lstrip("0") if weight < 0.995 else "1"
            colour = GROUND if weight > 0.65 else (INK if weight >= 0.1 else SOFT)
            axes.text(column, row, written, ha="center", va="center", **pen.style(size, colour))
