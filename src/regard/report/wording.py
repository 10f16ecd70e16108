"""Numbers, durations and model sizes as short texts."""

from collections.abc import Mapping, Sequence
from typing import Any


def duration(seconds: float) -> str:
    """42 s, 12 min, 3 h 20 min, 2 d 4 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def count(value: float) -> str:
    """1,234 or 12.3M."""
    return f"{value / 1e6:.1f}M" if value >= 1e6 else f"{value:,.0f}"


def size_text(size: float) -> str:
    """12 kB, 0.3 MB, 45 MB, 1.20 GB."""
    if size < 1e5:
        return f"{size / 1e3:.0f} kB"
    if size >= 1e9:
        return f"{size / 1e9:.2f} GB" if size < 1e10 else f"{size / 1e9:,.0f} GB"
    return f"{size / 1e6:.0f} MB" if size >= 1e7 else f"{size / 1e6:.1f} MB"


def few_digits(value: float) -> str:
    """Two or three significant digits, and all digits of large numbers: 1,234, 45.6, 0.023, 9·10⁻⁶."""
    size = abs(value)
    if 0 < size < 1e-4:
        return power_of_ten(value)
    if size >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"


def power_of_ten(value: float) -> str:
    """One digit and its power, as on the page: 2·10⁻⁵, 10⁻⁶."""
    digit, exponent = f"{value:.0e}".split("e")
    power = "10" + f"{int(exponent)}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return power if digit == "1" else f"{digit}·{power}"


def sizes(model: Mapping[str, Any]) -> str:
    """The whole numbers of a recipe's [model] section: `d_model 128, n_heads 4`."""
    return ", ".join(f"{name} {value}" for name, value in model.items() if type(value) is int)


def title(labels: Sequence[str]) -> str:
    """`BLEU and chrF++`, `Accuracy`: labels as a heading."""
    text = " and ".join(labels)
    return text.capitalize() if text.islower() else text
