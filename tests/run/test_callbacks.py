"""EventFanOut sends every event to the journal, the report page and the callbacks."""

from typing import Any

from regard.run.callbacks import Callbacks, EventFanOut


class Recorder(Callbacks):
    """Records calls, as callbacks, as a journal and as a report page."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]]) -> None:
        self._name, self._calls = name, calls

    def on_progress(self, stage: str, done: int, total: int | None) -> None:
        self._calls.append((self._name, stage, done, total))

    def on_event(self, event: str, **fields: Any) -> None:
        self._calls.append((self._name, event, fields))

    record = event = on_event


def test_events_before_the_journal_is_open_are_recorded_later_and_in_order() -> None:
    calls: list[tuple[Any, ...]] = []
    callbacks, journal, page = (Recorder(name, calls) for name in ("callbacks", "journal", "page"))
    events = EventFanOut(callbacks)
    events.on_progress("encoding", 1, None)
    events.on_event("plan", steps=3)
    assert calls == [("callbacks", "encoding", 1, None), ("callbacks", "plan", {"steps": 3})]
    calls.clear()
    events.attach(journal, page)  # type: ignore[arg-type]
    assert calls == [("journal", "plan", {"flush": False, "steps": 3}), ("page", "plan", {"steps": 3})]
    calls.clear()
    events.on_event("save", flush=True, step=1)
    assert calls == [
        ("journal", "save", {"flush": True, "step": 1}),
        ("page", "save", {"step": 1}),
        ("callbacks", "save", {"step": 1}),
    ]
