"""Plain text of many lines: each line is translated, and stays where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regard.translator import Translation
from regard.translator.markup.document import is_sayable


class _Line(NamedTuple):
    """What is to translate of a line, and the white space around it."""

    before: str
    text: str
    behind: str


class PlainText:
    """A text, cut into lines; those without a letter or a digit stay as they are."""

    def __init__(self, text: str) -> None:
        self._lines = [_line(one) for one in text.split("\n")]
        self.texts = [line.text for line in self._lines if is_sayable(line.text)]  # what there is to translate

    def filled(self, translations: Sequence[Translation]) -> str:
        """The text with its lines translated, in the order of `texts`."""
        return self._filled([one.text for one in translations])

    def alternatives(self, translations: Sequence[Translation]) -> list[str]:
        """The next best texts: of every line its second, of every line its third, … as long as any line has one."""
        n_more = max((len(one.alternatives) for one in translations), default=0)
        ranked = [[one.text, *(other.text for other in one.alternatives)] for one in translations]
        texts = [self._filled([one[min(rank, len(one) - 1)] for one in ranked]) for rank in range(n_more + 1)]
        return list(dict.fromkeys(texts))[1:]

    def _filled(self, texts: Sequence[str]) -> str:
        left = iter(texts)
        return "\n".join(
            f"{line.before}{next(left) if is_sayable(line.text) else line.text}{line.behind}" for line in self._lines
        )


def _line(text: str) -> _Line:
    inner = text.strip()
    start = text.find(inner) if inner else len(text)
    return _Line(text[:start], inner, text[start + len(inner) :])
