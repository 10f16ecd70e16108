"""Writes report.html during a run. An error here never stops the training."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from regard.durable import write_file
from regard.durable.temporary import discard, temporary_path
from regard.report.page import REFRESH_SECONDS, report_page
from regard.report.run_reader import RunReader
from regard.report.summary import State

REPORT_NAME = "report.html"

_MIN_SECONDS = 1.0  # between two pages, however quickly validations follow each other
_MAX_SHARE = 0.01  # of the training time spent on pages


def is_out_of_date(run: Path) -> bool:
    """Whether a finished run has no report, or one that is older than its model."""
    try:
        return (run / REPORT_NAME).stat().st_mtime_ns < (run / "model" / "config.json").stat().st_mtime_ns
    except OSError:
        return True


class LiveReport:
    """Receives every event of a run; writes the page at the end and, if `live`, every few seconds."""

    def __init__(self, run: Path, *, live: bool, warn: Callable[[str], None]) -> None:
        self._reader = RunReader(run)
        self.path = self._reader.directory / REPORT_NAME
        self._live, self._warn = live, warn
        self._replay = self._reader.replay()  # of earlier sessions, if the run is resumed
        self._next_at = float("-inf")
        self._failed = False

    def start(self) -> None:
        """Write the first page."""
        self._write("running")

    def event(self, event: str, **fields: Any) -> None:
        """Process an event, and write the page if it is due."""
        self._replay.add({"event": event, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields})
        if not self._live:
            return
        if event == "validation":  # new translations: wait at most a second, not five
            self._next_at -= REFRESH_SECONDS - _MIN_SECONDS
        if event in ("step", "validation") and perf_counter() >= self._next_at:
            self._write("running")

    def close(self) -> None:
        """Write the last page, of a finished or a stopped run."""
        self._write("stopped")

    def _write(self, state: State) -> None:
        started_at = perf_counter()
        try:
            summary = self._reader.summarise(self._replay, state)
            data = report_page(summary, reload=self._live).encode("utf-8", "backslashreplace")
            if state == "running":
                _replace(self.path, data)
            else:
                write_file(self.path, data)
        except Exception as error:  # a failed report must not stop hours of training
            if not self._failed:
                self._warn(f"cannot write the report: {getattr(error, 'message', error)}; training continues")
            self._failed = True
        now = perf_counter()
        self._next_at = now + max(REFRESH_SECONDS, (now - started_at) / _MAX_SHARE)


def _replace(path: Path, data: bytes) -> None:
    """Replace the file atomically, but without fsync: the next page follows in seconds."""
    temporary = temporary_path(path, "writing")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        discard(temporary)
