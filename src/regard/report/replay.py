"""Replays the events of a journal into a summary of the run. Each event is processed once, also during the run.

A journal may be damaged or from an older version: invalid events and values are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isnan
from typing import Any, Generic, NamedTuple, TypeVar

from regard.metrics import read_measures
from regard.report.summary import RunSummary, SampleHistory, State, StepPoint, ValidationPoint

MAX_POINTS = 1_000
MAX_SAMPLES = 20
MAX_OUTPUTS = 100  # per sample
MAX_TEXTS = 10  # per sample
MAX_FINDINGS = 200
MAX_NOTES = 50
MAX_CHARACTERS = 1_000  # per text
MAX_NUMBER = 1e300  # JSON has no limit

_STEP_FIELDS = ("loss", "nll", "rate", "tokens_per_second", "elapsed_seconds")
_SIDE_FIELDS = ("name", "n_lines", "n_blank", "words", "characters")
_EVENT_FIELDS = ("event", "at", "path", "elapsed_seconds")

Event = Mapping[str, Any]
Point = TypeVar("Point")


class _Entry(NamedTuple, Generic[Point]):
    number: int  # of the point, counted from 0 over all added points
    step: int
    point: Point


class Downsampled(Generic[Point]):
    """At most `limit` points over steps: every 1st, 2nd, 4th, … point that was added, and always the last.

    A step that is added again (the run was resumed from an older checkpoint) replaces itself and everything after it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stride = 1
        self._entries: list[_Entry[Point]] = []

    def add(self, step: int, point: Point) -> None:
        self.remove_from(step)
        number = self._entries[-1].number + 1 if self._entries else 0
        if self._entries and self._entries[-1].number % self._stride:
            self._entries.pop()  # it was only kept because it was the last
        self._entries.append(_Entry(number, step, point))
        if len(self._entries) > self._limit:
            self._stride *= 2
            last = self._entries[-1]
            self._entries = [entry for entry in self._entries[:-1] if entry.number % self._stride == 0] + [last]

    def remove_from(self, step: int) -> None:
        """Remove the points at this step and later."""
        while self._entries and self._entries[-1].step >= step:
            self._entries.pop()

    def __iter__(self) -> Iterator[tuple[int, Point]]:
        return ((entry.step, entry.point) for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class Replay:
    """The state of a run after the events so far."""

    def __init__(self) -> None:
        self.finished = False
        self._plan: dict[str, Any] | None = None
        self._facts: dict[str, Any] | None = None
        self._steps: Downsampled[StepPoint] = Downsampled(MAX_POINTS)
        self._validations: Downsampled[ValidationPoint] = Downsampled(MAX_POINTS)
        self._samples: dict[tuple[tuple[str, str], ...], Downsampled[str]] = {}
        self._corpora: list[dict[str, Any]] = []
        self._findings: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._last: StepPoint | None = None
        self._n_steps: int | None = None
        self._since: tuple[int, float] | None = None  # first step since the last resume, and its time in seconds
        self._n_tokens = self._busy_seconds = 0.0
        self._started_at: str | None = None
        self._updated_at: str | None = None

    def add(self, event: Event) -> None:
        if isinstance(at := event.get("at"), str):
            self._started_at = self._started_at or at[:40]
            self._updated_at = at[:40]
        handler = getattr(self, f"_on_{event.get('event')}", None)
        if handler is not None:
            handler(event)

    def summary(
        self, *, name: str, state: State, recipe: dict[str, Any], facts: dict[str, Any] | None = None
    ) -> RunSummary:
        """The summary so far; `facts` are those of the model directory, if there is one."""
        return RunSummary(
            name=name,
            state=state,
            recipe=recipe,
            plan=self._plan,
            steps=tuple(point for _, point in self._steps),
            validations=tuple(point for _, point in self._validations),
            samples=tuple(
                SampleHistory(given=given, outputs=tuple(outputs))
                for given, outputs in self._samples.items()
                if len(outputs)
            ),
            corpora=tuple(self._corpora),
            findings=tuple(self._findings),
            notes=tuple(self._notes),
            speed=self._speed(),
            facts=facts if facts is not None else self._facts,
            n_steps=self._n_steps,
            eta_seconds=self._eta_seconds() if state == "running" else None,
            started_at=self._started_at,
            updated_at=self._updated_at,
        )

    def _on_step(self, event: Event) -> None:
        step = _natural(event.get("step"))
        if step is None:
            return
        point = StepPoint(step=step, **{name: number(event.get(name)) for name in _STEP_FIELDS})
        speed, seconds = point.tokens_per_second, point.elapsed_seconds
        self._remove_from(step)
        self._steps.add(step, point)
        self.finished, self._last = False, point
        self._n_steps = _natural(event.get("steps")) or self._n_steps
        n_tokens = number(event.get("n_tokens"))
        if n_tokens and speed:
            self._n_tokens += n_tokens
            self._busy_seconds += n_tokens / speed
        if self._since is None and seconds is not None:
            self._since = (step, seconds)

    def _on_validation(self, event: Event) -> None:
        step = _natural(event.get("step"))
        if step is None:
            return
        values = {measure.name: number(event.get(measure.name)) for measure in read_measures(self._plan)}
        metrics = {name: value for name, value in values.items() if value is not None}
        self._validations.add(step, ValidationPoint(step=step, metrics=metrics))
        samples = event.get("samples")
        for sample in samples[:MAX_SAMPLES] if isinstance(samples, list) else []:
            if _is_sample(sample):
                *given, (_, output) = ((_shorten(name), _shorten(text)) for name, text in sample.items())
                if (key := tuple(given)) in self._samples or len(self._samples) < MAX_SAMPLES:
                    self._samples.setdefault(key, Downsampled(MAX_OUTPUTS)).add(step, output)

    def _on_resume(self, event: Event) -> None:
        step = _natural(event.get("step"))
        if step is not None:
            self._remove_from(step + 1)
            self._since = None
            self._note(f"resumed after step {step:,}")

    def _on_examined(self, event: Event) -> None:
        report = event.get("report")
        if not isinstance(report, dict):
            return
        corpus = report.get("name")
        if all(isinstance(report.get(side), dict) for side in ("source", "target")):
            source, target = ({name: report[side].get(name) for name in _SIDE_FIELDS} for side in ("source", "target"))
            self._corpora.append({"n_pairs": number(report.get("n_pairs")), "source": source, "target": target})
            corpus = source["name"]
        findings = report.get("findings")
        for finding in findings if isinstance(findings, list | tuple) else []:
            if isinstance(finding, dict) and len(self._findings) < MAX_FINDINGS:
                self._findings.append({"corpus": corpus, **limit_sizes(finding)})

    def _on_plan(self, event: Event) -> None:
        self._plan = limit_sizes({name: value for name, value in event.items() if name not in ("event", "at")})
        self._n_steps = _natural(event.get("steps")) or self._n_steps

    def _on_finished(self, event: Event) -> None:
        self.finished = True
        self._facts = limit_sizes({name: value for name, value in event.items() if name not in _EVENT_FIELDS})

    def _on_refit(self, event: Event) -> None:
        steps, was = _natural(event.get("steps")), _natural(event.get("was"))
        if steps is not None and was is not None:
            self._n_steps = steps
            self._note(f"steps changed from {was:,} to {steps:,}, to fit the remaining time")

    def _on_warning(self, event: Event) -> None:
        self._note(f"warning: {event.get('message')}")

    def _on_skipped(self, event: Event) -> None:
        self._note(f"skipped {event.get('checkpoint')}: {event.get('reason')}")

    def _remove_from(self, step: int) -> None:
        """Remove this step and those after it: they are computed again."""
        self._steps.remove_from(step)
        self._validations.remove_from(step)
        for outputs in self._samples.values():
            outputs.remove_from(step)

    def _note(self, text: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.append(_shorten(text))

    def _speed(self) -> dict[str, float]:
        speed = {}
        if self._busy_seconds:
            speed["tokens_per_second"] = self._n_tokens / self._busy_seconds
        if self._last is not None and self._last.elapsed_seconds is not None:
            speed["elapsed_seconds"] = self._last.elapsed_seconds
        if (seconds := self._seconds_per_step()) is not None:
            speed["seconds_a_step"] = seconds
        return speed

    def _seconds_per_step(self) -> float | None:
        """Since the last resume, including validation and everything else between steps."""
        last, since = self._last, self._since
        if last is not None and last.elapsed_seconds is not None and since is not None and last.step > since[0]:
            return (last.elapsed_seconds - since[1]) / (last.step - since[0])
        return number((self._plan or {}).get("seconds_a_step"))

    def _eta_seconds(self) -> float | None:
        seconds, n_done = self._seconds_per_step(), self._last.step if self._last is not None else 0
        if seconds is None or self._n_steps is None:
            return None
        return max(0.0, (self._n_steps - n_done) * seconds)


def number(value: Any) -> float | None:
    """The value if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_NUMBER or isnan(value):
        return None
    return value


def _natural(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER else None


def _is_sample(sample: Any) -> bool:
    """Whether it is an input, the model's output and perhaps texts between them, by name."""
    return (
        isinstance(sample, dict)
        and 2 <= len(sample) <= MAX_TEXTS
        and all(isinstance(text, str) for text in sample.values())
    )


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…"


def limit_sizes(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values, with long texts and lists cut and invalid numbers replaced by None."""
    return {str(name): _limit_size(value) for name, value in list(values.items())[:50]}


def _limit_size(value: Any) -> Any:
    match value:
        case str():
            return _shorten(value)
        case dict():
            return limit_sizes(value)
        case list() | tuple():
            return [_limit_size(inner) for inner in value[:20]]
        case int() | float() if not isinstance(value, bool):
            return number(value)
    return value
