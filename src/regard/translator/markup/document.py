"""Translates HTML: the text changes, and every tag is kept, around the words that it enclosed.

The text of a block is one sentence for the model, without the tags inside it. `HtmlDocument(html).texts` are these
sentences; `fill` puts their translations in their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import accumulate

from regard.translator import Translation
from regard.translator.markup.placement import MarkupSentence, has_words
from regard.translator.markup.tokens import MarkupToken, tokenize

_MAX_DEPTH = 32  # of nested tags within one sentence; deeper tags split it


class HtmlDocument:
    """An HTML document, split into sentences and parts that stay unchanged."""

    def __init__(self, html: str) -> None:
        self._parts: list[str | MarkupSentence] = []
        self._sentences: list[MarkupSentence] = []
        block: list[MarkupToken] = []
        for token in (*tokenize(html), MarkupToken("boundary", "")):
            if token.kind != "boundary":
                block.append(token)
                continue
            for tokens in _split_at_unpaired(block):
                self._add(tokens)
            self._parts.append(token.raw)
            block = []

    @property
    def texts(self) -> list[str]:
        """The sentences to translate, as plain text."""
        return [sentence.text for sentence in self._sentences]

    def fill(self, translations: Sequence[Translation]) -> str:
        """The document with its sentences translated, in the order of `texts`."""
        by_sentence = dict(zip(map(id, self._sentences), translations, strict=True))
        return "".join(part if isinstance(part, str) else part.fill(by_sentence[id(part)]) for part in self._parts)

    def _add(self, tokens: list[MarkupToken]) -> None:
        """Add a sentence, without the white space around it; tokens without words stay unchanged."""
        if not any(token.kind == "text" and has_words(unescape(token.raw)) for token in tokens):
            self._parts += [token.raw for token in tokens]
            return
        first, last = tokens[0], tokens[-1]
        before = first.raw[: len(first.raw) - len(first.raw.lstrip())] if first.kind == "text" else ""
        after = last.raw[len(last.raw.rstrip()) :] if last.kind == "text" else ""
        self._sentences.append(MarkupSentence(tokens))
        self._parts += [before, self._sentences[-1], after]


def _split_at_unpaired(block: list[MarkupToken]) -> Iterator[list[MarkupToken]]:
    """Split a block at tags without a partner in it: no word may move across them."""
    unpaired = _unpaired_tags(block)
    tokens: list[MarkupToken] = []
    for index, token in enumerate(block):
        if index in unpaired:
            yield tokens
            yield [token]
            tokens = []
        else:
            tokens.append(token)
    yield tokens


def _unpaired_tags(block: list[MarkupToken]) -> set[int]:
    """Indices of tags without a partner, of tags nested too deep, and of pairs with such a tag between them."""
    pairs: list[tuple[int, int]] = []
    open_tags: list[int] = []
    n_open: Counter[str] = Counter()
    unpaired: set[int] = set()
    for index, token in enumerate(block):
        if token.kind == "start":
            open_tags.append(index)
            n_open[token.name] += 1
        elif token.kind == "end" and not n_open[token.name]:
            unpaired.add(index)
        elif token.kind == "end":
            too_deep = len(open_tags) > _MAX_DEPTH
            while block[start := open_tags.pop()].name != token.name:
                unpaired.add(start)
                n_open[block[start].name] -= 1
            n_open[token.name] -= 1
            pairs.append((start, index))
            if too_deep:
                unpaired |= {start, index}
    unpaired |= set(open_tags)
    n_before = list(accumulate((index in unpaired for index in range(len(block))), initial=0))
    broken = [pair for pair in pairs if n_before[pair[1]] > n_before[pair[0]]]
    return unpaired.union(*broken)
