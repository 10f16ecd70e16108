"""A queue in front of CTranslate2's own, which is strictly first in, first out.

A translator gives the engine its next lines before it looks at the last ones. What it then searches again must not
wait until all of the next lines are translated, or the workers have nothing to do afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any


class Job:
    """One call of CTranslate2, which returns a future for each sentence."""

    def __init__(self, submit: Callable[[], list[Any]]) -> None:
        self._submit = submit
        self._futures: list[Any] | None = None  # None: not started
        self._results: list[Any] | None = None
        self._error: Exception | None = None  # from starting it, which another thread may have done
        self._lock = Lock()  # two threads must not use a future at the same time

    @property
    def is_started(self) -> bool:
        return self._futures is not None

    def start(self) -> None:
        try:
            self._futures = self._submit()
        except Exception as error:
            self._futures, self._error = [], error

    def is_done(self) -> bool:
        """Whether a started job is finished. Not while a thread waits for it: that thread will see it."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            assert self._futures is not None
            return self._results is not None or not self._futures or bool(self._futures[-1].done())
        finally:
            self._lock.release()

    def wait(self) -> list[Any]:
        """The results of a started job."""
        if self._error is not None:
            raise self._error
        with self._lock:
            if self._results is None:
                assert self._futures is not None
                self._results = [future.result() for future in self._futures]
            return self._results


class JobQueue:
    """Starts jobs in order, so that up to `max_running` run; an urgent job is started at once. Thread-safe."""

    def __init__(self, max_running: int) -> None:
        self._max_running = max_running
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._lock = Lock()

    def put(self, job: Job, *, urgent: bool = False) -> None:
        if urgent:
            job.start()
            return
        with self._lock:
            self._waiting.append(job)
            self._fill()

    def wait(self, job: Job) -> list[Any]:
        """The results of a job. Those before it are started, as are the next ones."""
        with self._lock:
            while not job.is_started:
                self._start_next()
        try:
            return job.wait()
        finally:
            with self._lock:
                self._fill()

    def clear(self) -> None:
        """Forget the jobs that have not started."""
        with self._lock:
            self._waiting.clear()

    def _fill(self) -> None:
        self._running = [job for job in self._running if not job.is_done()]
        while self._waiting and len(self._running) < self._max_running:
            self._start_next()

    def _start_next(self) -> None:
        job = self._waiting.popleft()
        job.start()
        self._running.append(job)
