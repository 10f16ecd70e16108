"""Heat maps: attention weights of many heads or of one, and the positional encoding (section 3.5)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from regard.lens.plots.canvas import (
    ACCENT,
    BACKGROUND,
    DOTS_PER_INCH,
    GRAY,
    INK,
    LINE,
    MARGIN,
    MASKED,
    POINTS_PER_INCH,
    SIGNED,
    WEIGHTS,
    Canvas,
    Heading,
    Picture,
    Typesetter,
)
from regard.lens.plots.fonts import select_fonts

Matrix = NDArray[np.floating]

# all lengths are in inches
_MAX_GRID = 15.0  # width or height of all maps of a grid together, before their cells shrink
_MIN_CELL, _MAX_CELL = 0.07, 0.2  # in a grid; smaller labels are unreadable
_MIN_MAP, _MAX_MAP = 1.05, 5.6
_GAP = 0.16
_MIN_CELL_WITH_VALUE = 0.27
WEIGHTS_NOTE = (
    "Each row shows how one word distributes its attention over the columns: darker is more, a row sums to 1."
)
SCORES_NOTE = "The scores before the softmax: blue is above zero, brown below."
_DEPENDENCE_NOTE = (
    "Gradient: its norm, as shares of the row. Left out: how much the log-probability of the word falls without that "
    "source word (blue), or rises (brown)."
)
_UNITS_NOTE = (
    "Each row is one sub-word, each column a unit. States: blue is above 0, brown below. Gates: white is 0, blue 1."
)

_REACH_NOTE = "The number of layers after which a position (row) depends on a word (column); white: it never does."

_TABLE_WIDTH, _TABLE_HEIGHT, _CURVE_HEIGHT, _LEFT, _RIGHT = 8.5, 4.0, 0.62, 0.9, 0.6
_CURVES = (0, 0.06, 0.15, 0.27, 0.5)  # dimensions as a share of d_model: later ones hardly change within a sentence
_ENCODING_NOTE = (
    "Each row of the heat map is the vector added to the token at that position. Below: some of its columns."
)


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one head: each row attends to the columns. Other values are drawn in the same way."""

    title: str
    weights: Matrix  # (T, S); NaN is not drawn
    is_causal: bool = False  # what comes later is drawn as hidden
    hidden: NDArray[np.bool_] | None = None  # (T, S) what the mask hides, where it hides more or other positions
    limit: float = 1.0  # the value with the darkest colour
    is_signed: bool = False


def draw_grid(
    maps: Sequence[Sequence[AttentionMap]],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    sentences: tuple[str, ...] = (),
    note: str = WEIGHTS_NOTE,
) -> Picture:
    """One row of maps per layer, one column per head, all with the same colour scale."""
    typesetter = Typesetter(select_fonts([*rows, *columns, title, *sentences]))
    n_layers, n_heads = len(maps), max(map(len, maps))
    fitting = min(_MAX_GRID / (n_heads * len(columns)), _MAX_GRID / (n_layers * len(rows)))
    cell = min(max(fitting, _MIN_CELL), _MAX_CELL)
    width, height = (min(max(n * cell, _MIN_MAP), _MAX_MAP) for n in (len(columns), len(rows)))
    row_labels = _Labels(typesetter, rows, height / len(rows))
    column_labels = _Labels(typesetter, columns, width / len(columns))
    content = row_labels.size + n_heads * width + (n_heads - 1) * _GAP
    heading = Heading(typesetter, title, sentences, note, content)
    row_height = 0.24 + height + column_labels.size + _GAP
    canvas = Canvas(heading.width + 2 * MARGIN, heading.height + n_layers * row_height + 2 * MARGIN - _GAP, typesetter)
    heading.draw(canvas, MARGIN, MARGIN)
    for layer, heads in enumerate(maps):
        top = MARGIN + heading.height + layer * row_height
        for number, attention_map in enumerate(heads):
            left = MARGIN + row_labels.size + number * (width + _GAP)
            canvas.text(left, top, attention_map.title, 8)
            axes = canvas.axes(left, top + 0.2, width, height)
            _draw_weights(axes, attention_map)
            column_labels.draw_below(axes)
            if number == 0:
                row_labels.draw_left_of(axes)
    return Picture(canvas.figure, title, typesetter.fonts.warnings)


def draw_single(
    attention_map: AttentionMap,
    rows: Sequence[str],
    columns: Sequence[str],
    sentences: tuple[str, ...] = (),
    note: str = WEIGHTS_NOTE,
    label_columns: int = 22,
) -> Picture:
    """One large map, with the weights as numbers where they fit. Longer labels than `label_columns` are cut."""
    title = attention_map.title
    typesetter = Typesetter(select_fonts([*rows, *columns, title, *sentences]))
    cell = min(max(13 / max(len(columns), len(rows)), 0.11), 0.46)
    width, height = (max(n * cell, 1.4) for n in (len(columns), len(rows)))
    row_labels, column_labels = (_Labels(typesetter, words, cell, label_columns) for words in (rows, columns))
    heading = Heading(typesetter, title, sentences, note, row_labels.size + width)
    left, top = MARGIN + row_labels.size, MARGIN + heading.height + 0.05
    canvas = Canvas(heading.width + 2 * MARGIN, top + height + column_labels.size + MARGIN, typesetter)
    heading.draw(canvas, MARGIN, MARGIN)
    axes = canvas.axes(left, top, width, height)
    _draw_weights(axes, attention_map)
    row_labels.draw_left_of(axes)
    column_labels.draw_below(axes)
    if cell >= _MIN_CELL_WITH_VALUE:
        _write_values(axes, attention_map, typesetter, size=min(8.0, cell * 19))
    return Picture(canvas.figure, title, typesetter.fonts.warnings)


class _Labels:
    """The words along one side of a map: `size` is the space they take, across the side."""

    def __init__(self, typesetter: Typesetter, words: Sequence[str], cell: float, max_columns: int = 14) -> None:
        step = ceil(_MIN_CELL / cell - 1e-6)  # in very long texts only every n-th word has space for a label
        self._positions = range(0, len(words), step)
        self._words = [typesetter.label(words[position], max_columns) for position in self._positions]
        font_size = min(9.0, cell * step * POINTS_PER_INCH * 0.86)
        self._style = typesetter.style(font_size, INK)
        self.size = typesetter.max_width(self._words, font_size) + 0.07

    def draw_below(self, axes: Axes) -> None:
        transform = axes.get_xaxis_transform()
        gap = 0.045 / axes.bbox.height * axes.figure.dpi
        vertical = self._style | {"rotation": 90, "rotation_mode": "anchor", "ha": "right", "va": "center_baseline"}
        for x, word in zip(self._positions, self._words, strict=True):
            axes.text(x, -gap, word, transform=transform, **vertical)

    def draw_left_of(self, axes: Axes) -> None:
        transform = axes.get_yaxis_transform()
        gap = 0.045 / axes.bbox.width * axes.figure.dpi
        for y, word in zip(self._positions, self._words, strict=True):
            axes.text(-gap, y, word, transform=transform, ha="right", va="center_baseline", **self._style)


def _draw_weights(axes: Axes, attention_map: AttentionMap) -> None:
    """Unsmoothed; one weight has the same colour in every map."""
    weights = attention_map.weights
    colours, lowest = (SIGNED, -attention_map.limit) if attention_map.is_signed else (WEIGHTS, 0)
    axes.imshow(weights, cmap=colours, vmin=lowest, vmax=attention_map.limit, aspect="auto", interpolation="nearest")
    hidden = attention_map.hidden
    if hidden is None and attention_map.is_causal:
        hidden = np.triu(np.ones_like(weights, dtype=bool), k=1)
    if hidden is not None:
        overlay = np.ma.masked_where(~(hidden & (weights == 0)), np.zeros_like(weights))
        axes.imshow(overlay, cmap=ListedColormap([MASKED]), aspect="auto", interpolation="nearest")
    axes.set_xlim(-0.5, weights.shape[1] - 0.5)
    axes.set_ylim(weights.shape[0] - 0.5, -0.5)


def _write_values(axes: Axes, attention_map: AttentionMap, typesetter: Typesetter, size: float) -> None:
    for (row, column), value in np.ndenumerate(attention_map.weights):
        darkness = abs(value) / attention_map.limit
        if np.isfinite(value) and abs(value) >= 0.005:
            text = f"{value:.2f}" if abs(value) < 9.95 else f"{value:.0f}"
            text = "1" if text == "1.00" else text.removeprefix("0").replace("-0.", "−.").replace("-", "−")
            colour = BACKGROUND if darkness > 0.65 else (INK if darkness >= 0.1 else GRAY)
            axes.text(column, row, text, ha="center", va="center", **typesetter.style(size, colour))


def draw_beside(
    maps: Sequence[tuple[AttentionMap, Sequence[str]]], rows: Sequence[str], title: str, sentences: tuple[str, ...]
) -> Picture:
    """Maps with the same rows side by side, each with its own columns and colours."""
    names = [name for _, columns in maps for name in columns]
    typesetter = Typesetter(select_fonts([*rows, *names, title, *sentences]))
    cell = min(max(_MAX_GRID / len(names), 0.11), 0.36)
    cell = min(cell, max(_MAX_GRID / len(rows), 0.11))
    row_labels = _Labels(typesetter, rows, cell, max_columns=22)
    column_labels = [_Labels(typesetter, columns, cell, max_columns=22) for _, columns in maps]
    widths = [max(len(columns) * cell, typesetter.width(drawn.title, 8)) for drawn, columns in maps]
    content = row_labels.size + sum(widths) + _GAP * (len(maps) - 1)
    heading = Heading(typesetter, title, sentences, _DEPENDENCE_NOTE, content)
    top, height = MARGIN + heading.height, len(rows) * cell
    below = max(labels.size for labels in column_labels)
    canvas = Canvas(heading.width + 2 * MARGIN, top + 0.2 + height + below + MARGIN, typesetter)
    heading.draw(canvas, MARGIN, MARGIN)
    left = MARGIN + row_labels.size
    for (drawn, columns), labels, width in zip(maps, column_labels, widths, strict=True):
        canvas.text(left, top, drawn.title, 8)
        axes = canvas.axes(left, top + 0.2, len(columns) * cell, height)
        _draw_weights(axes, drawn)
        labels.draw_below(axes)
        if drawn is maps[0][0]:
            row_labels.draw_left_of(axes)
        if cell >= _MIN_CELL_WITH_VALUE:
            _write_values(axes, drawn, typesetter, size=min(8.0, cell * 19))
        left += width + _GAP
    return Picture(canvas.figure, title, typesetter.fonts.warnings)


def draw_units(maps: Sequence[tuple[AttentionMap, Sequence[str]]], title: str, sentences: tuple[str, ...]) -> Picture:
    """Vectors per position, (T, D) each with the labels of its rows, one map below the other."""
    typesetter = Typesetter(select_fonts([title, *sentences, *(label for _, rows in maps for label in rows)]))
    labels = [_Labels(typesetter, rows, _MAX_CELL) for _, rows in maps]
    label_size = max(label.size for label in labels)
    heading = Heading(typesetter, title, sentences, _UNITS_NOTE, label_size + _TABLE_WIDTH)
    heights = [len(rows) * _MAX_CELL for _, rows in maps]
    top = MARGIN + heading.height
    canvas = Canvas(heading.width + 2 * MARGIN, top + sum(heights) + len(maps) * (0.2 + _GAP) + MARGIN, typesetter)
    heading.draw(canvas, MARGIN, MARGIN)
    for (units, _), height, row_labels in zip(maps, heights, labels, strict=True):
        canvas.text(MARGIN + label_size, top, units.title, 8)
        axes = canvas.axes(MARGIN + label_size, top + 0.2, _TABLE_WIDTH, height)
        limit = (float(np.abs(units.weights).max()) or 1.0) if units.is_signed else 1.0
        _draw_weights(axes, replace(units, limit=limit))
        row_labels.draw_left_of(axes)
        top += 0.2 + height + _GAP
    return Picture(canvas.figure, title, typesetter.fonts.warnings)


@dataclass(frozen=True)
class ReachMap:
    """After how many layers each row depends on each column, from 1; 0 if it never does."""

    title: str
    first_layer: NDArray[np.int64]  # (T, S)
    rows: Sequence[str]
    columns: Sequence[str]


def draw_reach_maps(maps: Sequence[ReachMap], sentences: tuple[str, ...]) -> Picture:
    """One map below the other; the fewer layers, the darker."""
    drawn = [(AttentionMap(one.title, _shades(one.first_layer)), one.rows, one.columns) for one in maps]
    return draw_stacked(drawn, "Reach", sentences, _REACH_NOTE, [one.first_layer for one in maps])


def _shades(first_layer: NDArray[np.int64]) -> Matrix:
    return np.where(first_layer > 0, 1 - 0.85 * (first_layer - 1) / max(1, first_layer.max()), 0)


def draw_stacked(
    maps: Sequence[tuple[AttentionMap, Sequence[str], Sequence[str]]],
    title: str,
    sentences: tuple[str, ...],
    note: str,
    numbers: Sequence[NDArray[np.int64]] = (),
) -> Picture:
    """Maps one below the other, each with the labels of its own rows and columns; `numbers` are for the cells."""
    names = [name for _, rows, columns in maps for name in (*rows, *columns)]
    typesetter = Typesetter(select_fonts([title, *sentences, *names]))
    n_columns = max(len(columns) for _, _, columns in maps)
    cell = min(max(8 / n_columns, 0.11), 0.3)
    labels = [(_Labels(typesetter, rows, cell), _Labels(typesetter, columns, cell)) for _, rows, columns in maps]
    left = MARGIN + max(beside.size for beside, _ in labels)
    heading = Heading(typesetter, title, sentences, note, left + cell * n_columns)
    heights = [
        0.22 + cell * len(rows) + below.size + _GAP for (_, rows, _), (_, below) in zip(maps, labels, strict=True)
    ]
    top = MARGIN + heading.height
    canvas = Canvas(heading.width + 2 * MARGIN, top + sum(heights) + MARGIN - _GAP, typesetter)
    heading.draw(canvas, MARGIN, MARGIN)
    for number, ((drawn, rows, columns), (beside, below)) in enumerate(zip(maps, labels, strict=True)):
        canvas.text(left, top, drawn.title, 8)
        axes = canvas.axes(left, top + 0.22, cell * len(columns), cell * len(rows))
        _draw_weights(axes, drawn)
        beside.draw_left_of(axes)
        below.draw_below(axes)
        if numbers and cell >= _MIN_CELL_WITH_VALUE:
            _write_numbers(axes, numbers[number], drawn.weights, typesetter)
        top += heights[number]
    return Picture(canvas.figure, title, typesetter.fonts.warnings)


def _write_numbers(axes: Axes, numbers: NDArray[np.int64], shades: Matrix, typesetter: Typesetter) -> None:
    for (row, column), value in np.ndenumerate(numbers):
        if value:
            colour = BACKGROUND if shades[row, column] > 0.65 else INK
            axes.text(column, row, str(value), ha="center", va="center", **typesetter.style(7, colour))


def draw_positions(table: Matrix, title: str, subtitle: str = "") -> Picture:
    """A positional encoding (T, D) as a heat map, with the curves of some dimensions below it."""
    n_positions, d_model = table.shape
    limit = float(np.abs(table).max()) or 1.0
    typesetter = Typesetter(select_fonts([title, subtitle]))
    dots = max(1, round(_TABLE_WIDTH * DOTS_PER_INCH / d_model))  # a whole number per column prevents stripes
    width = d_model * dots / DOTS_PER_INCH
    heading = Heading(typesetter, title, (subtitle,), _ENCODING_NOTE, _LEFT + width + _RIGHT)
    left, top = MARGIN + _LEFT, MARGIN + heading.height
    curves_top = top + _TABLE_HEIGHT + 0.75
    dimensions = _curve_dimensions(d_model)
    canvas_height = curves_top + len(dimensions) * (_CURVE_HEIGHT + 0.1) + 0.45
    canvas = Canvas(heading.width + 2 * MARGIN, canvas_height, typesetter)
    heading.draw(canvas, MARGIN, MARGIN)
    table_axes = canvas.axes(left, top, width, _TABLE_HEIGHT)
    image = table_axes.imshow(table, cmap=SIGNED, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    _add_scales(table_axes, typesetter, "position", "dimension")
    colour_bar = canvas.axes(left + width + 0.12, top, 0.12, _TABLE_HEIGHT)
    canvas.figure.colorbar(image, cax=colour_bar, ticks=[-limit, 0, limit], format=_format_tick)
    colour_bar.tick_params(length=2, color=LINE, labelsize=8, labelcolor=GRAY)
    for spine in colour_bar.spines.values():
        spine.set(color=LINE, linewidth=0.6)
    for number, dimension in enumerate(dimensions):
        curve_top = curves_top + number * (_CURVE_HEIGHT + 0.1)
        axes = canvas.axes(left, curve_top, width, _CURVE_HEIGHT)
        axes.axhline(0, color=LINE, linewidth=0.6)
        axes.plot(np.arange(n_positions), table[:, dimension], color=ACCENT, linewidth=1.2)
        axes.set_xlim(-0.5, n_positions - 0.5)
        axes.set_ylim(-1.15 * limit, 1.15 * limit)
        middle = curve_top + _CURVE_HEIGHT / 2
        canvas.text(left - 0.08, middle, f"dimension {dimension}", 8, GRAY, ha="right", va="center")
    _add_scales(axes, typesetter, "", "position")
    return Picture(canvas.figure, title, typesetter.fonts.warnings)


def _add_scales(axes: Axes, typesetter: Typesetter, y_label: str, x_label: str) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlabel(x_label, labelpad=2, **typesetter.style(9, GRAY))
    if y_label:
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_ylabel(y_label, labelpad=4, **typesetter.style(9, GRAY))
    axes.tick_params(length=2, color=LINE, labelsize=8, labelcolor=GRAY)


def _format_tick(value: float, _position: int) -> str:
    return f"{value:.2g}".replace("-", "−")


def _curve_dimensions(d_model: int) -> list[int]:
    """From the highest frequency to a low one; the even dimensions are sines."""
    return sorted({min(d_model - 1, int(share * d_model) // 2 * 2) for share in _CURVES})
