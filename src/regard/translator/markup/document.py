"""HTML whose text is translated and whose tags are not: each comes back once, as it was, around the words it enclosed.

A block's text is one sentence for the model, whatever tags are inside it. `Markup(html).texts` are these sentences;
`filled` puts their translations in their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import accumulate

from regard.translator.markup.placement import Sentence, Translated
from regard.translator.markup.tokens import Token, tokens

_MAX_DEPTH = 32  # of tags within one sentence; deeper ones part it


class Markup:
    """A document, cut into what stays as it is and sentences."""

    def __init__(self, html: str) -> None:
        self._parts: list[str | Sentence] = []
        run: list[Token] = []
        for token in (*tokens(html), Token("boundary", "")):
            if token.kind != "boundary":
                run.append(token)
                continue
            for part in _parted(run):
                self._add(part)
            self._parts.append(token.raw)
            run = []

    @property
    def texts(self) -> list[str]:
        """What there is to translate, as plain text."""
        return [part.text for part in self._sentences]

    def filled(self, translations: Sequence[Translated]) -> str:
        """The document with its sentences translated, in the order of `texts`."""
        done = dict(zip(map(id, self._sentences), translations, strict=True))
        return "".join(part if isinstance(part, str) else part.placed(done[id(part)]) for part in self._parts)

    @property
    def _sentences(self) -> list[Sentence]:
        return [part for part in self._parts if isinstance(part, Sentence)]

    def _add(self, part: list[Token]) -> None:
        """White space around a sentence stays outside it; what has no word is no sentence."""
        if not any(token.kind == "text" and is_sayable(unescape(token.raw)) for token in part):
            self._parts += [token.raw for token in part]
            return
        first, last = part[0], part[-1]
        before = first.raw[: len(first.raw) - len(first.raw.lstrip())] if first.kind == "text" else ""
        behind = last.raw[len(last.raw.rstrip()) :] if last.kind == "text" else ""
        self._parts += [before, Sentence(part), behind]


def is_sayable(text: str) -> bool:
    """Whether there is something to translate: a letter or a digit, not only signs."""
    return any(character.isalnum() for character in text)


def _parted(run: list[Token]) -> Iterator[list[Token]]:
    """Cut where a tag has no partner within the same block: nothing may move across it."""
    alone = _alone(run)
    part: list[Token] = []
    for number, token in enumerate(run):
        if number in alone:
            yield part
            yield [token]
            part = []
        else:
            part.append(token)
    yield part


def _alone(run: list[Token]) -> set[int]:
    """The tags without a partner, those nested too deep, and those with such a tag between them."""
    pairs: list[tuple[int, int]] = []
    waiting: list[int] = []
    names: Counter[str] = Counter()
    alone: set[int] = set()
    for number, token in enumerate(run):
        if token.kind == "start":
            waiting.append(number)
            names[token.name] += 1
        elif token.kind == "end" and not names[token.name]:
            alone.add(number)
        elif token.kind == "end":
            too_deep = len(waiting) > _MAX_DEPTH
            while run[opened := waiting.pop()].name != token.name:
                alone.add(opened)
                names[run[opened].name] -= 1
            names[token.name] -= 1
            pairs.append((opened, number))
            if too_deep:
                alone |= {opened, number}
    alone |= set(waiting)
    n_before = list(accumulate((number in alone for number in range(len(run))), initial=0))
    broken = [pair for pair in pairs if n_before[pair[1]] > n_before[pair[0]]]
    return alone.union(*broken)
