import threading
from collections.abc import Iterator
from itertools import count
from time import monotonic, sleep

import pytest

from regard.data import prefetch


def prefetch_threads() -> int:
    return sum(thread.name == "regard-prefetch" for thread in threading.enumerate())


def wait_for(produced: list[int], value: int) -> None:
    deadline = monotonic() + 60
    while produced[-1] < value and monotonic() < deadline:
        sleep(0.001)


def counting(produced: list[int]) -> Iterator[int]:
    for value in count():
        produced.append(value)
        yield value


def test_items_come_in_order_until_the_end() -> None:
    assert list(prefetch(iter(range(100)), depth=3)) == list(range(100))
    assert prefetch_threads() == 0


def test_at_most_depth_items_are_prefetched() -> None:
    produced: list[int] = []
    items = prefetch(counting(produced), depth=3)
    assert next(items) == 0
    wait_for(produced, 4)
    sleep(0.05)
    assert produced[-1] == 4  # 0 is consumed, 1 to 3 are in the queue, and the thread waits with 4
    items.close()


def test_an_exception_is_raised_after_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("a damaged batch")

    items = prefetch(failing())
    assert next(items) == 1
    with pytest.raises(ValueError, match="a damaged batch"):
        next(items)
    assert prefetch_threads() == 0


@pytest.mark.parametrize("depth", [1, 4])
def test_closing_ends_the_thread(depth: int) -> None:
    items = prefetch(counting([]), depth=depth)
    next(items)
    assert prefetch_threads() == 1
    items.close()
    assert prefetch_threads() == 0


def test_dropping_the_generator_ends_the_thread() -> None:
    for item in prefetch(counting([])):
        if item == 5:
            break
    assert prefetch_threads() == 0


def test_nothing_runs_before_the_first_item_is_requested() -> None:
    produced: list[int] = []
    prefetch(counting(produced))
    assert produced == []
    assert prefetch_threads() == 0
