"""The next item is ready before it is asked for."""

import contextlib
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _End:
    """The last thing in the queue: why there is nothing more."""

    error: BaseException | None


@dataclass(frozen=True)
class _Item(Generic[T]):
    """One item of the iterator, told apart from the end."""

    value: T


def prefetch(iterator: Iterator[T], *, depth: int = 4) -> Generator[T, None, None]:
    """The same items, made by a thread of their own, at most `depth` of them ahead.

    What the iterator raises is raised here, in its turn. Closing this generator, or dropping it, ends the thread.
    """
    assert depth >= 1
    queue: Queue[_Item[T] | _End] = Queue(maxsize=depth)
    stopped = threading.Event()
    # daemon: a process that ends by an exception does not wait for data that nobody will read
    thread = threading.Thread(target=_fill, args=(iterator, queue, stopped), name="regard-prefetch", daemon=True)
    thread.start()
    try:
        while isinstance(item := queue.get(), _Item):
            yield item.value
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        # One put may be waiting for room; after it the thread sees `stopped` and puts nothing more.
        with contextlib.suppress(Empty):
            while True:
                queue.get_nowait()
        thread.join()


def _fill(iterator: Iterator[T], queue: "Queue[_Item[T] | _End]", stopped: threading.Event) -> None:
    """The thread's work: items into the queue, then why they ended."""
    error: BaseException | None = None
    try:
        for value in iterator:
            queue.put(_Item(value))
            if stopped.is_set():
                return
    except BaseException as raised:
        error = raised
    queue.put(_End(error))
