"""Puts the tags of a sentence into its translation, around the words aligned with those they enclosed.

No tag is repeated, so an element whose words are scattered takes the best run of them. Nesting never changes; sibling
elements may change places, as words do.

Without an alignment (a model without attention, or without an alignment head) tags keep their order, at the same share
of the words: what follows the third of six words follows the second of four.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from itertools import takewhile
from typing import Literal, NamedTuple

from regard.text.normalise import WORD, normalise
from regard.translator import Translation
from regard.translator.markup.tokens import MarkupToken

_MAX_LOOK_BACK = 8  # source words before a point that are searched for an aligned one


@dataclass(eq=False)
class _Node:
    """An element, or a point (without an end tag); `start` and `stop` are character offsets in the sentence."""

    raw: str
    start: int
    path: tuple[_Node, ...] = ()  # the elements around it, outermost first
    stop: int = 0
    end: str | None = None
    children: list[_Node] = field(default_factory=list)


class MarkupSentence:
    """The text of one block and the tags inside it."""

    def __init__(self, tokens: Sequence[MarkupToken]) -> None:
        self._root = _Node("", 0, end="")
        self.raw = self._build_tree(tokens)
        self.spans = [match.span() for match in WORD.finditer(self.raw)]
        self.owners = self._find_owners()
        self.text = normalise(self.raw)

    def fill(self, translation: Translation) -> str:
        """The translation as HTML, with every tag."""
        if not self._root.children:
            return escape(translation.text, quote=False)
        words, n_source = translation.text.split(), len(self.spans)
        pairs = [(s, t) for s, t in translation.alignment if 0 <= s < n_source and 0 <= t < len(words)]
        if pairs:
            placement: _TagPlacement = _AlignedTags(self, words, pairs)
        else:
            placement = _ProportionalTags(self, words)
        return _join(placement.content(self._root, 0, len(words)))

    def _build_tree(self, tokens: Sequence[MarkupToken]) -> str:
        """Build the tree of tags, and return the text; the caller makes sure that every start tag has an end tag."""
        texts: list[str] = []
        length = 0
        path: tuple[_Node, ...] = (self._root,)
        for token in tokens:
            if token.kind == "text":
                texts.append(unescape(token.raw))
                length += len(texts[-1])
            elif token.kind == "end":
                path[-1].end, path[-1].stop = token.raw, length
                path = path[:-1]
            else:
                node = _Node(token.raw, length, path, stop=length)
                path[-1].children.append(node)
                if token.kind == "start":
                    path = (*path, node)
        self._root.stop = length
        return "".join(texts)

    def _find_owners(self) -> list[_Node]:
        """For each word, the innermost element that contains at least half of it."""
        starts = [start for start, _ in self.spans]
        owners = [self._root] * len(self.spans)
        for node in _elements(self._root):
            first = max(0, bisect_right(starts, node.start) - 1)
            for index in range(first, bisect_left(starts, node.stop)):
                start, stop = self.spans[index]
                if 2 * (min(stop, node.stop) - max(start, node.start)) >= stop - start:
                    owners[index] = node
        return owners


class _Item(NamedTuple):
    """A piece of the output. A word is up to three items: leading punctuation, the word, trailing punctuation."""

    kind: Literal["leading", "word", "trailing", "open", "close", "point"]
    text: str
    starts_word: bool = False  # a space belongs before it
    spaced: tuple[bool, bool] = (False, False)  # for a point: whether it had a space before and after it


class _TagPlacement(ABC):
    """Assigns target words to the elements of a sentence, for one translation."""

    def __init__(self, sentence: MarkupSentence, words: Sequence[str]) -> None:
        self._raw, self._spans, self._words = sentence.raw, sentence.spans, words
        self._starts = [start for start, _ in self._spans]

    @abstractmethod
    def _assign_spans(self, node: _Node, low: int, high: int) -> dict[_Node, tuple[int, int]]:
        """The target words of each child element that gets any, between `low` and `high`."""

    @abstractmethod
    def _point_position(self, node: _Node, parent: _Node, low: int, high: int) -> int:
        """The target word before which to put a point, or an element without words."""

    def content(self, node: _Node, low: int, high: int) -> list[_Item]:
        """The items between an element's tags, if it has the target words from `low` to `high`."""
        spans = self._assign_spans(node, low, high)
        ordered = sorted(spans.values())
        points: dict[int, list[_Node]] = {}
        for child in node.children:
            if child not in spans:
                position = _move_outside(self._point_position(child, node, low, high), ordered)
                points.setdefault(position, []).append(child)
        by_start = {span[0]: child for child, span in spans.items()}
        items: list[_Item] = []
        position = low
        while position <= high:
            for child in points.get(position, ()):
                items += self._element(child, position, position)
            if position == high:
                break
            if position in by_start:
                child = by_start[position]
                items += self._element(child, *spans[child])
                position = spans[child][1]
            else:
                items += _word_items(self._words[position])
                position += 1
        return items

    def _element(self, node: _Node, low: int, high: int) -> list[_Item]:
        if node.end is None:
            return [_Item("point", node.raw, spaced=self._has_spaces(node))]
        leading_outside, trailing_outside = self._punctuation_outside(node)
        items = self.content(node, low, high)
        head = [items.pop(0)] if leading_outside and items and items[0].kind == "leading" else []
        tail = [items.pop()] if trailing_outside and items and items[-1].kind == "trailing" else []
        return [*head, _Item("open", node.raw), *items, _Item("close", node.end), *tail]

    def _has_text(self, node: _Node) -> bool:
        first = max(0, bisect_right(self._starts, node.start) - 1)
        return any(start < node.stop and stop > node.start for start, stop in self._spans[first : first + 2])

    def _has_spaces(self, node: _Node) -> tuple[bool, bool]:
        """Whether there is a space, or nothing, before and after a point."""
        before, after = self._raw[node.start - 1 : node.start], self._raw[node.start : node.start + 1]
        return not WORD.match(before), not WORD.match(after)

    def _punctuation_outside(self, node: _Node) -> tuple[bool, bool]:
        """Whether the first and last word continue outside the element with punctuation only: `<b>tired</b>.`"""
        leading, trailing = False, False
        for index in {bisect_right(self._starts, node.start) - 1, bisect_left(self._starts, node.stop) - 1}:
            if index >= 0:
                start, stop = self._spans[index]
                leading = leading or (start < node.start < stop and not has_words(self._raw[start : node.start]))
                trailing = trailing or (start < node.stop < stop and not has_words(self._raw[node.stop : stop]))
        return leading, trailing


class _AlignedTags(_TagPlacement):
    """By the alignment: pairs (source word, target word), at least one."""

    def __init__(self, sentence: MarkupSentence, words: Sequence[str], pairs: Sequence[tuple[int, int]]) -> None:
        super().__init__(sentence, words)
        self._targets: dict[int, list[int]] = {}  # source word → target words
        owned: list[_Node | None] = [None] * len(words)
        for source, target in pairs:
            self._targets.setdefault(source, []).append(target)
            owned[target] = sentence.owners[source]
        self._owners = _complete_owners(owned)

    def _assign_spans(self, node: _Node, low: int, high: int) -> dict[_Node, tuple[int, int]]:
        """Each child element takes a run of its words; one with text but without a run takes the nearest free word."""
        owned: dict[_Node, list[int]] = {}
        for position in range(low, high):
            child = _child_towards(node, self._owners[position])
            if child is not None:
                owned.setdefault(child, []).append(position)
        spans: dict[_Node, tuple[int, int]] = {}
        used: set[int] = set()
        for child in sorted(owned, key=lambda element: -len(owned[element])):
            span = next((span for span in _candidate_spans(owned[child]) if used.isdisjoint(range(*span))), None)
            if span is not None:
                spans[child] = span
                used.update(range(*span))
        remaining = [
            child for child in node.children if child.end is not None and child not in spans and self._has_text(child)
        ]
        if remaining:
            self._assign_free_words(remaining, spans, node, low, high)
        return spans

    def _assign_free_words(
        self, remaining: list[_Node], spans: dict[_Node, tuple[int, int]], node: _Node, low: int, high: int
    ) -> None:
        used = {position for span in spans.values() for position in range(*span)}
        free = [position for position in range(low, high) if position not in used]
        for child in remaining:
            if not free:
                return
            inside_word = self._word_around(child, low, high)
            position = self._point_position(child, node, low, high) if inside_word is None else inside_word
            right = min(bisect_left(free, position), len(free) - 1)
            nearest = min((right, max(0, right - 1)), key=lambda index: abs(free[index] - position))
            word = free.pop(nearest)
            spans[child] = word, word + 1

    def _word_around(self, node: _Node, low: int, high: int) -> int | None:
        """The target of the word in whose middle an element starts: `H<sub>2</sub>O`."""
        word = bisect_left(self._starts, node.start) - 1
        if word < 0 or node.start >= self._spans[word][1]:
            return None
        targets = [target for target in self._targets.get(word, ()) if low <= target < high]
        return max(targets, default=None)

    def _point_position(self, node: _Node, parent: _Node, low: int, high: int) -> int:
        """The position of a point: after the translation of the word before it."""
        last = bisect_left(self._starts, node.start) - 1
        if last + 1 >= len(self._starts) or self._starts[last + 1] >= parent.stop:
            return high
        for word in range(last, max(-1, last - _MAX_LOOK_BACK), -1):
            if self._spans[word][1] <= parent.start:
                return low
            targets = [target for target in self._targets.get(word, ()) if low <= target < high]
            if targets:
                return max(targets) + 1
        return low


class _ProportionalTags(_TagPlacement):
    """Without an alignment: all tags in their order, at the same share of the words as in the source."""

    def __init__(self, sentence: MarkupSentence, words: Sequence[str]) -> None:
        super().__init__(sentence, words)
        self._middles = [start + stop for start, stop in self._spans]  # twice the middle of each source word
        self._points: dict[_Node, int] = {}

    def _assign_spans(self, node: _Node, low: int, high: int) -> dict[_Node, tuple[int, int]]:
        """An element with text gets at least one word, as long as any are left for it."""
        spans: dict[_Node, tuple[int, int]] = {}
        for child in node.children:
            first, last = (bisect_left(self._middles, 2 * offset) for offset in (child.start, child.stop))
            needed = int(child.end is not None and self._has_text(child))
            if needed and first == last:  # less than half of any word
                last = bisect_left(self._starts, child.stop)
                first = last - 1
            stop = min(max(self._scaled(last), low + needed), high)
            start = max(min(self._scaled(first), stop - needed), low)
            if start < stop:
                spans[child] = start, stop
            else:
                self._points[child] = stop
            low = stop
        return spans

    def _point_position(self, node: _Node, parent: _Node, low: int, high: int) -> int:
        return self._points[node]

    def _scaled(self, n_source: int) -> int:
        """The number of target words before a place with so many source words before it, rounded."""
        return (2 * n_source * len(self._words) + len(self._spans)) // (2 * len(self._spans))


def _elements(node: _Node) -> Iterator[_Node]:
    """All elements below a node, outer ones first."""
    for child in node.children:
        if child.end is not None:
            yield child
            yield from _elements(child)


def _child_towards(node: _Node, owner: _Node) -> _Node | None:
    """The child of `node` that is `owner` or contains it."""
    chain, depth = (*owner.path, owner), len(node.path)
    return chain[depth + 1] if len(chain) > depth + 1 and chain[depth] is node else None


def _complete_owners(owners: list[_Node | None]) -> list[_Node]:
    """A word without an owner belongs to the innermost element around both its neighbours."""
    known = [index for index, node in enumerate(owners) if node is not None]
    completed: list[_Node] = []
    for index, node in enumerate(owners):
        if node is None:
            right = bisect_left(known, index)
            before, after = owners[known[max(0, right - 1)]], owners[known[min(right, len(known) - 1)]]
            assert before is not None and after is not None
            node = _common_ancestor(before, after)
        completed.append(node)
    return completed


def _common_ancestor(a: _Node, b: _Node) -> _Node:
    return [x for x, y in zip((*a.path, a), (*b.path, b), strict=False) if x is y][-1]


def _candidate_spans(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Spans for an element with these target words, best first; a span may include single words of others.

    Alignments are often wrong by a word: a link around one word too many is better than half a link.
    """
    spans: list[tuple[int, int, int]] = []  # start, stop, own words minus other words
    for max_distance in (2, 1):
        runs: list[list[int]] = []
        for position in positions:
            if runs and position - runs[-1][-1] <= max_distance:
                runs[-1].append(position)
            else:
                runs.append([position])
        spans += [(run[0], run[-1] + 1, 2 * len(run) - (run[-1] + 1 - run[0])) for run in runs]
    spans.sort(key=lambda span: (-span[2], span[0] - span[1]))
    return [(start, stop) for start, stop, _ in spans]


def _move_outside(position: int, spans: Sequence[tuple[int, int]]) -> int:
    """The position, or the end of the span that contains it."""
    index = bisect_left(spans, (position, 0)) - 1
    return max(position, spans[index][1]) if index >= 0 else position


def has_words(text: str) -> bool:
    """Whether there is anything to translate: a letter or a digit, not only punctuation."""
    return any(character.isalnum() for character in text)


def _word_items(text: str) -> list[_Item]:
    """A word, separated from the punctuation around it."""
    inside = [position for position, character in enumerate(text) if character.isalnum()]
    if not inside:
        return [_Item("word", text, starts_word=True)]
    start, stop = inside[0], inside[-1] + 1
    leading = [_Item("leading", text[:start], starts_word=True)] if start else []
    trailing = [_Item("trailing", text[stop:])] if stop < len(text) else []
    return [*leading, _Item("word", text[start:stop], starts_word=not leading), *trailing]


def _join(items: Sequence[_Item]) -> str:
    """The items as HTML, with spaces between words; a space is outside the tags next to it."""
    parts: list[str] = []
    tags: list[_Item] = []
    started = False
    for item in items:
        if item.kind in ("open", "close", "point"):
            tags.append(item)
            continue
        parts += _with_space(tags, before=started, after=True) if item.starts_word else [tag.text for tag in tags]
        parts.append(escape(item.text, quote=False))
        tags, started = [], True
    parts += _with_space(tags, before=started, after=False)
    return "".join(parts)


def _with_space(tags: Sequence[_Item], before: bool, after: bool) -> list[str]:
    """Tags, with the space in its place among them; `before` and `after`: whether there is a word on that side."""
    n_attached = len(list(takewhile(_is_attached_to_the_left, tags)))
    rest = tags[n_attached:]
    has_point = any(tag.kind == "point" for tag in rest)
    space = [" "] if before and (after or has_point) else []
    texts = [tag.text + (" " if after and tag.kind == "point" and tag.spaced[1] else "") for tag in rest]
    return [*(tag.text for tag in tags[:n_attached]), *space, *texts]


def _is_attached_to_the_left(tag: _Item) -> bool:
    return tag.kind == "close" or (tag.kind == "point" and not tag.spaced[0])
