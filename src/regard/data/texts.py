"""Texts, or pairs of texts, with a class → batches of padded ids.

B batch, T length, with bos in front and eos behind every text
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import NO_TARGET, OUTSIDE_TRAINING, Batch, Place
from regard.data.random_key import random_key

Ids = Sequence[int] | NDArray[np.integer]  # of one text


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """Ids of all texts in memory, one after the other, without bos and eos; an example has one text, or two."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]  # (n_examples · n_texts + 1,)
    classes: NDArray[np.int64]  # (n_examples,)
    n_texts: int = 1  # of an example

    @classmethod
    def of(cls, examples: Sequence[Sequence[Ids]], classes: Sequence[int], n_texts: int) -> LabelledTexts:
        texts = [np.asarray(ids, dtype=np.int32) for example in examples for ids in example]
        ends = np.cumsum([len(ids) for ids in texts], dtype=np.int64)
        joined = np.concatenate([np.empty(0, np.int32), *texts])
        return cls(joined, np.concatenate([[0], ends]), np.array(classes, dtype=np.int64), n_texts)

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, index: int) -> list[NDArray[np.int32]]:
        """The texts of an example."""
        first = index * self.n_texts
        return [self.ids[self.starts[i] : self.starts[i + 1]] for i in range(first, first + self.n_texts)]

    @cached_property
    def lengths(self) -> tuple[NDArray[np.integer], ...]:
        """(n_examples,), without bos, but with the eos between two texts."""
        return (np.diff(self.starts[:: self.n_texts]) + self.n_texts,)


@dataclass(frozen=True, kw_only=True)
class TextCollator:
    """Batches of texts; with `word_dropout`, this share of the sub-words is replaced by unk, others in each epoch."""

    texts: LabelledTexts
    pad_id: int
    unk_id: int
    bos_id: int
    eos_id: int
    word_dropout: float = 0.0

    def __call__(self, indices: NDArray[np.integer], place: Place) -> Batch:
        examples: list[list[NDArray[np.int32]]] = [self.texts[int(i)] for i in indices]
        if self.word_dropout:
            rng = np.random.Generator(np.random.PCG64(random_key(place.seed, "words", place.epoch, place.index)))
            examples = [
                [np.where(rng.random(len(ids)) < self.word_dropout, self.unk_id, ids) for ids in example]
                for example in examples
            ]
        special = {"pad_id": self.pad_id, "bos_id": self.bos_id, "eos_id": self.eos_id}
        return collate_texts(examples, self.texts.classes[indices], **special, indices=indices, place=place)


def cut(texts: Sequence[list[int]], max_length: int) -> list[list[int]]:
    """Texts with at most `max_length` ids together: the longest of them loses its end."""
    shortened = list(texts)
    while (excess := sum(map(len, shortened)) - max_length) > 0:
        longest = max(range(len(shortened)), key=lambda i: len(shortened[i]))
        others = max((len(text) for i, text in enumerate(shortened) if i != longest), default=0)
        length = max(len(shortened[longest]) - excess, min(others, len(shortened[longest]) - 1), 0)
        shortened[longest] = shortened[longest][:length]
    return shortened


def collate_texts(
    examples: Sequence[Sequence[Ids]],
    classes: NDArray[np.integer] | None = None,
    *,
    pad_id: int,
    bos_id: int,
    eos_id: int,
    indices: NDArray[np.integer] | None = None,
    place: Place = OUTSIDE_TRAINING,
) -> Batch:
    """Pad examples of one text or two on the right into one batch: bos, the first text, eos, the second text, eos.

    Inputs: ids (B, T), and segments (B, T): 1 in the second text and its eos, else 0. Targets: classes (B,).
    """
    rows = [
        np.concatenate(
            [[bos_id], *(part for ids in example for part in (ids, [eos_id]))], dtype=np.int64, casting="unsafe"
        )
        for example in examples
    ]
    ids = np.full((len(rows), max(map(len, rows))), pad_id, dtype=np.int64)
    segments = np.zeros_like(ids)
    for number, (row, example) in enumerate(zip(rows, examples, strict=True)):
        ids[number, : len(row)] = row
        segments[number, len(example[0]) + 2 : len(row)] = 1
    targets = np.full(len(rows), NO_TARGET) if classes is None else classes.astype(np.int64)
    return Batch(
        inputs=(torch.from_numpy(ids), torch.from_numpy(segments)),
        targets=(torch.from_numpy(targets),),
        n_targets=(len(rows) if classes is not None else 0,),
        place=place,
        indices=np.arange(len(rows)) if indices is None else indices.astype(np.int64),
    )
