"""The display of a training on stderr: a progress bar on a terminal, plain lines otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from time import perf_counter
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from regard.report.wording import duration
from regard.run import Callbacks
from regard.training import Measure
from regard.training.metrics import FORMER_MEASURES, read_measures

_SECONDS_BETWEEN_LINES = 10.0


class TrainingDisplay(Callbacks):
    """A progress bar, with permanent lines for validations and other events."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._live = self._console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[eta]}"),
            console=self._console,
            transient=True,
            disable=not self._live,
        )
        self._task: TaskID | None = None
        self._stage = ""
        self._printed_at = float("-inf")
        self._first: tuple[int, float] | None = None  # step and time of the first step in this process
        self._speed = 0.0  # target tokens per second, smoothed
        self._budget_seconds: float | None = None
        self._unit = "tokens"
        self._measures: Sequence[Measure] = FORMER_MEASURES

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def print(self, text: str) -> None:
        """Print a permanent line."""
        self._console.print(text, markup=False)

    def on_progress(self, stage: str, done: int, total: int | None) -> None:
        if stage != self._stage:
            self._stage = stage
            if not self._live:
                self.print(f"{stage} …")
            self._replace_task(stage, total)
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total)

    def on_event(self, event: str, **fields: Any) -> None:
        handler = getattr(self, "_on_" + event.replace("-", "_"), None)
        if handler is not None:
            handler(**fields)

    def _replace_task(self, description: str, total: int | None) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(description, total=total, numbers="", eta="")

    def _on_examined(self, report: dict[str, Any], **_: Any) -> None:
        for finding in report["findings"]:
            if (label := {"spoils": "error", "warning": "warning"}.get(finding["severity"])) is not None:
                self.print(f"{label}: {finding['message']}")

    def _on_plan(self, **plan: Any) -> None:
        self._budget_seconds, self._unit = plan["budget_seconds"], plan["unit"]
        self._measures = [Measure(**measure) for measure in plan["measures"]]
        n_skipped, examples = plan.get("n_blank", 0) + plan.get("n_too_long", 0), plan["examples"]
        label = "text" if "vocabulary" in plan else "data"
        self.print(
            f"{label:<10}{plan['n_pairs']:,} training {examples}, {plan['n_validation']:,} validation {examples}"
            + (f", {n_skipped:,} skipped (blank or too long)" if n_skipped else "")
        )
        vocabulary = f", vocabulary {plan['vocabulary']:,}" if "vocabulary" in plan else ""
        self.print(f"model     {plan['preset']}, {plan['n_parameters'] / 1e6:.1f}M parameters{vocabulary}")
        epochs = plan["steps"] / plan["steps_an_epoch"]
        precision = " in bfloat16" if plan["precision"] == "bfloat16" else ""
        self.print(
            f"training  {plan['steps']:,} steps ({epochs:.1f} epochs) of {plan['seconds_a_step']:.2f} s each, on the "
            f"{plan['device']}{precision}: about {duration(plan['steps'] * plan['seconds_a_step'])}"
        )

    def _on_report(self, path: str, **_: Any) -> None:
        self.print(f"report    {path} (open it in a browser; it reloads until training ends)")

    def _on_skipped(self, checkpoint: str, reason: str, **_: Any) -> None:
        self.print(f"skipped checkpoint {checkpoint}: {reason}")

    def _on_resume(
        self, step: int, steps: int, budget_seconds: float | None, measures: list[dict[str, Any]], **_: Any
    ) -> None:
        self._budget_seconds, self._measures = budget_seconds, [Measure(**measure) for measure in measures]
        self.print(f"resuming after step {step:,} of {steps:,}")

    def _on_refit(self, steps: int, was: int, **_: Any) -> None:
        self.print(f"steps changed from {was:,} to {steps:,}, to fit the remaining time")

    def _on_warning(self, message: str, **_: Any) -> None:
        self.print(f"warning: {message}")

    def _on_step(
        self, step: int, steps: int, nll: float, loss: float, tokens_per_second: float, elapsed_seconds: float, **_: Any
    ) -> None:
        now = perf_counter()
        if self._first is None:
            self._first = (step - 1, now)
            self._speed = tokens_per_second
            self._stage = "training"
            self._replace_task("training", steps)
        self._speed += 0.05 * (tokens_per_second - self._speed)
        n_taken = step - self._first[0]
        remaining = (now - self._first[1]) / n_taken * (steps - step)
        if self._budget_seconds is not None:  # the number of steps will be adapted to the budget
            remaining = min(remaining, max(0.0, self._budget_seconds - elapsed_seconds))
        eta = duration(remaining) if n_taken > 1 else "…"
        perplexity = f"  perplexity {exp(min(nll, 20)):.2f}" if self._unit == "tokens" else ""
        numbers = f"step {step:,}/{steps:,}  loss {loss:.3f}{perplexity}  {self._speed:,.0f} {self._unit}/s"
        if self._task is not None:
            self._bar.update(self._task, completed=step, total=steps, numbers=numbers, eta=f"{eta} left")
        if not self._live and now - self._printed_at >= _SECONDS_BETWEEN_LINES:
            self._printed_at = now
            self.print(f"{numbers}  {eta} left")

    def _on_validation(self, step: int, best: bool, samples: Sequence[dict[str, str]] = (), **metrics: float) -> None:
        self.print(
            f"step {step:>7,}  validation: {shown(self._measures, metrics, '  ')}" + ("  (best)" if best else "")
        )
        for sample in samples[:1]:
            given, *_, output = sample.values()
            self.print(f"              {given[:80]}  →  {output[:80]}")

    def _on_finished(self, path: str, elapsed_seconds: float, **facts: Any) -> None:
        self.print(f"finished in {duration(elapsed_seconds)}: {_facts_shown(facts)}")
        self.print(f"the model is in {path}/model")

    def _on_already_finished(self, path: str, **facts: Any) -> None:
        self.print(f"{path} is finished: {_facts_shown(facts)}; nothing to do")


def shown(measures: Sequence[Measure], metrics: Mapping[str, Any], separator: str) -> str:
    """The values of the measures that there are."""
    return separator.join(measure.show(metrics[measure.name]) for measure in measures if measure.name in metrics)


def _facts_shown(facts: Mapping[str, Any]) -> str:
    return shown(read_measures(facts.get("measures")), facts, ", ")
