"""Stories with questions → batches of padded ids.

B batch, N questions, M sentences, J words of the longest sentence, or question
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch, Place
from regard.data.random_key import random_key

NIL = 0  # in place of a word where there is none

Ids = Sequence[int]  # of a sentence


@dataclass(frozen=True, eq=False)
class Stories:
    """The words of all sentences and questions. Questions about the same story share its sentences."""

    sentences: NDArray[np.int64]  # (n_sentences + 1, J), with an empty one at the end
    questions: NDArray[np.int64]  # (N, J)
    first: NDArray[np.int64]  # (N,) number of the first sentence before each question …
    last: NDArray[np.int64]  # (N,) … and of the sentence after the last
    answers: NDArray[np.int64]  # (N,) NO_TARGET where it is not known

    @classmethod
    def of(
        cls, stories: Sequence[Sequence[Ids]], questions: Sequence[Ids], answers: Sequence[int], width: int
    ) -> Stories:
        """A story per question. One that continues the story before it shares its sentences; longer ones are cut."""
        sentences: list[Ids] = []
        first, last, before = [], [], 0
        for number, story in enumerate(stories):
            continues = number > 0 and list(story[:before]) == list(stories[number - 1])
            if not continues:
                first.append(len(sentences))
                before = 0
            else:
                first.append(first[-1])
            sentences += story[before:]
            before = len(story)
            last.append(len(sentences))
        return cls(
            _padded([*sentences, []], width),
            _padded(questions, width),
            np.array(first, dtype=np.int64),
            np.array(last, dtype=np.int64),
            np.array(answers, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def lengths(self) -> tuple[NDArray[np.integer], ...]:
        """(N,) zeros: with the one symbol that is added, each question counts as one, however long its story is."""
        return (np.zeros(len(self), dtype=np.int64),)


def _padded(rows: Sequence[Ids], width: int) -> NDArray[np.int64]:
    padded = np.full((len(rows), width), NIL, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row[:width]
    return padded


@dataclass(frozen=True, kw_only=True)
class StoryCollator:
    """Batches of questions with the last `memory` sentences before each, oldest first, and padded behind.

    A sentence ends with a word for its time, counted back from the question; its id is `n_symbols` for the newest. With
    `time_noise`, some times are left out, as if there were up to this share of empty sentences between the others
    (Sukhbaatar et al., 2015, section 4.1).
    """

    stories: Stories
    n_symbols: int
    memory: int
    time_noise: float = 0.0

    def __call__(self, indices: NDArray[np.integer], place: Place) -> Batch:
        """Inputs: the question (B, J + 1), and the sentences (B, M, J + 1). Target: the answer (B,)."""
        stories = self.stories
        n = np.minimum(stories.last[indices] - stories.first[indices], self.memory)  # (B,)
        slots = np.arange(max(1, n.max(initial=0)))
        is_told = slots < n[:, None]  # (B, M)
        rows = np.where(is_told, (stories.last[indices] - n)[:, None] + slots, -1)
        ages = n[:, None] - 1 - slots if not self.time_noise else self._noisy_ages(n, len(slots), place)
        times = np.where(is_told, self.n_symbols + np.minimum(ages, self.memory - 1), NIL)
        sentences = np.concatenate([stories.sentences[rows], times[:, :, None]], axis=2)
        question = np.pad(stories.questions[indices], ((0, 0), (0, 1)), constant_values=NIL)  # it has no time
        return Batch(
            inputs=(torch.from_numpy(question), torch.from_numpy(sentences)),
            targets=(torch.from_numpy(stories.answers[indices]),),
            n_targets=(len(indices),),
            place=place,
            indices=indices.astype(np.int64),
        )

    def _noisy_ages(self, n: NDArray[np.int64], width: int, place: Place) -> NDArray[np.int64]:
        """(B, M): for a story of n sentences, n of the ages below n + blanks, in order."""
        rng = np.random.Generator(np.random.PCG64(random_key(place.seed, "times", place.epoch, place.index)))
        blanks = rng.integers(0, np.ceil(n * self.time_noise).astype(np.int64), endpoint=True)  # (B,)
        keys = rng.random((len(n), width + int(blanks.max(initial=0))))
        keys[np.arange(keys.shape[1]) >= (n + blanks)[:, None]] = 2.0  # never among the n lowest
        threshold = np.take_along_axis(np.sort(keys, axis=1), np.maximum(n - 1, 0)[:, None], axis=1)
        is_used = (keys <= threshold) & (n > 0)[:, None]
        ages = np.zeros((len(n), width), dtype=np.int64)
        ages[np.arange(width) < n[:, None]] = keys.shape[1] - 1 - np.nonzero(is_used[:, ::-1])[1]  # oldest first
        return ages
