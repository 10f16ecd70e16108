"""From files of stories to ids: read, check, split, encode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from regard.data import NIL, NO_TARGET, Stories
from regard.errors import DataError
from regard.tasks.answering.sections import StoryDataConfig
from regard.text import fingerprint, is_held_out
from regard.text.stories import Question, read_stories, split_words

SPLIT_SEED = 0  # the validation set does not change with the seed of a run, so that seeds can be compared


@dataclass(frozen=True)
class StorySplit:
    """The questions of a run."""

    train: list[Question]
    validation: list[Question]
    fingerprint: str


@dataclass(frozen=True)
class Words:
    """Numbers of the words and answers of the training text; number 0 is no word."""

    words: tuple[str, ...]  # the first is empty
    n_places: int  # words of the longest sentence or question

    @classmethod
    def of(cls, questions: Sequence[Question]) -> Words:
        known, longest = {"": NIL}, 0
        for question in questions:
            for sentence in (*question.story, question.text):
                words = split_words(sentence)
                longest = max(longest, len(words))
                for word in words:
                    known.setdefault(word, len(known))
            known.setdefault(question.answer, len(known))
        return cls(tuple(known), longest)

    def encode(self, questions: Sequence[Question]) -> Stories:
        """Unknown words are left out, and so are unknown answers."""
        numbers = {word: number for number, word in enumerate(self.words)}
        cached: dict[str, list[int]] = {}

        def ids(sentence: str) -> list[int]:
            if sentence not in cached:
                cached[sentence] = [numbers.get(word, NIL) for word in split_words(sentence)][: self.n_places]
            return cached[sentence]

        return Stories.of(
            [[ids(sentence) for sentence in question.story] for question in questions],
            [ids(question.text) for question in questions],
            [numbers.get(question.answer, NIL) or NO_TARGET for question in questions],
            self.n_places,
        )


def read_split(data: StoryDataConfig) -> StorySplit:
    """Reads all files; raises RunError if one has changed since the run began."""
    current = fingerprint(data)
    data.require_unchanged(current, "the stories have")
    files = [read_stories(path) for path in data.train]
    if data.validation:
        validation = [question for path in data.validation for question in read_stories(path)]
        return StorySplit([question for file in files for question in file], validation, current)
    kept: list[Question] = []
    held_out: list[Question] = []
    for file in files:
        for _, story in groupby(file, key=lambda question: question.number):
            questions = list(story)
            text = "\n".join((*questions[-1].story, *(question.text for question in questions)))
            (held_out if is_held_out(text, data.held_out, SPLIT_SEED) else kept).extend(questions)
    if not kept or not held_out:
        raise DataError(
            f"{data.train[0]}: too few stories to keep some for validation",
            hint=f"use more stories, set data.held_out (now {data.held_out}), or give --valid-stories",
        )
    return StorySplit(kept, held_out, current)
