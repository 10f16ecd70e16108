"""The journal of a run: `journal.jsonl`, one event a line, only ever appended to.

    {"event": "step", "at": "2025-06-01T12:00:00.123+00:00", "step": 40, "loss": 5.31}

A line is complete or it is the last one: a writer killed in the middle of a line leaves a torn tail, which readers
pass over and the next writer cuts off.
"""

import json
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from regard.durable import open_regular_file
from regard.errors import RunError


class Journal:
    """Appends events to a file; each is handed to the system at once, and flushed to the disk when asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            self._mend()
        except OSError as error:
            raise self._failed(error) from error

    def record(self, event: str, *, flush: bool = False, **fields: Any) -> None:
        """Append one event with the time; `flush` waits until the disk has it (saves, resumes, the end)."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps(_plain({"event": event, "at": at, **fields}), ensure_ascii=False, allow_nan=False)
        size = os.fstat(self._descriptor).st_size
        try:
            _write_all(self._descriptor, line.encode("utf-8", "backslashreplace") + b"\n")
            if flush:
                os.fsync(self._descriptor)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise self._failed(error) from error

    def close(self) -> None:
        """Flush and close."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                os.fsync(descriptor)
            except OSError as error:
                raise self._failed(error) from error
            finally:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _mend(self) -> None:
        """Cut off what follows the last line end: half a line, left by a writer that was killed."""
        end = size = os.fstat(self._descriptor).st_size
        while end > 0:
            start = max(0, end - 4096)
            last = os.pread(self._descriptor, end - start, start).rfind(b"\n")
            if last >= 0:
                end = start + last + 1
                break
            end = start
        if end < size:
            os.ftruncate(self._descriptor, end)

    def _failed(self, error: OSError) -> RunError:
        return RunError(
            f"could not write {self.path}: {(error.strerror or str(error)).lower()}",
            hint="mend that, then run the same command again; what was saved before is untouched",
        )


def events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a journal in their order, without a torn last line; a bad line elsewhere is an error."""
    with open_regular_file(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                event = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise RunError(f"{path}:{number} is not an event: {error}") from error
            if not isinstance(event, dict):
                raise RunError(f"{path}:{number} is not an event: it is no JSON object")
            yield event


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are written as the words for them."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
    return value


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
