"""Translates plain text line by line, and keeps its layout."""

from __future__ import annotations

from collections.abc import Sequence

from regard.translator import Translation
from regard.translator.markup.placement import has_words


class PlainText:
    """A text, split into lines; lines without letters or digits stay unchanged."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self.texts = [line.strip() for line in self._lines if has_words(line)]  # to translate

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
        """The white space around a line stays."""
        remaining = iter(texts)
        lines = [line.replace(line.strip(), next(remaining), 1) if has_words(line) else line for line in self._lines]
        return "\n".join(lines)
