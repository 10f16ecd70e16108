"""Pictures of images: a gallery, and what a Vision Transformer makes of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from regard.lens.plots.canvas import (
    ACCENT,
    GRAY,
    MARGIN,
    SIGNED,
    WEIGHTS,
    Canvas,
    Heading,
    Picture,
    Typesetter,
)
from regard.lens.plots.fonts import select_fonts

Values = NDArray[np.floating]
Pixels = NDArray[np.uint8]

# all lengths are in inches
_THUMBNAIL, _CAPTION, _GAP = 0.8, 0.36, 0.12
_IMAGE, _WIDTH, _SECTION = 2.3, 7.4, 0.42
_DISTANCE_HEIGHT, _FILTER = 1.6, 0.5


@dataclass(frozen=True)
class Thumbnail:
    """An image with two lines below it."""

    pixels: Pixels  # (H, W, C)
    captions: tuple[str, str]


class Gallery:
    """Rows of small images, below another picture."""

    def __init__(self, title: str, thumbnails: Sequence[Thumbnail]) -> None:
        self.title, self.thumbnails = title, thumbnails

    @property
    def texts(self) -> list[str]:
        return [self.title, *(caption for thumbnail in self.thumbnails for caption in thumbnail.captions)]

    def height(self, width: float) -> float:
        return _SECTION + ceil(len(self.thumbnails) / self._n_columns(width)) * (_THUMBNAIL + _CAPTION + _GAP)

    def draw(self, canvas: Canvas, x: float, y: float, width: float) -> None:
        canvas.text(x, y + 0.14, self.title, 9, bold=True)
        for number, thumbnail in enumerate(self.thumbnails):
            row, column = divmod(number, self._n_columns(width))
            left, top = x + column * (_THUMBNAIL + _GAP), y + _SECTION + row * (_THUMBNAIL + _CAPTION + _GAP)
            _show(canvas.axes(left, top, _THUMBNAIL, _THUMBNAIL), thumbnail.pixels)
            for line, caption in enumerate(thumbnail.captions):
                text = canvas.typesetter.label(caption, 16)
                canvas.text(left, top + _THUMBNAIL + 0.03 + 0.14 * line, text, 6.5, GRAY if line else "#1c1d21")

    def _n_columns(self, width: float) -> int:
        return max(1, int((width + _GAP) / (_THUMBNAIL + _GAP)))


@dataclass(frozen=True, eq=False)
class ImageViews:
    """What is drawn of a look at an image."""

    pixels: Pixels  # (H, W, C)
    grid: tuple[int, int]  # rows and columns of patches
    rollout: Values  # (N,)
    distances: Values  # (L, H), in pixels
    similarity: Values  # (N, N)
    filters: Values  # (n, P, P, C)


def draw_image(views: ImageViews, title: str, sentence: str) -> Picture:
    """The image in patches, the rollout over it, the similarity of positions, distances by head, and the filters."""
    typesetter = Typesetter(select_fonts([title, sentence]))
    heading = Heading(typesetter, title, (sentence,), "", _WIDTH)
    n_filters = len(views.filters)
    filters_per_row = int(_WIDTH / (_FILTER + 0.06))
    filter_height = ceil(n_filters / filters_per_row) * (_FILTER + 0.06)
    height = heading.height + 3 * _SECTION + _IMAGE + _DISTANCE_HEIGHT + 0.4 + filter_height
    canvas = Canvas(heading.width + 2 * MARGIN, height + 2 * MARGIN, typesetter)
    heading.draw(canvas, MARGIN, MARGIN)
    top = MARGIN + heading.height
    step = (_WIDTH - _IMAGE) / 2
    names = ("Patches", "Attention rollout to the class token", "Similarity of positions")
    for number, name in enumerate(names):
        canvas.text(MARGIN + number * step, top + 0.14, name, 8, bold=True)
    first, second, third = (
        canvas.axes(MARGIN + number * step, top + _SECTION, _IMAGE, _IMAGE) for number in range(len(names))
    )
    _draw_patches(first, views)
    _draw_rollout(second, views)
    _draw_similarity(third, views)
    top += _SECTION + _IMAGE
    canvas.text(MARGIN, top + 0.2, "Mean distance of attention by head, in pixels", 8, bold=True)
    _draw_distances(canvas.axes(MARGIN + 0.4, top + _SECTION, _WIDTH - 0.4, _DISTANCE_HEIGHT), views, typesetter)
    top += _SECTION + _DISTANCE_HEIGHT + 0.4
    canvas.text(MARGIN, top + 0.14, f"Patch projection: its first {n_filters} principal components", 8, bold=True)
    for number, values in enumerate(views.filters):
        row, column = divmod(number, filters_per_row)
        x, y = MARGIN + column * (_FILTER + 0.06), top + _SECTION + row * (_FILTER + 0.06)
        _draw_filter(canvas.axes(x, y, _FILTER, _FILTER), values)
    return Picture(canvas.figure, title, typesetter.fonts.warnings)


def _show(axes: Axes, pixels: Pixels) -> None:
    grey = pixels.shape[2] == 1
    axes.imshow(pixels[:, :, 0] if grey else pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")


def _draw_patches(axes: Axes, views: ImageViews) -> None:
    """The image, with lines between its patches."""
    height, width = views.pixels.shape[:2]
    _show(axes, views.pixels)
    for number in range(1, views.grid[0]):
        axes.axhline(number * height / views.grid[0] - 0.5, color=ACCENT, linewidth=0.5)
    for number in range(1, views.grid[1]):
        axes.axvline(number * width / views.grid[1] - 0.5, color=ACCENT, linewidth=0.5)


def _draw_rollout(axes: Axes, views: ImageViews) -> None:
    """The image faintly, and the shares of its patches over it."""
    height, width = views.pixels.shape[:2]
    _show(axes, (255 - (255 - views.pixels.astype(np.int64)) // 3).astype(np.uint8))
    shares = views.rollout.reshape(views.grid)
    box = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes.imshow(shares, cmap=WEIGHTS, vmin=0, alpha=0.75, extent=box, interpolation="nearest")


def _draw_similarity(axes: Axes, views: ImageViews) -> None:
    """A small map for each patch, where it is in the image: the cosine of its position and all others."""
    rows, columns = views.grid
    maps = views.similarity.reshape(rows, columns, rows, columns)
    padded = np.full((rows, columns, rows + 1, columns + 1), np.nan)
    padded[:, :, :rows, :columns] = maps
    tiled = padded.transpose(0, 2, 1, 3).reshape(rows * (rows + 1), columns * (columns + 1))
    axes.imshow(tiled, cmap=SIGNED, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")


def _draw_distances(axes: Axes, views: ImageViews, typesetter: Typesetter) -> None:
    n_layers, n_heads = views.distances.shape
    layers = np.repeat(np.arange(1, n_layers + 1), n_heads)
    axes.scatter(layers, views.distances.ravel(), s=18, color=ACCENT, alpha=0.7, linewidths=0)
    axes.set_xlim(0.5, n_layers + 0.5)
    axes.set_ylim(0, 1.15 * float(views.distances.max()))
    axes.set_xticks(range(1, n_layers + 1), [f"layer {i}" for i in range(1, n_layers + 1)], **typesetter.style(7, GRAY))
    ticks = np.linspace(0, float(views.distances.max()), 4)
    axes.set_yticks(ticks, [f"{tick:.0f}" for tick in ticks], **typesetter.style(7, GRAY))
    axes.tick_params(length=0)


def _draw_filter(axes: Axes, values: Values) -> None:
    """(P, P, C) around 0: grey in two colours, others as colours."""
    limit = float(np.abs(values).max()) or 1.0
    if values.shape[2] == 1:
        axes.imshow(values[:, :, 0], cmap=SIGNED, vmin=-limit, vmax=limit, interpolation="nearest")
    else:
        axes.imshow((values / limit + 1) / 2, interpolation="nearest")
