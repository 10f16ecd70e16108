"""From events to a story. Each event is taken in once, so that a run's page can follow it at no cost.

A journal may be of an older version, or damaged: whatever is not as it should be is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, isnan
from typing import Any

from regard.report.downsample import Series
from regard.report.summary import RunStory, SampleStory, State, StepPoint, ValidationPoint

MAX_POINTS = 1_000
MAX_SAMPLES = 20
MAX_TRANSLATIONS = 100  # of a sample
MAX_FINDINGS = 200
MAX_NOTES = 50
MAX_CHARACTERS = 1_000  # of any text
MAX_NUMBER = 1e300  # JSON has no largest one

_LARGEST_EXPONENT = 700.0
_SIDE = ("name", "n_lines", "n_blank", "words", "characters")
_NOT_FACTS = ("event", "at", "path", "elapsed_seconds")

Event = Mapping[str, Any]


class Chronicle:
    """What the events of a run amount to so far."""

    def __init__(self) -> None:
        self.finished = False
        self._plan: dict[str, Any] | None = None
        self._facts: dict[str, Any] | None = None
        self._steps: Series[StepPoint] = Series(MAX_POINTS)
        self._validations: Series[ValidationPoint] = Series(MAX_POINTS)
        self._samples: dict[tuple[str, str], Series[str]] = {}
        self._corpora: list[dict[str, Any]] = []
        self._findings: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._last: StepPoint | None = None
        self._n_steps: int | None = None
        self._since: tuple[int, float] | None = None  # step and seconds where this stretch of the run began
        self._n_tokens = self._busy_seconds = 0.0
        self._started_at: str | None = None
        self._updated_at: str | None = None

    def add(self, event: Event) -> None:
        """Take one event in."""
        if isinstance(at := event.get("at"), str):
            self._started_at = self._started_at or at[:40]
            self._updated_at = at[:40]
        handler = getattr(self, f"_on_{event.get('event')}", None)
        if handler is not None:
            handler(event)

    def story(
        self, *, name: str, state: State, recipe: dict[str, Any], facts: dict[str, Any] | None = None
    ) -> RunStory:
        """All of it as it stands; `facts` are the model directory's, when there is one."""
        return RunStory(
            name=name,
            state=state,
            recipe=recipe,
            plan=self._plan,
            steps=tuple(point for _, point in self._steps),
            validations=tuple(point for _, point in self._validations),
            samples=tuple(
                SampleStory(source=source, reference=reference, translations=tuple(series))
                for (source, reference), series in self._samples.items()
                if len(series)
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
        step, seconds = _whole(event.get("step")), number(event.get("elapsed_seconds"))
        if step is None:
            return
        nll, speed = number(event.get("nll")), number(event.get("tokens_per_second"))
        point = StepPoint(
            step=step,
            loss=number(event.get("loss")),
            perplexity=None if nll is None else exp(min(nll, _LARGEST_EXPONENT)),
            rate=number(event.get("rate")),
            tokens_per_second=speed,
            elapsed_seconds=seconds,
        )
        self._cut(step)
        self._steps.add(step, point)
        self.finished, self._last = False, point
        self._n_steps = _whole(event.get("steps")) or self._n_steps
        n_tokens = number(event.get("n_tokens"))
        if n_tokens and speed:
            self._n_tokens += n_tokens
            self._busy_seconds += n_tokens / speed
        if self._since is None and seconds is not None:
            self._since = (step, seconds)

    def _on_validation(self, event: Event) -> None:
        step = _whole(event.get("step"))
        if step is None:
            return
        names = ("loss", "perplexity", "accuracy", "bleu", "chrf")
        values = {name: number(event.get(name)) for name in names}
        self._validations.add(step, ValidationPoint(step=step, **values))
        samples = event.get("samples")
        for sample in samples[:MAX_SAMPLES] if isinstance(samples, list) else []:
            match sample:
                case {"source": str(source), "reference": str(reference), "translation": str(translation)}:
                    key = (_short(source), _short(reference))
                    if key in self._samples or len(self._samples) < MAX_SAMPLES:
                        self._samples.setdefault(key, Series(MAX_TRANSLATIONS)).add(step, _short(translation))

    def _on_resume(self, event: Event) -> None:
        step = _whole(event.get("step"))
        if step is not None:
            self._cut(step + 1)
            self._since = None
            self._note(f"went on after step {step:,}")

    def _on_examined(self, event: Event) -> None:
        report = event.get("report")
        if not isinstance(report, dict) or not all(isinstance(report.get(side), dict) for side in ("source", "target")):
            return
        source, target = ({name: report[side].get(name) for name in _SIDE} for side in ("source", "target"))
        self._corpora.append({"n_pairs": number(report.get("n_pairs")), "source": source, "target": target})
        findings = report.get("findings")
        for finding in findings if isinstance(findings, list | tuple) else []:
            if isinstance(finding, dict) and len(self._findings) < MAX_FINDINGS:
                self._findings.append({"corpus": source["name"], **bounded_values(finding)})

    def _on_plan(self, event: Event) -> None:
        self._plan = bounded_values({name: value for name, value in event.items() if name not in ("event", "at")})
        self._n_steps = _whole(event.get("steps")) or self._n_steps

    def _on_finished(self, event: Event) -> None:
        self.finished = True
        self._facts = bounded_values({name: value for name, value in event.items() if name not in _NOT_FACTS})

    def _on_refit(self, event: Event) -> None:
        steps, was = _whole(event.get("steps")), _whole(event.get("was"))
        if steps is not None and was is not None:
            self._n_steps = steps
            self._note(f"fitted to the time that was left: {steps:,} steps in place of {was:,}")

    def _on_warning(self, event: Event) -> None:
        self._note(f"warning: {event.get('message')}")

    def _on_skipped(self, event: Event) -> None:
        self._note(f"skipped {event.get('checkpoint')}: {event.get('reason')}")

    def _cut(self, step: int) -> None:
        """A step is taken again: what was told of it and of those after it is no longer true."""
        self._steps.cut(step)
        self._validations.cut(step)
        for translations in self._samples.values():
            translations.cut(step)

    def _note(self, text: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.append(_short(text))

    def _speed(self) -> dict[str, float]:
        found = {}
        if self._busy_seconds:
            found["tokens_per_second"] = self._n_tokens / self._busy_seconds
        if self._last is not None and self._last.elapsed_seconds is not None:
            found["elapsed_seconds"] = self._last.elapsed_seconds
        if (seconds := self._seconds_a_step()) is not None:
            found["seconds_a_step"] = seconds
        return found

    def _seconds_a_step(self) -> float | None:
        """Of this stretch of the run, with all that goes on between the steps."""
        last, since = self._last, self._since
        if last is not None and last.elapsed_seconds is not None and since is not None and last.step > since[0]:
            return (last.elapsed_seconds - since[1]) / (last.step - since[0])
        return number((self._plan or {}).get("seconds_a_step"))

    def _eta_seconds(self) -> float | None:
        seconds, done = self._seconds_a_step(), self._last.step if self._last is not None else 0
        if seconds is None or self._n_steps is None:
            return None
        return max(0.0, (self._n_steps - done) * seconds)


def number(value: Any) -> float | None:
    """A number that can be reckoned with, or None for whatever else is there."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_NUMBER or isnan(value):
        return None
    return value


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER else None


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…"


def bounded_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON's values, as far as they are of a reasonable size, and without numbers that are none."""
    return {str(name): _bounded(value) for name, value in list(values.items())[:50]}


def _bounded(value: Any) -> Any:
    match value:
        case str():
            return _short(value)
        case dict():
            return bounded_values(value)
        case list() | tuple():
            return [_bounded(inner) for inner in value[:20]]
        case int() | float() if not isinstance(value, bool):
            return number(value)
    return value
