"""A line chart as SVG: axes, ticks, and a label at the end of each curve.

Positions are percentages and text has a fixed size, so the chart is legible on small and large screens. Only the curves
are stretched, and their line width is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log, log10

from regard.report.wording import few_digits, power_of_ten

HEIGHT = 200  # CSS pixels
_UNITS = 1000  # width and height of the viewBox of the curves
_LABEL_HEIGHT = 16
_TICKS = 5
COLOURS = ("orange", "blue", "ink", "green", "violet", "brown", "pink")  # CSS classes

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One curve. `colour` is one of COLOURS."""

    name: str
    points: Points
    colour: str
    raw: Points = ()  # unsmoothed, drawn faintly behind the curve
    dots: bool = False


@dataclass(frozen=True)
class _Scale:
    """A range of values with ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def share(self, value: float) -> float:
        """The position of a value, from 0 to 1."""
        if self.is_log:
            return log(value / self.low) / log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def chart(
    title: str,
    curves: Sequence[Curve],
    *,
    x_end: float = 0.0,
    x_name: str = "step",
    x_is_log: bool = False,
    top: float | None = None,
    unit: str = "",
    note: str = "",
    can_be_log: bool = False,
) -> str:
    """A figure, or "" if no curve has points. `x_end` is the last step of the run, `top` the end of the other axis.

    With `can_be_log`, the axis of values that span enough is logarithmic. The other axis is linear from 0, or with
    `x_is_log` doubles from tick to tick.
    """
    drawn = [curve for curve in curves if curve.points]
    if not drawn:
        return ""
    values = [y for curve in drawn for _, y in (*curve.points, *curve.raw)]
    places = [point[0] for curve in drawn for point in curve.points]
    x = _doubling_scale(min(places), max(places)) if x_is_log else _steps_scale(max(x_end, *places))
    is_log = can_be_log and max(values) > 5 * min(values) > 0
    y = _log_scale(min(values), max(values)) if is_log else scale(min(0.0, *values), max(*values, top or 0.0))
    unit = ", ".join(filter(None, (unit, "log scale" if is_log else "")))
    last = "; ".join(f"{curve.name} {few_digits(curve.points[-1][1])}" for curve in drawn)
    parts = [
        *(_y_tick(y, tick) for tick in y.ticks),
        *(_x_tick(x, tick) for tick in x.ticks),
        f'<text x="100%" y="100%" dx="32" dy="20">{escape(x_name)}s</text>',
        *(_curve(curve, x, y) for curve in drawn),
        *(_dots(curve, x, y, x_name) for curve in drawn if curve.dots),
        *_labels(drawn, x, y),
    ]
    heading = f"{escape(title)}{f' <small>{escape(unit)}</small>' if unit else ''}"
    below = f"<p>{escape(note)}</p>" if note else ""
    label = f"{escape(title)} by {escape(x_name)}: {escape(last)}"
    return (
        f"<figure>\n<figcaption>{heading}</figcaption>\n"
        f'<div class="plot"><svg height="{HEIGHT}" role="img" aria-label="{label}">\n'
        + "\n".join(parts)
        + f"\n</svg></div>\n{below}</figure>"
    )


def scale(low: float, high: float) -> _Scale:
    """A range that contains both values, with about five ticks at round values."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / _TICKS
    size = 10.0 ** floor(log10(rough))
    step = next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= rough * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return _Scale(first * step, last * step, tuple(i * step for i in range(first, last + 1)))


def _log_scale(low: float, high: float) -> _Scale:
    """A logarithmic range that contains both values, with ticks at 1, 2 and 5 times powers of ten."""
    powers = [10.0**n for n in range(floor(log10(low)), ceil(log10(high)) + 1)]
    ticks = [factor * power for power in powers for factor in ((1, 2, 5) if high < 100 * low else (1,))]
    first = max(i for i, tick in enumerate(ticks) if tick <= low)
    last = min(i for i, tick in enumerate(ticks) if tick >= high)
    return _Scale(ticks[first], ticks[last], tuple(ticks[first : last + 1]), is_log=True)


def _doubling_scale(low: float, high: float) -> _Scale:
    """A logarithmic range between both values, with a tick at every second power of two from the first."""
    n = floor(log(high / low, 2) / 2 + 1e-9)
    return _Scale(low, max(high, 2 * low), tuple(low * 4**i for i in range(n + 1)), is_log=True)


def smooth(points: Points, n_windows: int = 60) -> list[tuple[float, float]]:
    """Centred moving averages, over fewer points at the ends, so the curve does not lag."""
    reach = len(points) // (2 * n_windows)
    sums = [0.0]
    for _, y in points:
        sums.append(sums[-1] + y)
    smoothed = []
    for i, (x, _) in enumerate(points):
        side = min(i, len(points) - 1 - i, reach)
        smoothed.append((x, (sums[i + side + 1] - sums[i - side]) / (2 * side + 1)))
    return smoothed


def _steps_scale(last: float) -> _Scale:
    """The axis of steps: it ends at the last step, with ticks at round integers."""
    high = max(1.0, last)
    ticks = tuple(tick for tick in scale(0.0, high).ticks if tick <= high and tick == round(tick))
    return _Scale(0.0, high, ticks)


def _y_tick(y: _Scale, tick: float) -> str:
    position = f"{100 * (1 - y.share(tick)):.2f}%"
    return (
        f'<line class="grid" x1="0" x2="100%" y1="{position}" y2="{position}"/>'
        f'<text x="0" y="{position}" dx="-8" dy=".32em" text-anchor="end">{_tick_text(tick)}</text>'
    )


def _x_tick(x: _Scale, tick: float) -> str:
    position = f"{100 * x.share(tick):.2f}%"
    return f'<text x="{position}" y="100%" dy="20" text-anchor="middle">{_tick_text(tick)}</text>'


def _tick_text(value: float) -> str:
    if abs(value) >= 10_000:
        return f"{value / 1000:,.1f}".removesuffix(".0") + "k"
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:.6f}".rstrip("0") if abs(value) >= 1e-5 else power_of_ten(value)


def _curve(curve: Curve, x: _Scale, y: _Scale) -> str:
    inner = "".join(
        f'<polyline class="{curve.colour}{kind}" points="{_path(points, x, y)}"/>'
        for points, kind in ((curve.raw, " raw"), (curve.points, ""))
        if points
    )
    return f'<svg viewBox="0 0 {_UNITS} {_UNITS}" preserveAspectRatio="none" width="100%" height="100%">{inner}</svg>'


def _path(points: Points, x: _Scale, y: _Scale) -> str:
    return " ".join(f"{_UNITS * x.share(step):.1f},{_UNITS * (1 - y.share(value)):.1f}" for step, value in points)


def _dots(curve: Curve, x: _Scale, y: _Scale, x_name: str) -> str:
    return "".join(
        f'<circle class="{curve.colour}" cx="{100 * x.share(step):.2f}%" cy="{100 * (1 - y.share(value)):.2f}%" r="3">'
        f"<title>{escape(x_name)} {step:,.0f}: {escape(curve.name)} {few_digits(value)}</title></circle>"
        for step, value in curve.points
    )


def _labels(curves: Sequence[Curve], x: _Scale, y: _Scale) -> list[str]:
    """The name and last value of each curve, next to its end; moved apart where they would overlap.

    A single curve has only its value: the title names it, and long names do not fit there.
    """
    ends = sorted(curves, key=lambda curve: -curve.points[-1][1])
    positions = spread([HEIGHT * (1 - y.share(curve.points[-1][1])) for curve in ends])
    right = 100 * x.share(max(curve.points[-1][0] for curve in curves))
    names = ["" if len(curves) == 1 else f"{escape(curve.name)} " for curve in ends]
    return [
        f'<text class="name {curve.colour}" x="{right:.2f}%" y="{position:.1f}" dx="9" '
        f'dy=".32em">{name}<tspan>{few_digits(curve.points[-1][1])}</tspan></text>'
        for curve, name, position in zip(ends, names, positions, strict=True)
    ]


def spread(positions: Sequence[float], distance: float = _LABEL_HEIGHT) -> list[float]:
    """Ascending positions, moved so that neighbours are `distance` apart and the last is not below the axis."""
    moved = list(positions)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + distance)
    if moved and moved[-1] > HEIGHT:
        moved[-1] = float(HEIGHT)
        for i in reversed(range(len(moved) - 1)):
            moved[i] = min(moved[i], moved[i + 1] - distance)
    return moved
