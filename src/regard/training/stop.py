"""Stopping on signals: the first SIGINT or SIGTERM ends the training after its step and saves, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, NoReturn, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """A context manager that handles the signals; the loop checks `signal_number` after every step."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._before: dict[int, Any] = {}
        self._listener: _SecondSignal | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows signal handlers only there
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
            self._listener = _SecondSignal()
        return self

    def __exit__(self, *_: object) -> None:
        if self._listener is not None:
            self._listener.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def request(self, number: int) -> None:
        """Stop after the current step, as if this process had got the signal."""
        if self.signal_number is None:
            self.signal_number = number

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal_number is not None:
            _exit(number)
        self.signal_number = number


class _SecondSignal:
    """Ends the process at the second signal, even during a long call into PyTorch.

    Python runs a signal handler only between two bytecode instructions, and only once for two signals that arrive
    meanwhile. So the number of each signal is written into a pipe, and a thread reads from it.
    """

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="regard-stop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        signal.set_wakeup_fd(self._before)
        os.write(self._write_end, b"\0")
        self._thread.join()
        os.close(self._read_end)
        os.close(self._write_end)

    def _listen(self) -> None:
        n_signals = 0
        while number := os.read(self._read_end, 1)[0]:
            n_signals += number in _SIGNALS
            if n_signals == 2:
                _exit(number)


def _exit(number: int) -> NoReturn:
    os._exit(128 + number)  # at once; saving is atomic, so an unfinished save leaves the old state
