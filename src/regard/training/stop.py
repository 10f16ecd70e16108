"""Being asked to stop: the first SIGTERM or Ctrl-C ends after the step with the state saved, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Listens while it is entered; the loop looks at `signal_number` between two steps."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._before: dict[int, Any] = {}
        self._listener: _Listener | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only there may a signal be listened to
            self._before = {number: signal.signal(number, self._heard) for number in _SIGNALS}
            self._listener = _Listener()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._listener is not None:
            self._listener.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.signal_number is not None:
            _end(number)
        self.signal_number = number


class _Listener:
    """Ends the process at the second signal, even while Python waits for a long call of torch's.

    A handler of Python's runs only between two of its own instructions, and once for two signals that came meanwhile.
    So each signal's number goes into a pipe, and a thread reads there.
    """

    def __init__(self) -> None:
        self._out, self._in = os.pipe()
        os.set_blocking(self._in, False)
        self._before = signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="regard-stop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        signal.set_wakeup_fd(self._before)
        os.write(self._in, b"\0")
        self._thread.join()
        os.close(self._out)
        os.close(self._in)

    def _listen(self) -> None:
        n_heard = 0
        while number := os.read(self._out, 1)[0]:
            n_heard += number in _SIGNALS
            if n_heard == 2:
                _end(number)


def _end(number: int) -> NoReturn:
    os._exit(128 + number)  # at once; a save that is under way leaves the old state
