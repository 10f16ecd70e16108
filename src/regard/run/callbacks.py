"""Progress callbacks of a run, and the object that sends each event to everything that records or shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.report import LiveReport
    from regard.training import Journal


class Callbacks:
    """Override the methods that you need; this base class does nothing."""

    def on_progress(self, stage: str, done: int, total: int | None) -> None:
        """A stage of the preparation is at `done` of `total`; `total` is None where it is unknown."""

    def on_event(self, event: str, **fields: Any) -> None:
        """Every event of the journal, and two others: "report" (a live page was started) and "already-finished"."""


class EventFanOut(Callbacks):
    """Sends each event to the journal, the report page and the caller's callbacks, in this order.

    The journal is opened only when the run directory is known to be good. Until then events reach the callbacks alone;
    `attach` records them later.
    """

    def __init__(self, callbacks: Callbacks) -> None:
        self.callbacks = callbacks
        self._early: list[tuple[str, dict[str, Any]]] = []
        self._journal: Journal | None = None
        self._page: LiveReport | None = None

    def attach(self, journal: Journal, page: LiveReport) -> None:
        """Record the events so far, and all events from now on."""
        self._journal, self._page = journal, page
        for event, fields in self._early:
            self._record(event, False, fields)
        self._early.clear()

    def on_progress(self, stage: str, done: int, total: int | None) -> None:
        self.callbacks.on_progress(stage, done, total)

    def on_event(self, event: str, flush: bool = False, **fields: Any) -> None:
        self._record(event, flush, fields)
        self.callbacks.on_event(event, **fields)

    def _record(self, event: str, flush: bool, fields: dict[str, Any]) -> None:
        if self._journal is None or self._page is None:
            self._early.append((event, fields))
            return
        self._journal.record(event, flush=flush, **fields)
        self._page.event(event, **fields)
