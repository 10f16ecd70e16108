"""A picture of a confusion matrix: rows are the true classes, columns the predicted ones."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.lens.plots.canvas import GRAY, MARGIN, POINTS_PER_INCH, WEIGHTS, Canvas, Heading, Picture, Typesetter
from regard.lens.plots.fonts import select_fonts
from regard.lens.plots.images import Gallery

_CELL, _MIN_CELL, _MAX_SIDE = 0.72, 0.16, 9.0  # inches
_MIN_CELL_WITH_VALUE, _MIN_CELL_WITH_SHARE = 0.34, 0.6
_MIN_WIDTH, _GAP, _LABEL_SIZE = 4.6, 0.1, 8.0
_NOTE = "Each row is a true class, each column a predicted one. Darker: a larger share of the row."


def draw_confusion(
    classes: Sequence[str], counts: NDArray[np.int64], title: str, sentence: str, gallery: Gallery | None = None
) -> Picture:
    """(C, C) counts, with the share of its row under each; a gallery is drawn below."""
    typesetter = Typesetter(select_fonts([*classes, title, sentence, *([] if gallery is None else gallery.texts)]))
    n = len(classes)
    cell = max(_MIN_CELL, min(_CELL, _MAX_SIDE / n))
    size = min(_LABEL_SIZE, 0.8 * cell * POINTS_PER_INCH)
    labels = [typesetter.label(name) for name in classes]
    left = typesetter.max_width(labels, size) + 2 * _GAP
    is_slanted = typesetter.max_width(labels, size) > cell - 0.08
    above = (left if is_slanted else 0.2) + 0.1
    heading = Heading(typesetter, title, (sentence, _NOTE), "", max(_MIN_WIDTH, left + n * cell))
    height = heading.height + above + n * cell + 2 * MARGIN
    below = 0.0 if gallery is None else gallery.height(heading.width)
    canvas = Canvas(heading.width + 2 * MARGIN, height + below, typesetter)
    if gallery is not None:
        gallery.draw(canvas, MARGIN, height - MARGIN, heading.width)
    heading.draw(canvas, MARGIN, MARGIN)
    top = MARGIN + heading.height + above
    shares = counts / np.maximum(1, counts.sum(1, keepdims=True))
    axes = canvas.axes(MARGIN + left, top, n * cell, n * cell)
    axes.imshow(shares, cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for i, label in enumerate(labels):
        middle = (i + 0.5) * cell
        canvas.text(MARGIN + left - _GAP, top + middle, label, size, ha="right", va="center")
        canvas.text(
            MARGIN + left + middle, top - 0.06, label, size, ha="center", va="bottom", rotation=90 if is_slanted else 0
        )
    if cell >= _MIN_CELL_WITH_VALUE:
        for (row, column), count in np.ndenumerate(counts):
            ink = {} if shares[row, column] < 0.55 else {"colour": "#ffffff"}
            x, y = MARGIN + left + (column + 0.5) * cell, top + (row + 0.5) * cell
            has_share = cell >= _MIN_CELL_WITH_SHARE
            canvas.text(x, y - 0.07 * has_share, f"{count:,}", size + 1, ha="center", va="center", **ink)
            if has_share:
                pale = ink or {"colour": GRAY}
                canvas.text(x, y + 0.13, f"{shares[row, column]:.0%}", size - 1, ha="center", va="center", **pale)
    return Picture(canvas.figure, title, typesetter.fonts.warnings)
