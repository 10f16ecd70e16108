"""The journal of a run: `journal.jsonl`, one event per line, append-only.

    {"event": "step", "at": "2025-06-01T12:00:00.123+00:00", "step": 40, "loss": 5.31}

Only the last line can be incomplete, when its writer was killed: readers ignore it and the next writer removes it.
"""

import json
import math
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from regard.errors import RunError


class Journal:
    """Appends events to a file: each is written at once, and flushed to the disk on request."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            self._remove_incomplete_line()
        except OSError as error:
            raise self._failed(error) from error

    def record(self, event: str, *, flush: bool = False, **fields: Any) -> None:
        """Appends an event with the current time; `flush` waits until it is on the disk (saves, resumes, the end)."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps(_to_json({"event": event, "at": at, **fields}), ensure_ascii=False, allow_nan=False)
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
        """Flushes and closes the file."""
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def _remove_incomplete_line(self) -> None:
        """Truncates the file after its last newline; a killed writer can leave part of a line."""
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
            hint="fix the cause and run the same command again; all saved checkpoints are intact",
        )


def _to_json(value: Any) -> Any:
    """Replaces NaN and infinity, which JSON does not have, by strings."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {str(key): _to_json(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_to_json(inner) for inner in value]
    return value


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
