"""Splits a text that is too long for a model: at sentence ends, then at clauses, then at spaces, then anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

# What ends a part, coarse to fine. White space after it, if any, is the gap to the next part.
_BOUNDARIES = (
    re.compile(r"(?<=[.!?…؟۔])[\"'»”’)\]]*(?P<gap>\s+)|(?<=[。！？])[」』”’）]*(?P<none>)"),
    re.compile(r"(?<=[,;:،؛])(?P<gap>\s+)|(?<=[，；：、])(?P<none>)"),
    re.compile(r"(?P<gap>\s+)"),
)
_MAX_PIECES_PER_CHARACTER = 4  # a character outside the vocabulary is encoded as its UTF-8 bytes


class Part(NamedTuple):
    """A part of a longer text, and the white space between it and the next part."""

    text: str
    gap: str


def sentences(text: str) -> list[Part]:
    """The sentences of a text; with their gaps they add up to the text. Every LF ends a sentence."""
    parts: list[Part] = []
    for line in text.split("\n"):
        *before, last = _split(line, _BOUNDARIES[0])
        parts += [*before, Part(last.text, "\n")]
    return [*parts[:-1], Part(parts[-1].text, "")]


def split_long(text: str, limit: int, length: Callable[[str], int]) -> list[Part]:
    """Parts with `length(part.text) <= limit`; with their gaps they add up to the text.

    A text that fits is not split. Otherwise it is split into sentences, and a sentence that does not fit into as few
    groups of clauses or words as possible.
    """
    if length(text) <= limit:
        return [Part(text, "")]
    return [part for sentence in _split(text, _BOUNDARIES[0]) for part in _fit(sentence, limit, length, level=1)]


def _fit(part: Part, limit: int, length: Callable[[str], int], level: int) -> list[Part]:
    if length(part.text) <= limit:
        return [part]
    if level == len(_BOUNDARIES):
        size = max(1, limit // _MAX_PIECES_PER_CHARACTER)
        chunks = [part.text[start : start + size] for start in range(0, len(part.text), size)]
        return [*(Part(chunk, "") for chunk in chunks[:-1]), Part(chunks[-1], part.gap)]
    smaller = [
        fitted
        for subpart in _split(part.text, _BOUNDARIES[level])
        for fitted in _fit(subpart, limit, length, level + 1)
    ]
    return _merge([*smaller[:-1], Part(smaller[-1].text, part.gap)], limit, length)


def _merge(parts: list[Part], limit: int, length: Callable[[str], int]) -> list[Part]:
    """Joins neighbouring parts as long as they fit."""
    merged = [parts[0]]
    for part in parts[1:]:
        last = merged[-1]
        joined = last.text + last.gap + part.text
        if length(joined) <= limit:
            merged[-1] = Part(joined, part.gap)
        else:
            merged.append(part)
    return merged


def _split(text: str, pattern: re.Pattern[str]) -> Iterator[Part]:
    start = 0
    for match in pattern.finditer(text):
        gap = match.group("gap") or ""
        end = match.end() - len(gap)
        if end > start and match.end() < len(text):
            yield Part(text[start:end], gap)
            start = match.end()
    yield Part(text[start:], "")
