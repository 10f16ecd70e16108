"""Store + order → updates: what the training loop steps over, from any place in the run on.

The batches of all epochs form one endless line: epoch 0's in their order, then epoch 1's, and so on. An update takes
the next `accumulate × world_size` of them, and each rank every world_size-th of these. An update may reach over the
end of an epoch, so nothing is dropped, every rank has equally many batches, and a cursor is only a place in the line:
it means the same for every rank and every number of ranks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.batch import Batch, Ids, collate
from regard.data.order import BatchOrder, epoch_batches, fixed_batches
from regard.data.random_key import random_key
from regard.data.store import TokenStore
from regard.errors import DataError

Resample = Callable[[list[list[int]], int], list[list[int]]]  # (sentences, seed) → the same, cut otherwise


@dataclass(frozen=True)
class Cursor:
    """A place in the line of batches: the next batch to be read."""

    epoch: int = 0
    index: int = 0


@dataclass(frozen=True, kw_only=True)
class LoaderSettings:
    """All that decides which batches a rank sees, beside the store."""

    max_tokens: int  # per batch and side, padding and eos counted
    seed: int
    pad_id: int
    bos_id: int
    eos_id: int
    accumulate: int = 1  # batches per rank in one update
    rank: int = 0
    world_size: int = 1
    corpus_weights: tuple[float, ...] | None = None  # how often each corpus comes in an epoch
    resample_source: Resample | None = None  # sub-word sampling; None keeps the stored ids
    resample_target: Resample | None = None


def updates(store: TokenStore, settings: LoaderSettings, start: Cursor) -> Iterator[tuple[list[Batch], Cursor]]:
    """This rank's updates without end, each with the cursor behind it.

    Started again at such a cursor, the same updates follow that would have followed anyway.
    """
    cursor = start
    order = epoch_order(store, settings, cursor.epoch)
    while True:
        update = []
        for place in range(settings.accumulate * settings.world_size):
            while cursor.index >= len(order):
                cursor = Cursor(cursor.epoch + 1, 0)
                order = epoch_order(store, settings, cursor.epoch)
            if place % settings.world_size == settings.rank:
                update.append(_load(store, settings, cursor, order[cursor.index]))
            cursor = Cursor(cursor.epoch, cursor.index + 1)
        yield update, cursor


def epoch_order(store: TokenStore, settings: LoaderSettings, epoch: int) -> BatchOrder:
    """Which pairs form which batch in one epoch; its length is the number of batches, over all ranks."""
    weights = None
    if settings.corpus_weights is not None:
        weights = np.array(settings.corpus_weights, dtype=np.float32)[store.corpora]
        if not weights.any():
            raise DataError("every corpus has weight 0", hint="give at least one corpus a weight above 0")
    return epoch_batches(
        *store.lengths, max_tokens=settings.max_tokens, seed=settings.seed, epoch=epoch, weights=weights
    )


def validation_batches(store: TokenStore, *, max_tokens: int, pad_id: int, bos_id: int, eos_id: int) -> Iterator[Batch]:
    """Every pair of a store exactly once, always in the same batches."""
    order = fixed_batches(*store.lengths, max_tokens=max_tokens)
    for place in range(len(order)):
        pairs = zip(*store.gather(order[place]), strict=True)
        yield collate(list(pairs), pad_id=pad_id, bos_id=bos_id, eos_id=eos_id, indices=order[place])


def _load(store: TokenStore, settings: LoaderSettings, cursor: Cursor, indices: NDArray[np.integer]) -> Batch:
    """The batch at a cursor, its sub-words sampled when the settings say so."""
    sources: Sequence[Ids]
    targets: Sequence[Ids]
    sources, targets = store.gather(indices)
    if settings.resample_source is not None:
        seed = random_key(settings.seed, "sub-words", cursor.epoch, cursor.index, "source")
        sources = _resampled(sources, settings.resample_source, seed, store.meta.max_length)
    if settings.resample_target is not None:
        seed = random_key(settings.seed, "sub-words", cursor.epoch, cursor.index, "target")
        targets = _resampled(targets, settings.resample_target, seed, store.meta.max_length)
    return collate(
        list(zip(sources, targets, strict=True)),
        pad_id=settings.pad_id,
        bos_id=settings.bos_id,
        eos_id=settings.eos_id,
        indices=indices,
    )


def _resampled(sentences: Sequence[Ids], resample: Resample, seed: int, max_length: int) -> list[Ids]:
    """Sentences cut into other sub-words; one that would become too long for the model stays as it is."""
    stored = [[int(token) for token in sentence] for sentence in sentences]
    sampled = resample(stored, seed)
    return [new if 0 < len(new) <= max_length else old for old, new in zip(stored, sampled, strict=True)]
