"""Which words of two translations differ."""

import re
import string
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter

_MAX_UNITS = 2000  # longer texts are not compared: it takes too long
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana and Han: each character is a unit
_MARKS = re.escape(string.punctuation) + "…–—„“”«»‘’、。！？，：；"
_UNIT = re.compile(rf"\s+|[{_UNSPACED}]|[{_MARKS}]|[^\s{_UNSPACED}{_MARKS}]+")

Span = tuple[bool, str]
"""Whether a span of text is changed, and the text."""


def mark_changes(a: str, b: str) -> tuple[list[Span], list[Span]]:
    """Split both texts into spans, marking those that differ from the other text."""
    units_a, units_b = _UNIT.findall(a), _UNIT.findall(b)
    if max(len(units_a), len(units_b)) > _MAX_UNITS:
        return [(False, a)], [(False, b)]
    changed_a, changed_b = [True] * len(units_a), [True] * len(units_b)
    # only words are compared: as separate units, all spaces would match each other
    indices_a, indices_b = ([i for i, unit in enumerate(units) if not unit.isspace()] for units in (units_a, units_b))
    words_a, words_b = [units_a[i] for i in indices_a], [units_b[i] for i in indices_b]
    for start_a, start_b, n in SequenceMatcher(None, words_a, words_b, autojunk=False).get_matching_blocks():
        for i in range(n):
            changed_a[indices_a[start_a + i]] = changed_b[indices_b[start_b + i]] = False
    return _spans(units_a, changed_a), _spans(units_b, changed_b)


def _spans(units: list[str], changed: list[bool]) -> list[Span]:
    """Join equal neighbours; a space counts as changed only between two changed words."""
    for i, unit in enumerate(units):
        if unit.isspace():
            changed[i] = 0 < i < len(units) - 1 and changed[i - 1] and changed[i + 1]
    marked = zip(changed, units, strict=True)
    return [(flag, "".join(unit for _, unit in group)) for flag, group in groupby(marked, key=itemgetter(0))]
