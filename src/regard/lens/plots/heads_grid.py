"""All heads over a corpus in one picture: how much is lost without each, and where it mostly looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.patches import Rectangle

from regard.lens.plots.canvas import GROUND, INK, LINE, MARGIN, SOFT, WEIGHTS, Heading, Pen, Picture, Sheet
from regard.lens.plots.fonts import cover
from regard.lens.plots.head_labels import habit_of
from regard.lens.plots.pictures import NAMES

if TYPE_CHECKING:
    from regard.lens.heads import HeadRow, HeadsTable

_WIDTH, _HEIGHT, _GAP, _LEFT = 1.12, 0.52, 0.05, 0.62
_NOTES = (
    "In each field: how the share of right symbols changes when this head is silent (the darker, the more is lost).",
    "Below it: where the head looks most. Encoder–decoder: same is the word at the same place of the source.",
)
_PALEST = 0.01  # a hundredth lost is the least that gets the full colour: noise should look like noise


def draw_grid(table: HeadsTable, name: str) -> Picture:
    """Encoder, decoder, encoder–decoder, one under the other; a row a layer, a column a head."""
    title = "What each head is worth"
    subtitle = f"{name}: {table.accuracy:.1%} of the next symbols right, over {table.n_sentences:,} sentences"
    blocks = {name: [row for row in table.heads if row.head.attention == name] for name in NAMES}
    n_heads = 1 + max(row.head.head for row in table.heads)
    pen = Pen(cover([title, subtitle]))
    heading = Heading(pen, title, (subtitle, *_NOTES), "", _LEFT + n_heads * (_WIDTH + _GAP))
    n_layers = {name: 1 + max(row.head.layer for row in rows) for name, rows in blocks.items()}
    heights = {name: 0.5 + n * (_HEIGHT + _GAP) for name, n in n_layers.items()}
    sheet = Sheet(heading.width + 2 * MARGIN, heading.height + sum(heights.values()) + 2 * MARGIN, pen)
    heading.draw(sheet, MARGIN, MARGIN)
    full = max(_PALEST, *(row.accuracy_drop or 0 for row in table.heads))
    top = MARGIN + heading.height
    for attention, rows in blocks.items():
        _draw_block(sheet, top, NAMES[attention], rows, full)
        top += heights[attention]
    return Picture(sheet.figure, title, pen.coverage.remarks)


def _draw_block(sheet: Sheet, top: float, name: str, rows: list[HeadRow], full: float) -> None:
    sheet.text(MARGIN, top, name, 10, bold=True)
    for row in rows:
        left = MARGIN + _LEFT + row.head.head * (_WIDTH + _GAP)
        y = top + 0.4 + row.head.layer * (_HEIGHT + _GAP)
        if row.head.layer == 0:
            sheet.text(left, y - 0.05, f"head {row.head.head + 1}", 8, SOFT, va="bottom")
        if row.head.head == 0:
            sheet.text(MARGIN, y + _HEIGHT / 2, f"layer {row.head.layer + 1}", 8, SOFT, va="center")
        _draw_field(sheet, left, y, row, full)


def _draw_field(sheet: Sheet, left: float, top: float, row: HeadRow, full: float) -> None:
    drop = row.accuracy_drop or 0.0
    depth = min(max(drop / full, 0), 1)
    corner = (left / sheet.width, 1 - (top + _HEIGHT) / sheet.height)
    size = (_WIDTH / sheet.width, _HEIGHT / sheet.height)
    sheet.figure.add_artist(Rectangle(corner, *size, facecolor=WEIGHTS(depth), edgecolor=LINE, linewidth=0.6))
    strong, weak = (GROUND, GROUND) if depth > 0.65 else (INK, INK if depth > 0.15 else SOFT)
    middle = left + _WIDTH / 2
    sheet.text(middle, top + 0.18, signed_share(-drop), 9, strong, ha="center", va="center")
    sheet.text(middle, top + 0.37, habit_of(row), 7, weak, ha="center", va="center")


def signed_share(value: float) -> str:
    """−12.3%; nothing is neither more nor less."""
    written = f"{value:+.1%}".replace("-", "−")
    return "0.0%" if written in ("+0.0%", "−0.0%") else written
