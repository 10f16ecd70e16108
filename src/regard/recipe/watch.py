"""Who looks on while a run is under way. This one sees everything and says nothing."""

from typing import Any


class Watcher:
    """Override what you want to see; the command line draws a bar."""

    def progress(self, stage: str, done: int, total: int | None) -> None:
        """The preparation is `done` of `total` (None: not known) through a stage."""

    def event(self, event: str, **fields: Any) -> None:
        """The same events that the journal records, and "plan" before the first step."""
