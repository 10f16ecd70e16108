"""JSON of a large value, part by part: one call for all of it would keep Python from doing anything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from regard.serve.http.responses import to_text

_PART = 262_144  # characters that are sent at a time


def in_parts(value: Any) -> Iterator[bytes]:
    """The bytes of `to_json`, some at a time."""
    gathered: list[str] = []
    n_characters = 0
    for text in _texts(value):
        gathered.append(text)
        n_characters += len(text)
        if n_characters >= _PART:
            yield "".join(gathered).encode("utf-8", "replace")
            gathered, n_characters = [], 0
    yield "".join(gathered).encode("utf-8", "replace")


def _texts(value: Any) -> Iterator[str]:
    """Down to rows of plain values, each of which is written in one go."""
    if isinstance(value, dict):
        between = "{"
        for key, one in value.items():
            yield f"{between}{to_text(key)}:"
            yield from _texts(one)
            between = ","
        yield "}" if value else "{}"
    elif isinstance(value, list | tuple) and value and isinstance(value[0], dict | list | tuple):
        between = "["
        for one in value:
            yield between
            yield from _texts(one)
            between = ","
        yield "]"
    else:
        yield to_text(value)
