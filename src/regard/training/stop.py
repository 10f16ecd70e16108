"""Being asked to stop: the first SIGTERM or Ctrl-C ends after the step with the state saved, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Listens while it is entered; the loop looks at `signal_number` between two steps."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only there may a signal be listened to
            self._before = {number: signal.signal(number, self._heard) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.signal_number is not None:
            os._exit(128 + number)  # at once; a save that is under way leaves the old state
        self.signal_number = number
