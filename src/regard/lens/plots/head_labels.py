"""What a head mostly does, in two words.

Over the source, where no word is the one that looks, "same" is the word at the same place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.lens.heads import HeadRow

_HABIT = 0.3  # from this share of the weights on, it is worth a name


def habit_of(row: HeadRow) -> str:
    """ "previous 81%": where a head looks most, over a corpus; else how far away, in words."""
    found = row.statistics
    rest = "start" if row.head.attention == "decoder" else "end"
    shares = {"previous": found.previous, "same": found.same, "next": found.next, rest: found.end}
    habit, share = max(shares.items(), key=lambda one: float(one[1]))
    return f"{habit} {float(share):.0%}" if share >= _HABIT else f"{float(found.distance):.1f} words away"
