"""Computes a function of many inputs on all cores, in processes of its own.

The processes are started as commands: unlike those of `multiprocessing` they neither import the caller's main module
nor copy its threads. They end with this process, even if it is killed.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from regard.errors import RunError

T = TypeVar("T")
R = TypeVar("R")

_COMMAND = "from regard.processes import serve; serve()"


def n_cores() -> int:
    """The number of cores that this process may use, or of all cores where the system has no affinity (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ordered_map(function: Callable[[T], R], inputs: Iterable[T], n_processes: int) -> Iterator[R]:
    """The results in the order of the inputs, with only a few in memory. With one process, nothing is started.

    `function` is a function of a module, or a partial one; inputs and results are pickled,
    in pipes between this process and those that it has started; no file is ever unpickled.
    """
    if n_processes <= 1:
        yield from map(function, inputs)
        return
    with ExitStack() as stack:
        idle: SimpleQueue[_Process] = SimpleQueue()
        pool = ThreadPoolExecutor(n_processes, thread_name_prefix="regard-process")
        processes = [_Process(function) for _ in range(n_processes)]
        stack.callback(pool.shutdown, cancel_futures=True)
        for process in processes:
            idle.put(process)
            stack.callback(process.end)

        def call(value: T) -> Any:
            process = idle.get()
            try:
                return process.call(value)
            finally:
                idle.put(process)

        futures: deque[Future[R]] = deque()
        for value in inputs:
            futures.append(pool.submit(call, value))
            if len(futures) > 2 * n_processes:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()


class _Process:
    """A process that answers calls, one after the other."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        self._send(function)

    def call(self, value: Any) -> Any:
        assert self._process.stdout is not None
        self._send(value)
        try:
            succeeded, result = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            raise _ended() from error
        if not succeeded:
            raise result
        return result

    def end(self) -> None:
        """End the process, also in the middle of a call."""
        self._process.kill()
        self._process.communicate()

    def _send(self, value: Any) -> None:
        assert self._process.stdin is not None
        try:
            pickle.dump(value, self._process.stdin, protocol=5)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise _ended() from error


def _ended() -> RunError:
    return RunError(
        "a worker process ended unexpectedly", hint="the system may be out of memory; run the command again"
    )


def serve() -> None:
    """Answer calls on standard input until it is closed: the other process has ended, or needs no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the other process decides
    calls, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed does not get among the replies
    with suppress(EOFError, BrokenPipeError):
        function = pickle.load(calls)
        while True:
            value = pickle.load(calls)
            try:
                reply = (True, function(value))
            except Exception as error:
                reply = (False, error)
            pickle.dump(reply, replies, protocol=5)
            replies.flush()
