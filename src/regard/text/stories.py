"""Stories with questions, in the format of bAbI (Weston et al., 2016).

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary?<tab>bathroom<tab>1

Line 1 begins a new story. A question has its answer after a tab and, after another, the numbers of the lines that
support it. Questions are no part of the story.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError
from regard.text.lines import read_lines
from regard.text.normalise import normalise

_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_LINE = re.compile(r"(\d{1,18})\s+(\S.*)")  # Python refuses to read numbers of thousands of digits
_NUMBER = re.compile(r"\d{1,18}")
_HINT = "a line is a number and a sentence; a question has its answer, and the numbers of supporting lines, after tabs"


@dataclass(frozen=True)
class Question:
    """A question, and the sentences that were told before it."""

    story: tuple[str, ...]
    text: str
    answer: str = ""  # empty if it is not known
    supporting: tuple[int, ...] = ()  # places in the story, from 0
    number: int = 0  # of its story in the file, from 0


def split_words(sentence: str) -> list[str]:
    """The words of a sentence, in small letters, without punctuation."""
    return _WORD.findall(normalise(sentence).lower())


def read_stories(path: Path) -> list[Question]:
    """All questions of a file, in order."""
    questions = list(parse_stories(read_lines(path), str(path)))
    if not questions:
        raise DataError(f"{path}: there is no question in it", hint=_HINT)
    return questions


def parse_stories(lines: Iterable[str], name: str) -> Iterator[Question]:
    """The questions in numbered lines; `name` is for errors."""
    story: list[str] = []
    places: dict[int, int] = {}  # line numbers of the story → places in it
    n_stories, last = 0, 0
    for at, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if (match := _LINE.fullmatch(line.strip(" \r"))) is None:
            raise DataError(f"{name}:{at}: no number at the beginning of the line", hint=_HINT)
        number, (text, *cells) = int(match[1]), match[2].split("\t")
        if number == 1:
            story, places, n_stories = [], {}, n_stories + 1
        elif number <= last or not n_stories:
            raise DataError(f"{name}:{at}: line {number} after line {last}; a new story begins with 1", hint=_HINT)
        last = number
        if cells:
            yield _question(f"{name}:{at}", text, cells, story, places, n_stories - 1)
        else:
            places[number] = len(story)
            story.append(text.strip())


def _question(where: str, text: str, cells: list[str], story: list[str], places: dict[int, int], n: int) -> Question:
    answer, numbers = cells[0].strip().lower(), " ".join(cells[1:]).split()
    if not answer:
        raise DataError(f"{where}: a question without an answer", hint=_HINT)
    if not split_words(text):
        raise DataError(f"{where}: a question without words", hint=_HINT)
    wrong = [number for number in numbers if not _NUMBER.fullmatch(number) or int(number) not in places]
    if wrong:
        raise DataError(f"{where}: {wrong[0][:20]!r} is not the number of an earlier sentence of the story", hint=_HINT)
    return Question(tuple(story), text.strip(), answer, tuple(places[int(number)] for number in numbers), n)
