"""A line chart as SVG: axes, ticks, and each line's name at its end.

Places are percentages of the drawing and text has a fixed size, so that one drawing is as legible on a telephone as on
a desk. Only the lines themselves are stretched, and their width is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

from regard.report.wording import few_digits

HEIGHT = 200  # CSS pixels
_UNITS = 1000  # of the stretched drawing, each way
_LABEL_HEIGHT = 16
_TICKS = 5

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve. `colour` is a class of the page's style."""

    name: str
    points: Points
    colour: str
    raw: Points = ()  # drawn faintly behind it
    dots: bool = False


@dataclass(frozen=True)
class _Scale:
    """A range with round ends."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def chart(title: str, lines: Sequence[Line], *, x_end: float, unit: str = "", note: str = "") -> str:
    """A figure; empty when there is nothing to draw. `x_end` is the last step of the run."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    values = [y for line in drawn for _, y in (*line.points, *line.raw)]
    x, y = _steps_scale(max(x_end, *(point[0] for line in drawn for point in line.points))), scale(0.0, max(values))
    last = "; ".join(f"{line.name} {few_digits(line.points[-1][1])}" for line in drawn)
    parts = [
        *(_y_tick(y, tick) for tick in y.ticks),
        *(_x_tick(x, tick) for tick in x.ticks),
        '<text x="100%" y="100%" dx="32" dy="20">steps</text>',
        *(_stretched(line, x, y) for line in drawn),
        *(_dots(line, x, y) for line in drawn if line.dots),
        *_names(drawn, x, y),
    ]
    heading = f"{escape(title)}{f' <small>{escape(unit)}</small>' if unit else ''}"
    below = f"<p>{escape(note)}</p>" if note else ""
    return (
        f"<figure>\n<figcaption>{heading}</figcaption>\n"
        f'<div class="plot"><svg height="{HEIGHT}" role="img" aria-label="{escape(title)} by step: {escape(last)}">\n'
        + "\n".join(parts)
        + f"\n</svg></div>\n{below}</figure>"
    )


def scale(low: float, high: float) -> _Scale:
    """A range that contains these two, with about five ticks at round values."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / _TICKS
    size = 10.0 ** floor(log10(rough))
    step = next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= rough * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return _Scale(first * step, last * step, tuple(i * step for i in range(first, last + 1)))


def smooth(points: Points, n_windows: int = 60) -> list[tuple[float, float]]:
    """Means of the neighbours on both sides, fewer at the ends: no line runs behind its points."""
    reach = len(points) // (2 * n_windows)
    sums = [0.0]
    for _, y in points:
        sums.append(sums[-1] + y)
    found = []
    for i, (x, _) in enumerate(points):
        side = min(i, len(points) - 1 - i, reach)
        found.append((x, (sums[i + side + 1] - sums[i - side]) / (2 * side + 1)))
    return found


def _steps_scale(last: float) -> _Scale:
    """Steps end where the run does; ticks are round, and none is so near the end that the two would collide."""
    round_scale = scale(0.0, max(1.0, last))
    high = max(1.0, last)
    ticks = tuple(tick for tick in round_scale.ticks if tick <= high and tick == round(tick))
    return _Scale(0.0, high, ticks)


def _y_tick(y: _Scale, tick: float) -> str:
    at = f"{100 * (1 - y.share(tick)):.2f}%"
    return (
        f'<line class="grid" x1="0" x2="100%" y1="{at}" y2="{at}"/>'
        f'<text x="0" y="{at}" dx="-8" dy=".32em" text-anchor="end">{_tick_text(tick)}</text>'
    )


def _x_tick(x: _Scale, tick: float) -> str:
    at = f"{100 * x.share(tick):.2f}%"
    return f'<text x="{at}" y="100%" dy="20" text-anchor="middle">{_tick_text(tick)}</text>'


def _tick_text(value: float) -> str:
    if abs(value) >= 10_000:
        return f"{value / 1000:,.1f}".removesuffix(".0") + "k"
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:.6f}".rstrip("0") if abs(value) >= 1e-5 else f"{value:.1e}"


def _stretched(line: Line, x: _Scale, y: _Scale) -> str:
    paths = [(line.raw, " raw")] if line.raw else []
    paths.append((line.points, ""))
    inner = "".join(f'<polyline class="{line.colour}{kind}" points="{_path(points, x, y)}"/>' for points, kind in paths)
    return f'<svg viewBox="0 0 {_UNITS} {_UNITS}" preserveAspectRatio="none" width="100%" height="100%">{inner}</svg>'


def _path(points: Points, x: _Scale, y: _Scale) -> str:
    return " ".join(f"{_UNITS * x.share(one):.1f},{_UNITS * (1 - y.share(two)):.1f}" for one, two in points)


def _dots(line: Line, x: _Scale, y: _Scale) -> str:
    return "".join(
        f'<circle class="{line.colour}" cx="{100 * x.share(one):.2f}%" cy="{100 * (1 - y.share(two)):.2f}%" r="3">'
        f"<title>step {one:,.0f}: {escape(line.name)} {few_digits(two)}</title></circle>"
        for one, two in line.points
    )


def _names(lines: Sequence[Line], x: _Scale, y: _Scale) -> list[str]:
    """Each line's name and last value, beside its end; moved apart where they would cover each other."""
    ends = sorted(lines, key=lambda line: -line.points[-1][1])
    places = spread([HEIGHT * (1 - y.share(line.points[-1][1])) for line in ends])
    right = 100 * x.share(max(line.points[-1][0] for line in lines))
    return [
        f'<text class="name {line.colour}" x="{right:.2f}%" y="{place:.1f}" dx="9" '
        f'dy=".32em">{escape(line.name)} <tspan>{few_digits(line.points[-1][1])}</tspan></text>'
        for line, place in zip(ends, places, strict=True)
    ]


def spread(places: Sequence[float], distance: float = _LABEL_HEIGHT) -> list[float]:
    """Places in rising order, moved so that neighbours are this far apart and the last stays above the axis."""
    found = list(places)
    for i in range(1, len(found)):
        found[i] = max(found[i], found[i - 1] + distance)
    if found and found[-1] > HEIGHT:
        found[-1] = float(HEIGHT)
        for i, _ in reversed(list(enumerate(pairwise(found)))):
            found[i] = min(found[i], found[i + 1] - distance)
    return found
