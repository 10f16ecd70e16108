"""Which words of two translations differ."""

import re
import string
from difflib import SequenceMatcher
from itertools import groupby

_MAX_UNITS = 2000  # beyond it, comparing takes longer than reading
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana and Han: each sign is its own unit
_MARKS = re.escape(string.punctuation) + "…–—„“”«»‘’、。！？，：；"
_UNIT = re.compile(rf"\s+|[{_UNSPACED}]|[{_MARKS}]|[^\s{_UNSPACED}{_MARKS}]+")

Piece = tuple[bool, str]
"""Whether this stretch of text is changed, and the text."""


def mark_changes(a: str, b: str) -> tuple[list[Piece], list[Piece]]:
    """Both texts in pieces, those marked that the other text does not have in that place."""
    units_a, units_b = _UNIT.findall(a), _UNIT.findall(b)
    if max(len(units_a), len(units_b)) > _MAX_UNITS:
        return [(False, a)], [(False, b)]
    changed_a, changed_b = [True] * len(units_a), [True] * len(units_b)
    # spaces follow their words: compared as units of their own, they all match each other
    places_a, places_b = ([i for i, unit in enumerate(units) if not unit.isspace()] for units in (units_a, units_b))
    words_a, words_b = [units_a[i] for i in places_a], [units_b[i] for i in places_b]
    for start_a, start_b, n in SequenceMatcher(None, words_a, words_b, autojunk=False).get_matching_blocks():
        for i in range(n):
            changed_a[places_a[start_a + i]] = changed_b[places_b[start_b + i]] = False
    return _pieces(units_a, changed_a), _pieces(units_b, changed_b)


def _pieces(units: list[str], changed: list[bool]) -> list[Piece]:
    """Neighbours joined; a space between two changed words is changed with them, any other is not."""
    for i, unit in enumerate(units):
        if unit.isspace():
            changed[i] = 0 < i < len(units) - 1 and changed[i - 1] and changed[i + 1]
    marked = zip(changed, units, strict=True)
    return [(flag, "".join(unit for _, unit in group)) for flag, group in groupby(marked, key=lambda one: one[0])]
