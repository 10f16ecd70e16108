"""Translates plain text line by line, and keeps its layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regard.translator import Translation
from regard.translator.markup.document import has_words


class _TextLine(NamedTuple):
    """The text of a line, and the white space around it."""

    before: str
    text: str
    after: str


class PlainText:
    """A text, split into lines; lines without letters or digits stay unchanged."""

    def __init__(self, text: str) -> None:
        self._lines = [_split_line(line) for line in text.split("\n")]
        self.texts = [line.text for line in self._lines if has_words(line.text)]  # to translate

    def fill(self, translations: Sequence[Translation]) -> str:
        """The text with its lines translated, in the order of `texts`."""
        return self._fill([translation.text for translation in translations])

    def alternatives(self, translations: Sequence[Translation]) -> list[str]:
        """Alternative texts: the second best translation of every line, the third best, … where a line has one."""
        n_alternatives = max((len(translation.alternatives) for translation in translations), default=0)
        ranked = [[best.text, *(alternative.text for alternative in best.alternatives)] for best in translations]
        texts = [self._fill([line[min(rank, len(line) - 1)] for line in ranked]) for rank in range(n_alternatives + 1)]
        return list(dict.fromkeys(texts))[1:]

    def _fill(self, texts: Sequence[str]) -> str:
        remaining = iter(texts)
        return "\n".join(
            f"{line.before}{next(remaining) if has_words(line.text) else line.text}{line.after}" for line in self._lines
        )


def _split_line(line: str) -> _TextLine:
    text = line.strip()
    start = line.find(text) if text else len(line)
    return _TextLine(line[:start], text, line[start + len(text) :])
