"""Examples + order → updates for the training loop, from any position in the run.

The batches of all epochs form one endless sequence: those of epoch 0, then those of epoch 1, and so on. An update takes
the next `n_batches` of them. It may cross the end of an epoch, so nothing is dropped. A cursor is a position in the
sequence. Neither depends on how many processes share the batches of an update.

The epoch of a store of shards consists of windows, which are ordered one after the other.
"""

import contextlib
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from queue import Empty, Queue
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.data.batch import Batch, Collator, Examples, Place
from regard.data.order import BatchOrder, epoch_batches, fixed_batches
from regard.data.random_key import random_key
from regard.data.shards import ShardedStore
from regard.errors import DataError

T = TypeVar("T")

_ANY_LENGTH = 0.2  # share of the batches of a curriculum


@dataclass(frozen=True)
class Cursor:
    """A position in the sequence of batches: that of the next batch."""

    epoch: int = 0
    index: int = 0
    window: int = 0  # of the epoch; `index` counts from its beginning


@dataclass(frozen=True, kw_only=True)
class Loader:
    """What determines the batches of a run."""

    examples: Examples
    collate: Collator
    max_tokens: int  # per batch and side, including padding and one symbol per sequence
    seed: int
    n_batches: int = 1  # in one update
    weights: NDArray[np.floating] | None = None  # how often each example occurs in an epoch; None: once
    curriculum: int = 0  # steps in which the longest examples that are used grow to the longest that there are

    def updates(self, start: Cursor, step: int = 1) -> Iterator[tuple[list[Batch], Cursor]]:
        """The endless updates from step number `step` on, each with the cursor after it.

        Starting again from such a cursor gives the same updates as continuing.
        """
        cursor = start
        order = self.epoch_order(cursor.epoch, cursor.window)
        while True:
            update = []
            for part in range(self.n_batches):
                while cursor.index >= len(order):
                    cursor = self._next_window(cursor)
                    order = self.epoch_order(cursor.epoch, cursor.window)
                place = Place(self.seed, step, cursor.epoch, cursor.window << 40 | cursor.index, part)
                update.append(self.collate(self._choose(order, cursor.index, place), place))
                cursor = replace(cursor, index=cursor.index + 1)
            yield update, cursor
            step += 1

    def _next_window(self, cursor: Cursor) -> Cursor:
        n_windows = self.examples.n_windows if isinstance(self.examples, ShardedStore) else 1
        last = cursor.window + 1 == n_windows
        return Cursor(cursor.epoch + last, 0, 0 if last else cursor.window + 1)

    def _choose(self, order: BatchOrder, index: int, place: Place) -> NDArray[np.integer]:
        """The next batch of the epoch; during the curriculum, a random one among those that are short enough.

        A few are of any length (Kaiser and Sutskever, 2016, section 2.2).
        """
        assert place.step is not None
        rng = np.random.Generator(np.random.PCG64(place.key("curriculum")))
        if place.step > self.curriculum or rng.random() < _ANY_LENGTH:
            return order[index]
        widths = order.widths
        limit = widths.min() + (int(widths.max()) - int(widths.min())) * place.step / self.curriculum
        return order[int(rng.choice(np.flatnonzero(widths <= limit)))]

    def batches_per_epoch(self) -> int:
        """Of an epoch; of a store of several windows, about."""
        examples, n_batches = self.examples, len(self.epoch_order(0))
        if not isinstance(examples, ShardedStore) or examples.n_windows == 1:
            return n_batches
        return round(n_batches * len(examples) / max(1, len(examples.window(self.seed, 0, 0).numbers)))

    def epoch_order(self, epoch: int, window: int = 0) -> BatchOrder:
        """The batches of one epoch, or of one of its windows."""
        if isinstance(self.examples, ShardedStore):
            pairs, seed = self.examples.window(self.seed, epoch, window), random_key(self.seed, "window", window)
            sizes = {"max_tokens": self.max_tokens, "seed": seed, "epoch": epoch}
            order = epoch_batches(*pairs.lengths, **sizes, weights=pairs.weights)
            return replace(order, pairs=pairs.numbers[order.pairs])
        if self.weights is not None and not self.weights.any():
            raise DataError("all corpora have weight 0", hint="set the weight of at least one corpus above 0")
        lengths = self.examples.lengths
        return epoch_batches(*lengths, max_tokens=self.max_tokens, seed=self.seed, epoch=epoch, weights=self.weights)


def fixed_order(examples: Examples, collate: Collator, max_tokens: int) -> Iterator[Batch]:
    """Every example exactly once, in the same batches every time: for validation."""
    order = fixed_batches(*examples.lengths, max_tokens=max_tokens)
    return (collate(order[i], Place(index=i)) for i in range(len(order)))


def prefetch(iterator: Iterator[T], *, depth: int = 4) -> Generator[T, None, None]:
    """The items of an iterator, produced by a thread at most `depth` items ahead.

    Exceptions of the iterator are raised here. Closing or dropping this generator ends the thread.
    """
    assert depth >= 1
    queue: Queue[tuple[T] | BaseException | None] = Queue(maxsize=depth)  # an item, then what ended the iterator
    stopped = threading.Event()
    # daemon: a process that ends with an exception does not wait for it
    thread = threading.Thread(target=_fill, args=(iterator, queue, stopped), name="regard-prefetch", daemon=True)
    thread.start()
    try:
        while isinstance(entry := queue.get(), tuple):
            yield entry[0]
        if entry is not None:
            raise entry
    finally:
        stopped.set()
        # The thread may be waiting for space in the queue; after that put it sees `stopped` and ends.
        with contextlib.suppress(Empty):
            while True:
                queue.get_nowait()
        thread.join()


def _fill(iterator: Iterator[T], queue: "Queue[tuple[T] | BaseException | None]", stopped: threading.Event) -> None:
    """Put all items into the queue, then the exception that ended the iterator, or None."""
    error: BaseException | None = None
    try:
        for value in iterator:
            queue.put((value,))
            if stopped.is_set():
                return
    except BaseException as raised:
        error = raised
    queue.put(error)
