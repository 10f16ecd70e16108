"""Where the tags of a sentence go in its translation: around the words that align with those they enclosed.

A tag is never doubled, so an element whose words have been scattered takes the best run of them. Which element is
inside which never changes; elements beside each other may change places, as words do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape, unescape
from typing import Protocol

from regard.text import normalise
from regard.translator.markup.joining import Item, joined, word_items
from regard.translator.markup.tokens import Token

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
        return joined(_Placing(self._raw, self._words, self._owners, words, translated.alignment).items(self._root))

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

    def items(self, root: _Node) -> list[Item]:
        return self._inside(root, 0, len(self._words))

    def _inside(self, node: _Node, low: int, high: int) -> list[Item]:
        """What is between an element's tags, when it has the target words from `low` to `high`."""
        taken = self._share_out(node, low, high)
        ends = sorted(taken.values())
        at: dict[int, list[_Node]] = {}
        for one in node.inside:
            if one not in taken:
                at.setdefault(_outside(self._place(one, node, low, high), ends), []).append(one)
        begins = {span[0]: one for one, span in taken.items()}
        items: list[Item] = []
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
                items += word_items(self._words[place])
                place += 1
        return items

    def _element(self, node: _Node, low: int, high: int) -> list[Item]:
        if node.end is None:
            return [Item("point", node.raw, spaced=self._spaces(node))]
        before, behind = self._signs_outside(node)
        items = self._inside(node, low, high)
        head = [items.pop(0)] if before and items and items[0].kind == "before" else []
        tail = [items.pop()] if behind and items and items[-1].kind == "behind" else []
        return [*head, Item("open", node.raw), *items, Item("close", node.end), *tail]

    def _share_out(self, node: _Node, low: int, high: int) -> dict[_Node, tuple[int, int]]:
        """Each element inside takes a run of its words; one that has text but no run takes the nearest free word."""
        owned: dict[_Node, list[int]] = {}
        for place in range(low, high):
            child = _child(self._owned[place], node)
            if child is not None:
                owned.setdefault(child, []).append(place)
        taken: dict[_Node, tuple[int, int]] = {}
        used: set[int] = set()
        for child in sorted(owned, key=lambda one: -len(owned[one])):
            span = next((span for span in _runs(owned[child]) if used.isdisjoint(range(*span))), None)
            if span is not None:
                taken[child] = span
                used.update(range(*span))
        homeless = [one for one in node.inside if one.end is not None and one not in taken and self._has_text(one)]
        if homeless:
            self._house(homeless, taken, node, low, high)
        return taken

    def _house(
        self, homeless: list[_Node], taken: dict[_Node, tuple[int, int]], node: _Node, low: int, high: int
    ) -> None:
        covered = {place for span in taken.values() for place in range(*span)}
        free = [place for place in range(low, high) if place not in covered]
        for one in homeless:
            if not free:
                return
            inside = self._word_around(one, low, high)
            wanted = self._place(one, node, low, high) if inside is None else inside
            right = min(bisect_left(free, wanted), len(free) - 1)
            nearest = min((right, max(0, right - 1)), key=lambda number: abs(free[number] - wanted))
            place = free.pop(nearest)
            taken[one] = place, place + 1

    def _word_around(self, node: _Node, low: int, high: int) -> int | None:
        """Where the word goes in whose middle an element begins: `H<sub>2</sub>O`."""
        word = bisect_left(self._starts, node.start) - 1
        if word < 0 or node.start >= self._spans[word][1]:
            return None
        within = [place for place in self._places.get(word, ()) if low <= place < high]
        return max(within, default=None)

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


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Where an element with these target words might go, best first; one stranger between two of them may come along.

    Alignments err by a word here and there: half a link is worse than a link with a word too many.
    """
    runs: list[tuple[int, int, int]] = []  # begin, end, how many more of its own words than others
    for reach in (2, 1):
        found: list[list[int]] = []
        for place in places:
            if found and place - found[-1][-1] <= reach:
                found[-1].append(place)
            else:
                found.append([place])
        runs += [(one[0], one[-1] + 1, 2 * len(one) - (one[-1] + 1 - one[0])) for one in found]
    runs.sort(key=lambda run: (-run[2], run[0] - run[1]))
    return [(begin, end) for begin, end, _ in runs]


def _outside(place: int, taken: Sequence[tuple[int, int]]) -> int:
    """The place itself, or the end of the span that it is within."""
    number = bisect_left(taken, (place, 0)) - 1
    return max(place, taken[number][1]) if number >= 0 else place


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
