"""Running text → batches with hidden words, for models that learn from text alone.

A document is a list of sentences, and an example a passage of it: as many neighbouring sentences as fit. What is
hidden, and how a passage becomes a pair of texts, is a function of the seed, the epoch and the number of the example.

B batch, T length, with bos in front and eos behind every text
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import NO_TARGET, Batch, Place
from regard.data.random_key import random_key
from regard.data.texts import collate_texts

FOLLOWS, RANDOM = 0, 1  # classes of "next"
_SHORT = 0.1  # share of the passages that are shorter than they could be (Devlin et al., 2019, appendix A.2)
_ALONE = 0.5  # share of the passages that stay one text, if nothing is asked about pairs

Ids = NDArray[np.int32]


class Masking(NamedTuple):
    """Which words are asked for, and what is seen in their place: a mask, another word, or the word itself."""

    share: float = 0.15
    hidden: float = 0.8
    random: float = 0.1
    span: int = 1  # up to so many words in a row


@dataclass(frozen=True, eq=False)
class Passages:
    """Sentences as ids in memory, one after the other, without bos and eos, and the passages that they form."""

    ids: Ids
    starts: NDArray[np.int64]  # (n_sentences + 1,)
    bounds: NDArray[np.int64]  # (n_passages, 2) the first sentence, and one after the last
    documents: NDArray[np.int64]  # (n_passages,)

    @classmethod
    def of(cls, documents: Iterable[Sequence[Ids]], max_length: int) -> Passages:
        """Passages of at most `max_length` ids; a longer sentence is cut into several."""
        sentences: list[Ids] = []
        bounds: list[tuple[int, int]] = []
        numbers: list[int] = []
        for number, document in enumerate(documents):
            rng = _rng(0, "short passages", number)
            first, length, limit = len(sentences), 0, max_length
            for sentence in _cut(document, max_length):
                if length and length + len(sentence) > limit:
                    bounds.append((first, len(sentences)))
                    numbers.append(number)
                    first, length, limit = len(sentences), 0, max_length
                    if rng.random() < _SHORT:
                        limit = int(rng.integers(2, max_length))
                sentences.append(sentence)
                length += len(sentence)
            if length:
                bounds.append((first, len(sentences)))
                numbers.append(number)
        ends = np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64)
        joined = np.concatenate([np.empty(0, np.int32), *sentences])
        return cls(joined, np.concatenate([[0], ends]), np.array(bounds).reshape(-1, 2), np.array(numbers))

    def __len__(self) -> int:
        return len(self.bounds)

    def sentences(self, index: int) -> list[Ids]:
        """The sentences of a passage."""
        first, end = self.bounds[index]
        return [self.ids[self.starts[i] : self.starts[i + 1]] for i in range(first, end)]

    def before(self, index: int, n: int) -> Ids:
        """At most `n` ids before a passage, in the same document."""
        document = self.bounds[np.searchsorted(self.documents, self.documents[index]), 0]
        start = self.starts[self.bounds[index, 0]]
        return self.ids[max(self.starts[document], start - n) : start]

    def select(self, chosen: NDArray[np.bool_]) -> Passages:
        """Some of the passages."""
        return replace(self, bounds=self.bounds[chosen], documents=self.documents[chosen])

    @cached_property
    def lengths(self) -> tuple[NDArray[np.integer], ...]:
        """(n_passages,), without bos, but with two eos."""
        return (self.starts[self.bounds[:, 1]] - self.starts[self.bounds[:, 0]] + 2,)


@dataclass(frozen=True, kw_only=True)
class MaskedTexts:
    """Batches of passages: ids and segments (B, T), and draws (B, T); targets: hidden words (B, T), classes (B,).

    Draws are random numbers in [0, 1) where a word is asked for, and for bos and eos; elsewhere they are -1. ELECTRA
    samples with them, and XLNet orders by them. So what is random comes with the batch. With `n_before`, the fourth
    input is the text before (B, n_before), padded on the left: XLNet's memory. It comes with every passage, so that
    batches may have any order, size and number of processes.
    """

    passages: Passages
    masking: Masking
    asks: Sequence[str]  # the terms to count targets of; with "next", half of the passages get a random second text
    n_symbols: int
    pad_id: int
    bos_id: int
    eos_id: int
    mask_id: int
    n_before: int = 0

    def __call__(self, indices: NDArray[np.integer], place: Place) -> Batch:
        rngs = [_rng(place.seed, "masking", place.epoch, int(i)) for i in indices]
        examples = [self._texts(int(i), rng) for i, rng in zip(indices, rngs, strict=True)]
        special = {"pad_id": self.pad_id, "bos_id": self.bos_id, "eos_id": self.eos_id}
        classes = np.array([label for _, label in examples])
        batch = collate_texts([texts for texts, _ in examples], classes, **special, indices=indices, place=place)
        ids = batch.inputs[0].numpy()
        words, draws = np.full_like(ids, NO_TARGET), np.full(ids.shape, -1, dtype=np.float32)
        for row, (texts, _) in enumerate(examples):
            self._mask(ids[row], words[row], draws[row], [len(text) for text in texts], rngs[row])
        counts = {
            "words": int((words != NO_TARGET).sum()),
            "next": int((classes != NO_TARGET).sum()),
            "replaced": int((ids != self.pad_id).sum()),
        }
        return replace(
            batch,
            inputs=(*batch.inputs, torch.from_numpy(draws), *self._before(indices)),
            targets=(torch.from_numpy(words), *batch.targets) if "next" in self.asks else (torch.from_numpy(words),),
            n_targets=tuple(counts[name] for name in self.asks),
        )

    def _before(self, indices: NDArray[np.integer]) -> tuple[Tensor, ...]:
        if self.n_before == 0:
            return ()
        ids = np.full((len(indices), self.n_before), self.pad_id, dtype=np.int64)
        for row, index in enumerate(indices):
            before = self.passages.before(int(index), self.n_before)
            ids[row, self.n_before - len(before) :] = before
        return (torch.from_numpy(ids),)

    def _texts(self, index: int, rng: np.random.Generator) -> tuple[list[Ids], int]:
        """One text or two, and whether the second follows the first; NO_TARGET of one text."""
        sentences = self.passages.sentences(index)
        is_asked = "next" in self.asks
        if len(sentences) == 1 or (not is_asked and rng.random() < _ALONE):
            return [np.concatenate(sentences)], NO_TARGET
        n_first = int(rng.integers(1, len(sentences)))
        first, second = np.concatenate(sentences[:n_first]), np.concatenate(sentences[n_first:])
        if not is_asked or rng.random() < 0.5:
            return [first, second], FOLLOWS
        return [first, self._from_elsewhere(index, len(second), rng)], RANDOM

    def _from_elsewhere(self, index: int, length: int, rng: np.random.Generator) -> Ids:
        """At most `length` ids of another document, from the beginning of a sentence."""
        passages = self.passages
        other = int(rng.integers(len(passages)))
        while passages.documents[other] == passages.documents[index]:
            other = int(rng.integers(len(passages)))
        first, end = passages.bounds[other]
        start = passages.starts[rng.integers(first, end)]
        return passages.ids[start : min(start + length, passages.starts[end])]

    def _mask(self, ids: Ids, words: Ids, draws: Ids, lengths: Sequence[int], rng: np.random.Generator) -> None:
        """Hides words of one row, in place: ids, targets, and draws."""
        ends = np.cumsum(lengths) + np.arange(1, len(lengths) + 1)  # of every text, where its eos is
        draws[[0, *ends]] = rng.random(len(ends) + 1)
        candidates = np.setdiff1d(np.arange(1, ends[-1]), ends)
        asked = candidates[_chosen(len(candidates), self.masking, rng)]
        words[asked], draws[asked] = ids[asked], rng.random(len(asked))
        kind = rng.random(len(asked))
        is_hidden = kind < self.masking.hidden
        is_other = ~is_hidden & (kind < self.masking.hidden + self.masking.random)
        ids[asked[is_hidden]] = self.mask_id
        other = rng.integers(1, self.n_symbols, size=int(is_other.sum()))  # any but padding
        ids[asked[is_other]] = (self.pad_id + other) % self.n_symbols


def _chosen(n: int, masking: Masking, rng: np.random.Generator) -> NDArray[np.int64]:
    """The words of n that are asked for, at least one: single words, or spans that are spread evenly."""
    if masking.span == 1:
        return np.sort(rng.permutation(n)[: max(1, round(masking.share * n))])
    chosen: list[int] = []
    first = 0
    while first < n:  # a span of random length somewhere in its context (Yang et al., 2019, section 2.4)
        length = int(rng.integers(1, masking.span + 1))
        context = round(length / masking.share)
        start = first + int(rng.integers(context - length + 1))
        chosen += range(start, min(start + length, n))
        first += context
    return np.array(chosen or [int(rng.integers(n))])


def _cut(document: Sequence[Ids], max_length: int) -> Iterable[Ids]:
    for sentence in document:
        for start in range(0, len(sentence), max_length):
            yield sentence[start : start + max_length]


def _rng(*key: int | str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(random_key(*key)))  # type: ignore[arg-type]
