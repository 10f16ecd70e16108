"""Store + order → updates for the training loop, from any position in the run.

The batches of all epochs form one endless sequence: those of epoch 0, then those of epoch 1, and so on. An update takes
the next `accumulate × world_size` batches, and each rank every world_size-th of these. An update may cross the end of
an epoch, so nothing is dropped, and every rank has equally many batches. A cursor is a position in the sequence: it is
the same for every rank and any number of ranks.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.data.batch import Batch, Ids, collate
from regard.data.order import BatchOrder, epoch_batches, fixed_batches
from regard.data.random_key import random_key
from regard.data.store import TokenStore
from regard.errors import DataError

T = TypeVar("T")
Resample = Callable[[list[list[int]], int], list[list[int]]]  # (sentences, seed) → the same in other sub-words


@dataclass(frozen=True)
class Cursor:
    """A position in the sequence of batches: that of the next batch."""

    epoch: int = 0
    index: int = 0


@dataclass(frozen=True, kw_only=True)
class LoaderSettings:
    """What determines the batches of a rank, apart from the store."""

    max_tokens: int  # per batch and side, including padding and eos
    seed: int
    pad_id: int
    bos_id: int
    eos_id: int
    accumulate: int = 1  # batches per rank in one update
    rank: int = 0
    world_size: int = 1
    corpus_weights: tuple[float, ...] | None = None  # how often each corpus occurs in an epoch
    resample_source: Resample | None = None  # sub-word sampling; None uses the stored ids
    resample_target: Resample | None = None


def updates(store: TokenStore, settings: LoaderSettings, start: Cursor) -> Iterator[tuple[list[Batch], Cursor]]:
    """The endless updates of this rank, each with the cursor after it.

    Starting again from such a cursor gives the same updates as continuing.
    """
    cursor = start
    order = epoch_order(store, settings, cursor.epoch)
    while True:
        update = []
        for number in range(settings.accumulate * settings.world_size):
            while cursor.index >= len(order):
                cursor = Cursor(cursor.epoch + 1, 0)
                order = epoch_order(store, settings, cursor.epoch)
            if number % settings.world_size == settings.rank:
                update.append(_load(store, settings, cursor, order[cursor.index]))
            cursor = Cursor(cursor.epoch, cursor.index + 1)
        yield update, cursor


def epoch_order(store: TokenStore, settings: LoaderSettings, epoch: int) -> BatchOrder:
    """The batches of one epoch, over all ranks."""
    weights = None
    if settings.corpus_weights is not None:
        weights = np.array(settings.corpus_weights, dtype=np.float32)[store.corpora]
        if not weights.any():
            raise DataError("all corpora have weight 0", hint="set the weight of at least one corpus above 0")
    return epoch_batches(
        *store.lengths, max_tokens=settings.max_tokens, seed=settings.seed, epoch=epoch, weights=weights
    )


def validation_batches(store: TokenStore, *, max_tokens: int, pad_id: int, bos_id: int, eos_id: int) -> Iterator[Batch]:
    """Every pair of a store exactly once, in the same batches every time."""
    order = fixed_batches(*store.lengths, max_tokens=max_tokens)
    for i in range(len(order)):
        pairs = zip(*store.gather(order[i]), strict=True)
        yield collate(list(pairs), pad_id=pad_id, bos_id=bos_id, eos_id=eos_id, indices=order[i])


def _load(store: TokenStore, settings: LoaderSettings, cursor: Cursor, indices: NDArray[np.integer]) -> Batch:
    """The batch at a cursor, with sub-word sampling if the settings have it."""
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
    """Sentences in other sub-words; those that would become too long for the model are unchanged."""
    stored = [[int(token) for token in sentence] for sentence in sentences]
    sampled = resample(stored, seed)
    return [new if 0 < len(new) <= max_length else old for old, new in zip(stored, sampled, strict=True)]


@dataclass(frozen=True)
class _End:
    """The last entry of the queue, with the exception that ended the iterator, if any."""

    error: BaseException | None


@dataclass(frozen=True)
class _Prefetched(Generic[T]):
    """An item of the iterator."""

    value: T


def prefetch(iterator: Iterator[T], *, depth: int = 4) -> Generator[T, None, None]:
    """The items of an iterator, produced by a thread at most `depth` items ahead.

    Exceptions of the iterator are raised here. Closing or dropping this generator ends the thread.
    """
    assert depth >= 1
    queue: Queue[_Prefetched[T] | _End] = Queue(maxsize=depth)
    stopped = threading.Event()
    # daemon: a process that ends with an exception does not wait for it
    thread = threading.Thread(target=_fill, args=(iterator, queue, stopped), name="regard-prefetch", daemon=True)
    thread.start()
    try:
        while isinstance(item := queue.get(), _Prefetched):
            yield item.value
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        # The thread may be waiting for space in the queue; after that put it sees `stopped` and ends.
        with contextlib.suppress(Empty):
            while True:
                queue.get_nowait()
        thread.join()


def _fill(iterator: Iterator[T], queue: "Queue[_Prefetched[T] | _End]", stopped: threading.Event) -> None:
    """Put all items into the queue, then the end."""
    error: BaseException | None = None
    try:
        for value in iterator:
            queue.put(_Prefetched(value))
            if stopped.is_set():
                return
    except BaseException as raised:
        error = raised
    queue.put(_End(error))
