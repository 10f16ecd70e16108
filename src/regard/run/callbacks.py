"""Who looks on while a run is under way. This one sees everything and says nothing."""

from typing import Any


class Watcher:
    """Override what you want to see; the command line draws a bar."""

    def progress(self, stage: str, done: int, total: int | None) -> None:
        """The preparation is `done` of `total` (None: not known) through a stage."""

    def event(self, event: str, **fields: Any) -> None:
        """The same events that the journal records; "report" when a live page is there; "already-finished"."""


class Remembering(Watcher):
    """Passes everything on, and keeps the events: what happens before a run has begun goes into its journal later."""

    def __init__(self, watcher: Watcher) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._watcher = watcher

    def progress(self, stage: str, done: int, total: int | None) -> None:
        self._watcher.progress(stage, done, total)

    def event(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))
        self._watcher.event(event, **fields)
