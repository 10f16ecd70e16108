"""Where the tags of a sentence go in its translation: around the words that align with those they enclosed.

A tag is never doubled, so an element whose words have been scattered takes the longest run of them. Which element is
inside which never changes; elements beside each other may change places, as words do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape, unescape
from itertools import takewhile
from typing import Literal, NamedTuple, Protocol

from regard.serve.markup_tokens import Token
from regard.text import normalise

_LOOK_BACK = 8  # source words before a point that are asked for their place


class Translated(Protocol):
    """As much of a `Translation` as is needed here."""

    @property
    def text(self) -> str: ...
    @property
    def alignment(self) -> Sequence[tuple[int, int]]: ...


@dataclass(eq=False)
class _Node:
    """An element, or (without an end) a point; `start` and `stop` count the characters of the sentence."""

    raw: str
    start: int
    path: tuple[_Node, ...] = ()  # from the outermost element down to the one it is in
    stop: int = 0
    end: str | None = None
    inside: list[_Node] = field(default_factory=list)


class _Item(NamedTuple):
    """A piece of the output. A word is up to three of them: signs before it, itself, signs behind it."""

    kind: Literal["before", "word", "behind", "open", "close", "point"]
    text: str
    first: bool = False  # begins a word: a space is due before it
    spaced: tuple[bool, bool] = (False, False)  # a point: whether it had space before and behind it


class Sentence:
    """One block's text, with the tags inside it."""

    def __init__(self, part: Sequence[Token]) -> None:
        self._root = _Node("", 0, end="")
        raw = self._build(part)
        self._raw = raw
        self._words = list(_word_spans(raw))
        self._owners = self._find_owners()
        self.text = normalise(raw)

    def placed(self, translated: Translated) -> str:
        """The translation as HTML, with every tag."""
        if not self._root.inside:
            return escape(translated.text, quote=False)
        words = translated.text.split()
        return _joined(_Placing(self._raw, self._words, self._owners, words, translated.alignment).items(self._root))

    def _build(self, part: Sequence[Token]) -> str:
        """The tree of tags; every start has its end (the caller has seen to that)."""
        texts: list[str] = []
        length = 0
        path: tuple[_Node, ...] = (self._root,)
        for token in part:
            if token.kind == "text":
                texts.append(unescape(token.raw))
                length += len(texts[-1])
            elif token.kind == "end":
                path[-1].end, path[-1].stop = token.raw, length
                path = path[:-1]
            else:
                node = _Node(token.raw, length, path, stop=length)
                path[-1].inside.append(node)
                if token.kind == "start":
                    path = (*path, node)
        self._root.stop = length
        return "".join(texts)

    def _find_owners(self) -> list[_Node]:
        """For each word the innermost element that has at least half of it."""
        starts = [start for start, _ in self._words]
        owners = [self._root] * len(self._words)
        for node in _elements(self._root):
            first = max(0, bisect_right(starts, node.start) - 1)
            for number in range(first, bisect_left(starts, node.stop)):
                start, stop = self._words[number]
                if 2 * (min(stop, node.stop) - max(start, node.start)) >= stop - start:
                    owners[number] = node
        return owners


class _Placing:
    """One translation of one sentence: which target words each element gets."""

    def __init__(
        self,
        raw: str,
        spans: Sequence[tuple[int, int]],
        owners: Sequence[_Node],
        words: Sequence[str],
        alignment: Sequence[tuple[int, int]],
    ) -> None:
        self._raw, self._spans, self._words = raw, spans, words
        self._starts = [start for start, _ in spans]
        known = [(one, two) for one, two in alignment if 0 <= one < len(spans) and 0 <= two < len(words)]
        # without an alignment, the order of the words is the best guess
        known = known or [(place * len(spans) // len(words), place) for place in range(len(words))]
        self._places: dict[int, list[int]] = {}  # source word → target words
        owned: list[_Node | None] = [None] * len(words)
        for source, target in known:
            self._places.setdefault(source, []).append(target)
            owned[target] = owners[source]
        self._owned = _filled(owned)

    def items(self, root: _Node) -> list[_Item]:
        return self._inside(root, 0, len(self._words))

    def _inside(self, node: _Node, low: int, high: int) -> list[_Item]:
        """What is between an element's tags, when it has the target words from `low` to `high`."""
        taken = self._share_out(node, low, high)
        ends = sorted(taken.values())
        at: dict[int, list[_Node]] = {}
        for one in node.inside:
            if one not in taken:
                at.setdefault(_outside(self._place(one, node, low, high), ends), []).append(one)
        begins = {span[0]: one for one, span in taken.items()}
        items: list[_Item] = []
        place = low
        while place <= high:
            for one in at.get(place, ()):
                items += self._element(one, place, place)
            if place == high:
                break
            if place in begins:
                one = begins[place]
                items += self._element(one, *taken[one])
                place = taken[one][1]
            else:
                items += _word(self._words[place])
                place += 1
        return items

    def _element(self, node: _Node, low: int, high: int) -> list[_Item]:
        if node.end is None:
            return [_Item("point", node.raw, spaced=self._spaces(node))]
        before, behind = self._signs_outside(node)
        items = self._inside(node, low, high)
        head = [items.pop(0)] if before and items and items[0].kind == "before" else []
        tail = [items.pop()] if behind and items and items[-1].kind == "behind" else []
        return [*head, _Item("open", node.raw), *items, _Item("close", node.end), *tail]

    def _share_out(self, node: _Node, low: int, high: int) -> dict[_Node, tuple[int, int]]:
        """Each element inside takes its longest run; one that has text but no run takes the nearest free word."""
        taken: dict[_Node, tuple[int, int]] = {}
        start = low
        for place in range(low, high):
            one = _child(self._owned[place], node)
            if place + 1 == high or _child(self._owned[place + 1], node) is not one:
                if one is not None:
                    was = taken.get(one, (0, 0))
                    if place + 1 - start > was[1] - was[0]:
                        taken[one] = start, place + 1
                start = place + 1
        homeless = [one for one in node.inside if one.end is not None and one not in taken and self._has_text(one)]
        if homeless:
            self._house(homeless, taken, node, low, high)
        return taken

    def _house(
        self, homeless: list[_Node], taken: dict[_Node, tuple[int, int]], node: _Node, low: int, high: int
    ) -> None:
        covered = {place for span in taken.values() for place in range(*span)}
        free = [place for place in range(low, high) if place not in covered]
        length = max(1, node.stop - node.start)
        for one in homeless:
            if not free:
                return
            wanted = low + (high - low) * ((one.start + one.stop) / 2 - node.start) / length - 0.5
            right = min(bisect_left(free, wanted), len(free) - 1)
            nearest = min((right, max(0, right - 1)), key=lambda number: abs(free[number] - wanted))
            place = free.pop(nearest)
            taken[one] = place, place + 1

    def _place(self, node: _Node, parent: _Node, low: int, high: int) -> int:
        """Where a point goes: behind the translation of the word before it."""
        last = bisect_left(self._starts, node.start) - 1
        if last + 1 >= len(self._starts) or self._starts[last + 1] >= parent.stop:
            return high
        for word in range(last, max(-1, last - _LOOK_BACK), -1):
            if self._spans[word][1] <= parent.start:
                return low
            within = [place for place in self._places.get(word, ()) if low <= place < high]
            if within:
                return max(within) + 1
        return low

    def _has_text(self, node: _Node) -> bool:
        first = max(0, bisect_right(self._starts, node.start) - 1)
        return any(start < node.stop and stop > node.start for start, stop in self._spans[first : first + 2])

    def _spaces(self, node: _Node) -> tuple[bool, bool]:
        before, behind = self._raw[node.start - 1 : node.start], self._raw[node.start : node.start + 1]
        return not before or _is_space(before), not behind or _is_space(behind)

    def _signs_outside(self, node: _Node) -> tuple[bool, bool]:
        """Whether the words at its edges go on outside it, but with signs alone: `<b>tired</b>.`"""
        before, behind = False, False
        for number in {bisect_right(self._starts, node.start) - 1, bisect_left(self._starts, node.stop) - 1}:
            if number >= 0:
                start, stop = self._spans[number]
                before = before or (start < node.start < stop and _only_signs(self._raw[start : node.start]))
                behind = behind or (start < node.stop < stop and _only_signs(self._raw[node.stop : stop]))
        return before, behind


def _elements(node: _Node) -> Iterator[_Node]:
    """All elements below, outer ones first."""
    for one in node.inside:
        if one.end is not None:
            yield one
            yield from _elements(one)


def _child(owner: _Node, node: _Node) -> _Node | None:
    """Of the elements around a word (its owner is the innermost), the one that is directly inside the node."""
    chain, depth = (*owner.path, owner), len(node.path)
    return chain[depth + 1] if len(chain) > depth + 1 and chain[depth] is node else None


def _filled(owned: list[_Node | None]) -> list[_Node]:
    """A word that nothing is known of belongs to what is around both its neighbours."""
    known = [number for number, node in enumerate(owned) if node is not None]
    filled: list[_Node] = []
    for number, node in enumerate(owned):
        if node is None:
            right = bisect_left(known, number)
            before, behind = owned[known[max(0, right - 1)]], owned[known[min(right, len(known) - 1)]]
            assert before is not None and behind is not None
            node = _around_both(before, behind)
        filled.append(node)
    return filled


def _around_both(one: _Node, two: _Node) -> _Node:
    if one is two:
        return one
    shared = [a for a, b in zip((*one.path, one), (*two.path, two), strict=False) if a is b]
    return shared[-1]


def _outside(place: int, taken: Sequence[tuple[int, int]]) -> int:
    """The place itself, or the end of the span that it is within."""
    number = bisect_left(taken, (place, 0)) - 1
    return max(place, taken[number][1]) if number >= 0 else place


def _word(text: str) -> list[_Item]:
    start, stop = 0, len(text)
    while start < stop and not text[start].isalnum():
        start += 1
    while stop > start and not text[stop - 1].isalnum():
        stop -= 1
    if start == stop:
        return [_Item("word", text, first=True)]
    before = [_Item("before", text[:start], first=True)] if start else []
    behind = [_Item("behind", text[stop:])] if stop < len(text) else []
    return [*before, _Item("word", text[start:stop], first=not before), *behind]


def _joined(items: Sequence[_Item]) -> str:
    """Words with a space between them; it stands outside the tags that it is next to."""
    out: list[str] = []
    tags: list[_Item] = []
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


def _with_space(tags: Sequence[_Item], before: bool, behind: bool) -> list[str]:
    """Tags between two words (or before the first, behind the last), with the space in its place among them."""
    glued = len(list(takewhile(_glued_to_the_left, tags)))
    rest = tags[glued:]
    points = any(tag.kind == "point" for tag in rest)
    space = [" "] if before and (behind or points) else []
    texts = [tag.text + (" " if behind and tag.kind == "point" and tag.spaced[1] else "") for tag in rest]
    return [*(tag.text for tag in tags[:glued]), *space, *texts]


def _glued_to_the_left(tag: _Item) -> bool:
    return tag.kind == "close" or (tag.kind == "point" and not tag.spaced[0])


def _word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Words as `normalise` parts them, in a text that it has not changed yet."""
    start: int | None = None
    for place, character in enumerate(text):
        if _is_space(character):
            if start is not None:
                yield start, place
            start = None
        elif start is None:
            start = place
    if start is not None:
        yield start, len(text)


@lru_cache(maxsize=4096)
def _is_space(character: str) -> bool:
    return not normalise(character)


def _only_signs(text: str) -> bool:
    return not any(character.isalnum() for character in text)
