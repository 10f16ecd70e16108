"""The sentences of a long text, one after the other: however many there are, only a few are held."""

from __future__ import annotations

from collections.abc import Iterator

from regard.serve.http.problem import Problem
from regard.text.sentences import Part, sentences


def one_by_one(text: str, longest: int) -> Iterator[Part]:
    """As `sentences`, but cut window by window. A Problem at the first sentence of more than `longest` characters.

    Whether a sentence ends somewhere is decided by what stands there, so a window cuts as the whole text would; only
    its last sentence may go on, and is left to the next window.
    """
    start, size = 0, 2 * longest + 2
    while True:
        is_last = start + size >= len(text)
        found = sentences(text[start : start + size])
        if not is_last and len(found) == 1:
            raise Problem(413, "too_long", f"a sentence of more than {longest:,} characters")
        yield from found if is_last else found[:-1]
        if is_last:
            return
        start += sum(len(part.text) + len(part.gap) for part in found[:-1])
