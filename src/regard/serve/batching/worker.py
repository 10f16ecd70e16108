"""A worker thread that can be monitored: whether it is alive, and for how long it has been busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Runs functions one at a time in a daemon thread: a stuck thread must not keep the process from ending.

    The thread starts with the first call, and again if an exception such as SystemExit has ended it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self.n_waiting = 0  # calls that have not finished
        self.busy_since: float | None = None
        self.ended_by: str | None = None  # type of the exception that ended the thread

    @property
    def busy_seconds(self) -> float:
        since = self.busy_since
        return 0.0 if since is None else monotonic() - since

    def submit(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Schedules a call. If the future is cancelled before the call starts, it never runs."""
        if self._thread is None or not self._thread.is_alive() or self.ended_by is not None:
            self.ended_by = self.busy_since = None
            self._thread = Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put((function, future))
        self.n_waiting += 1
        future.add_done_callback(self._on_done)
        return future

    def close(self) -> None:
        """Ends the thread after the calls that are already scheduled."""
        if self._thread is not None:
            self._calls.put(None)

    def join(self, seconds: float) -> bool:
        """Waits for the thread; returns whether it has ended."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _on_done(self, _: asyncio.Future[Any]) -> None:
        self.n_waiting -= 1

    def _run(self) -> None:
        while (scheduled := self._calls.get()) is not None:
            function, future = scheduled
            if future.cancelled():
                continue
            self.busy_since = monotonic()
            try:
                resolve = partial(future.set_result, function())
            except Exception as error:
                resolve = partial(future.set_exception, error)
            except BaseException as fatal:
                self.ended_by = type(fatal).__name__
                return
            self.busy_since = None
            with suppress(RuntimeError):  # the loop is closed: nothing awaits the result
                future.get_loop().call_soon_threadsafe(_unless_done, future, resolve)


def _unless_done(future: asyncio.Future[Any], resolve: Callable[[], None]) -> None:
    if not future.done():
        resolve()
