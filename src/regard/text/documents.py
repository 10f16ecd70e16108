"""Running text as documents: lists of sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from regard.text.lines import read_lines, read_lines_or_none
from regard.text.normalise import normalise
from regard.text.sentences import sentences


def read_documents(
    files: Sequence[Path], pattern: str | None = None, on_bad: Literal["raise", "skip"] = "raise"
) -> Iterator[list[str]]:
    """The sentences of each document. Lines with several sentences are split; a document never goes beyond its file.

    Documents are separated by blank lines; with `pattern`, a document begins at every line that this regular expression
    matches from the beginning, and blank lines mean nothing. With on_bad = "skip", lines of invalid text are left out.
    """
    first = None if pattern is None else re.compile(pattern)
    for path in files:
        document: list[str] = []
        for line in read_lines(path) if on_bad == "raise" else read_lines_or_none(path):
            if line is None:
                continue
            is_blank = not line.strip()
            if document and (is_blank if first is None else first.match(line)):
                yield document
                document = []
            if not is_blank:
                document += filter(None, (normalise(part.text) for part in sentences(line)))
        if document:
            yield document


def check_pattern(pattern: str | None) -> str | None:
    """Raises ValueError if it is no regular expression."""
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern
