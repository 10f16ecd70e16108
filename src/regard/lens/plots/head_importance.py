"""One picture of all heads over a corpus: how much the loss rises without each, and where it attends most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.patches import Rectangle

from regard.lens.interventions import ATTENTION_NAMES
from regard.lens.plots.canvas import BACKGROUND, GRAY, INK, LINE, MARGIN, WEIGHTS, Canvas, Heading, Picture, Typesetter
from regard.lens.plots.fonts import select_fonts

if TYPE_CHECKING:
    from regard.lens.heads import HeadRow, HeadsTable

_WIDTH, _HEIGHT, _GAP, _LEFT = 1.12, 0.52, 0.05, 0.62
_NOTES = (
    "Number: change in the loss per token when this head is ablated (darker: larger rise).",
    "Below it: where the head attends most. Encoder–decoder: “same” is the source word at the same position.",
)
_MIN_FULL_COLOUR = 0.01  # the smallest rise drawn in full colour, so that noise stays pale
_MIN_SHARE = 0.3  # of the attention weights, to label a head with a word's relative position


def draw_heads_table(table: HeadsTable, name: str) -> Picture:
    """Encoder, decoder and encoder–decoder attention below one another; one row per layer, one column per head."""
    title = "Importance of each head"
    subtitle = f"{name}: loss {table.loss:.3f} over {table.n_sentences:,} sentences"
    present = {row.head.attention for row in table.heads}
    blocks = {
        name: [row for row in table.heads if row.head.attention == name] for name in ATTENTION_NAMES if name in present
    }
    n_heads = 1 + max(row.head.head for row in table.heads)
    typesetter = Typesetter(select_fonts([title, subtitle]))
    heading = Heading(typesetter, title, (subtitle, *_NOTES), "", _LEFT + n_heads * (_WIDTH + _GAP))
    n_layers = {name: 1 + max(row.head.layer for row in rows) for name, rows in blocks.items()}
    heights = {name: 0.5 + n * (_HEIGHT + _GAP) for name, n in n_layers.items()}
    canvas = Canvas(heading.width + 2 * MARGIN, heading.height + sum(heights.values()) + 2 * MARGIN, typesetter)
    heading.draw(canvas, MARGIN, MARGIN)
    max_rise = max(_MIN_FULL_COLOUR, *(row.loss_rise or 0 for row in table.heads))
    top = MARGIN + heading.height
    for attention, rows in blocks.items():
        _draw_block(canvas, top, ATTENTION_NAMES[attention], rows, max_rise)
        top += heights[attention]
    return Picture(canvas.figure, title, typesetter.fonts.warnings)


def _draw_block(canvas: Canvas, top: float, name: str, rows: list[HeadRow], max_rise: float) -> None:
    canvas.text(MARGIN, top, name, 10, bold=True)
    for row in rows:
        left = MARGIN + _LEFT + row.head.head * (_WIDTH + _GAP)
        y = top + 0.4 + row.head.layer * (_HEIGHT + _GAP)
        if row.head.layer == 0:
            canvas.text(left, y - 0.05, f"head {row.head.head + 1}", 8, GRAY, va="bottom")
        if row.head.head == 0:
            canvas.text(MARGIN, y + _HEIGHT / 2, f"layer {row.head.layer + 1}", 8, GRAY, va="center")
        _draw_cell(canvas, left, y, row, max_rise)


def _draw_cell(canvas: Canvas, left: float, top: float, row: HeadRow, max_rise: float) -> None:
    rise = row.loss_rise or 0.0
    depth = min(max(rise / max_rise, 0), 1)
    corner = (left / canvas.width, 1 - (top + _HEIGHT) / canvas.height)
    size = (_WIDTH / canvas.width, _HEIGHT / canvas.height)
    canvas.figure.add_artist(Rectangle(corner, *size, facecolor=WEIGHTS(depth), edgecolor=LINE, linewidth=0.6))
    strong, weak = (BACKGROUND, BACKGROUND) if depth > 0.65 else (INK, INK if depth > 0.15 else GRAY)
    middle = left + _WIDTH / 2
    canvas.text(middle, top + 0.18, _signed(rise), 9, strong, ha="center", va="center")
    canvas.text(middle, top + 0.37, head_label(row), 7, weak, ha="center", va="center")


def _signed(value: float) -> str:
    """+0.123, with a true minus sign; zero has no sign."""
    text = f"{value:+.3f}".replace("-", "−")
    return "0.000" if text in ("+0.000", "−0.000") else text


def head_label(row: HeadRow) -> str:
    """Where a head attends most, "previous 81%"; if nowhere in particular, its mean distance in words.

    In encoder–decoder attention, "same" is the source word at the same position.
    """
    statistics = row.statistics
    edge = "start" if row.head.attention == "decoder" else "end"
    shares = {"previous": statistics.previous, "same": statistics.same, "next": statistics.next, edge: statistics.end}
    label, share = max(shares.items(), key=lambda item: float(item[1]))
    return f"{label} {float(share):.0%}" if share >= _MIN_SHARE else f"{float(statistics.distance):.1f} words away"
