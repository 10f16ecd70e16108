"""A thread for work that takes long, of which one can tell whether it is still alive and since when it is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Job(Generic[T]):
    work: Callable[[], T]
    answer: asyncio.Future[T]
    loop: asyncio.AbstractEventLoop


class WorkThread:
    """Runs one thing after the other. A daemon: a thread that is stuck must not keep the process from ending."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self.busy_since: float | None = None
        self.ended_by: str | None = None  # the kind of error that killed it
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and self.ended_by is None

    @property
    def busy_seconds(self) -> float:
        since = self.busy_since
        return 0.0 if since is None else monotonic() - since

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """The work's value, in time. Work whose future was cancelled before its turn is never begun."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work, answer, loop))
        return answer

    def close(self) -> None:
        """End after what was submitted."""
        self._jobs.put(None)

    def join(self, seconds: float) -> bool:
        """Whether it ended within that time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if job.answer.cancelled():
                continue
            self.busy_since = monotonic()
            value, error = None, None
            try:
                value = job.work()
            except Exception as failed:
                error = failed
            except BaseException as fatal:
                self.ended_by = type(fatal).__name__
                return
            self.busy_since = None
            with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
                job.loop.call_soon_threadsafe(_settle, job.answer, value, error)


def _settle(answer: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)
