"""Running text as documents: lists of sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from regard.text.sentences import sentences


def split_documents(lines: Iterable[str], pattern: str | None = None) -> Iterator[list[str]]:
    """The sentences of each document. Lines with several sentences are split.

    Documents are separated by blank lines; with `pattern`, a document begins at every line that this regular expression
    matches, and blank lines mean nothing.
    """
    begins = None if pattern is None else re.compile(pattern)
    document: list[str] = []
    for line in lines:
        # normalised lines have no spaces around them, which a pattern may ask for
        ends = not line if begins is None else begins.search(line) or begins.search(f" {line} ")
        if document and ends:
            yield document
            document = []
        document += (part.text for part in sentences(line) if part.text)
    if document:
        yield document


def check_pattern(pattern: str | None) -> str | None:
    """Raises ValueError if it is no regular expression."""
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern
