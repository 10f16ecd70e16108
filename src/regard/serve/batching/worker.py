"""A worker thread that can be monitored: whether it is alive, and for how long it has been busy."""

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
class _Call(Generic[T]):
    function: Callable[[], T]
    future: asyncio.Future[T]
    loop: asyncio.AbstractEventLoop


class Worker:
    """Runs functions one at a time in a daemon thread: a stuck thread must not keep the process from ending."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call[Any] | None] = SimpleQueue()
        self.busy_since: float | None = None
        self.ended_by: str | None = None  # type of the exception that ended the thread
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and self.ended_by is None

    @property
    def busy_seconds(self) -> float:
        since = self.busy_since
        return 0.0 if since is None else monotonic() - since

    def submit(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Schedules a call. If the future is cancelled before the call starts, it never runs."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put(_Call(function, future, loop))
        return future

    def close(self) -> None:
        """Ends the thread after the calls that are already scheduled."""
        self._calls.put(None)

    def join(self, seconds: float) -> bool:
        """Waits for the thread; returns whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            if call.future.cancelled():
                continue
            self.busy_since = monotonic()
            value, error = None, None
            try:
                value = call.function()
            except Exception as exception:
                error = exception
            except BaseException as fatal:
                self.ended_by = type(fatal).__name__
                return
            self.busy_since = None
            with suppress(RuntimeError):  # the loop is closed: nothing awaits the result
                call.loop.call_soon_threadsafe(_resolve, call.future, value, error)


def _resolve(future: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
