"""Cutting a text that is too long for a model: at sentence ends, then at clauses, then at spaces, then anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

# What ends a part; the space behind it, if any, is the gap to the next one.
_CUTS = (
    re.compile(r"(?<=[.!?…؟۔])[\"'»”’)\]]*(?P<gap>\s+)|(?<=[。！？])[」』”’）]*(?P<none>)"),
    re.compile(r"(?<=[,;:،؛])(?P<gap>\s+)|(?<=[，；：、])(?P<none>)"),
    re.compile(r"(?P<gap>\s+)"),
)
_WORST_PIECES_A_CHARACTER = 4  # a character outside the vocabulary is written as its UTF-8 bytes


class Part(NamedTuple):
    """A piece of a longer text, and what stood between it and the next one."""

    text: str
    gap: str


def sentences(text: str) -> list[Part]:
    """The sentences of a text, however long; joined with their gaps they are the text again. Every LF ends one."""
    found: list[Part] = []
    for line in text.split("\n"):
        *before, last = _cut(line, _CUTS[0])
        found += [*before, Part(last.text, "\n")]
    return [*found[:-1], Part(found[-1].text, "")]


def split_long(text: str, limit: int, length: Callable[[str], int]) -> list[Part]:
    """Parts of at most `limit` by `length`; joined with their gaps they are the text again.

    A text that fits stays whole. One that does not becomes its sentences; only a sentence that does not fit either is
    cut further, into as few parts as its clauses or words allow.
    """
    if length(text) <= limit:
        return [Part(text, "")]
    return [part for sentence in _cut(text, _CUTS[0]) for part in _fit(sentence, limit, length, level=1)]


def _fit(part: Part, limit: int, length: Callable[[str], int], level: int) -> list[Part]:
    if length(part.text) <= limit:
        return [part]
    if level == len(_CUTS):
        size = max(1, limit // _WORST_PIECES_A_CHARACTER)
        chunks = [part.text[start : start + size] for start in range(0, len(part.text), size)]
        return [*(Part(chunk, "") for chunk in chunks[:-1]), Part(chunks[-1], part.gap)]
    smaller = [one for cut in _cut(part.text, _CUTS[level]) for one in _fit(cut, limit, length, level + 1)]
    return _packed([*smaller[:-1], Part(smaller[-1].text, part.gap)], limit, length)


def _packed(parts: list[Part], limit: int, length: Callable[[str], int]) -> list[Part]:
    """Neighbours joined while they fit together."""
    packed = [parts[0]]
    for part in parts[1:]:
        last = packed[-1]
        joined = last.text + last.gap + part.text
        if length(joined) <= limit:
            packed[-1] = Part(joined, part.gap)
        else:
            packed.append(part)
    return packed


def _cut(text: str, pattern: re.Pattern[str]) -> Iterator[Part]:
    start = 0
    for match in pattern.finditer(text):
        gap = match.group("gap") or ""
        end = match.end() - len(gap)
        if end > start and match.end() < len(text):
            yield Part(text[start:end], gap)
            start = match.end()
    yield Part(text[start:], "")
