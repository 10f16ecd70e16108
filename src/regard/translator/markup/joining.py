"""From words and tags in their order to HTML: where the spaces go."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import takewhile
from typing import Literal, NamedTuple


class Item(NamedTuple):
    """A piece of the output. A word is up to three of them: signs before it, itself, signs behind it."""

    kind: Literal["before", "word", "behind", "open", "close", "point"]
    text: str
    first: bool = False  # begins a word: a space is due before it
    spaced: tuple[bool, bool] = (False, False)  # a point: whether it had space before and behind it


def word_items(text: str) -> list[Item]:
    """A word, and the signs around it apart from it."""
    start, stop = 0, len(text)
    while start < stop and not text[start].isalnum():
        start += 1
    while stop > start and not text[stop - 1].isalnum():
        stop -= 1
    if start == stop:
        return [Item("word", text, first=True)]
    before = [Item("before", text[:start], first=True)] if start else []
    behind = [Item("behind", text[stop:])] if stop < len(text) else []
    return [*before, Item("word", text[start:stop], first=not before), *behind]


def joined(items: Sequence[Item]) -> str:
    """Words with a space between them; it stands outside the tags that it is next to."""
    out: list[str] = []
    tags: list[Item] = []
    begun = False
    for item in items:
        if item.kind in ("open", "close", "point"):
            tags.append(item)
            continue
        out += _with_space(tags, before=begun, behind=True) if item.first else [tag.text for tag in tags]
        out.append(escape(item.text, quote=False))
        tags, begun = [], True
    out += _with_space(tags, before=begun, behind=False)
    return "".join(out)


def _with_space(tags: Sequence[Item], before: bool, behind: bool) -> list[str]:
    """Tags between two words (or before the first, behind the last), with the space in its place among them."""
    glued = len(list(takewhile(_glued_to_the_left, tags)))
    rest = tags[glued:]
    points = any(tag.kind == "point" for tag in rest)
    space = [" "] if before and (behind or points) else []
    texts = [tag.text + (" " if behind and tag.kind == "point" and tag.spaced[1] else "") for tag in rest]
    return [*(tag.text for tag in tags[:glued]), *space, *texts]


def _glued_to_the_left(tag: Item) -> bool:
    return tag.kind == "close" or (tag.kind == "point" and not tag.spaced[0])
