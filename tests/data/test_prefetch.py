import threading
from collections.abc import Iterator
from itertools import count
from time import monotonic, sleep

import pytest

from regard.data import prefetch


def prefetch_threads() -> int:
    return sum(thread.name == "regard-prefetch" for thread in threading.enumerate())


def wait_for(reached: list[int], value: int) -> None:
    deadline = monotonic() + 5
    while reached[-1] < value and monotonic() < deadline:
        sleep(0.001)


def counting(made: list[int]) -> Iterator[int]:
    for value in count():
        made.append(value)
        yield value


def test_items_come_in_order_and_the_end_is_passed_on() -> None:
    assert list(prefetch(iter(range(100)), depth=3)) == list(range(100))
    assert prefetch_threads() == 0


def test_the_next_item_is_ready_before_it_is_asked_for_and_no_more_than_depth() -> None:
    made: list[int] = []
    items = prefetch(counting(made), depth=3)
    assert next(items) == 0
    wait_for(made, 4)
    sleep(0.05)
    assert made[-1] == 4  # three in the queue, one in the hand of the thread
    items.close()


def test_an_error_reaches_the_consumer_after_the_items_before_it() -> None:
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


def test_nothing_runs_before_the_first_item_is_asked_for() -> None:
    made: list[int] = []
    prefetch(counting(made))
    assert made == []
    assert prefetch_threads() == 0
