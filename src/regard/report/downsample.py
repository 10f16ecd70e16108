"""Points over steps, never more than so many, however long a run is."""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

Point = TypeVar("Point")


class _Entry(NamedTuple, Generic[Point]):
    number: int  # of the point, counted from 0 over all that came
    step: int
    point: Point


class Series(Generic[Point]):
    """Every 1st, 2nd, 4th, … point as it came, and always the first and the last one.

    A step that comes again (the run went on from an older checkpoint) replaces what came at it and after it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stride = 1
        self._entries: list[_Entry[Point]] = []

    def add(self, step: int, point: Point) -> None:
        self.cut(step)
        number = self._entries[-1].number + 1 if self._entries else 0
        if self._entries and self._entries[-1].number % self._stride:
            self._entries.pop()  # it was kept only as the last one
        self._entries.append(_Entry(number, step, point))
        if len(self._entries) > self._limit:
            self._stride *= 2
            last = self._entries[-1]
            self._entries = [entry for entry in self._entries[:-1] if entry.number % self._stride == 0] + [last]

    def cut(self, step: int) -> None:
        """Forget what came at this step or later."""
        while self._entries and self._entries[-1].step >= step:
            self._entries.pop()

    def __iter__(self) -> Iterator[tuple[int, Point]]:
        return ((entry.step, entry.point) for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)
