"""Keeping report.html while a run is under way. Whatever goes wrong here, the training goes on."""

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

_SOONEST_SECONDS = 1.0  # between two pages, even where validations follow each other quickly
_LARGEST_SHARE = 0.01  # of the time that may go into pages


def write_report(run: str | Path) -> Path:
    """Write `report.html` of a run as it stands on the disk."""
    reader = RunReader(run)
    path = reader.directory / REPORT_NAME
    write_file(path, _encoded(report_page(reader.read())))
    return path


def is_out_of_date(run: Path) -> bool:
    """Whether a finished run has no report, or one from before its end."""
    try:
        return (run / REPORT_NAME).stat().st_mtime_ns < (run / "model" / "config.json").stat().st_mtime_ns
    except OSError:
        return True


class LiveReport:
    """Is told every event of a run that has begun; writes the page at its end and, if `live`, every few seconds."""

    def __init__(self, run: Path, *, live: bool, warn: Callable[[str], None]) -> None:
        self._reader = RunReader(run)
        self.path = self._reader.directory / REPORT_NAME
        self._live, self._warn = live, warn
        self._chronicle = self._reader.chronicle()  # of the run so far, when it is gone on with
        self._next_at = float("-inf")
        self._failed = False

    def begin(self) -> None:
        """The first page."""
        self._write("running")

    def event(self, event: str, **fields: Any) -> None:
        """Take it in, and show it when it is time."""
        self._chronicle.add({"event": event, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields})
        if not self._live:
            return
        if event == "validation":  # there is something to see: not later than a second after the last page
            self._next_at -= REFRESH_SECONDS - _SOONEST_SECONDS
        if event in ("step", "validation") and perf_counter() >= self._next_at:
            self._write("running")

    def close(self) -> None:
        """The last page; the run has finished, or was stopped."""
        self._write("stopped")

    def _write(self, state: State) -> None:
        started_at = perf_counter()
        try:
            story = self._reader.told(self._chronicle, state)
            data = _encoded(report_page(story, reloads=self._live))
            if state == "running":
                _replace(self.path, data)
            else:
                write_file(self.path, data)
        except Exception as error:  # hours of training are worth more than their picture
            if not self._failed:
                self._warn(f"no report: {getattr(error, 'message', error)}; the training is not touched by this")
            self._failed = True
        now = perf_counter()
        self._next_at = now + max(REFRESH_SECONDS, (now - started_at) / _LARGEST_SHARE)


def _replace(path: Path, data: bytes) -> None:
    """In one move, but without waiting for the disk: the next page comes in seconds."""
    aside = temporary_path(path, "writing")
    try:
        aside.write_bytes(data)
        aside.replace(path)
    finally:
        discard(aside)


def _encoded(page: str) -> bytes:
    return page.encode("utf-8", "backslashreplace")
