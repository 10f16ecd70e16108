"""The display of a training on stderr: a progress bar on a terminal, plain lines otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Self, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from regard.errors import TrainingStopped
from regard.metrics import TRANSLATION_MEASURES, Measure, headline, read_measures, shown
from regard.report.wording import duration, size_text
from regard.run import Callbacks

_SECONDS_BETWEEN_LINES = 10.0
_MAX_SHOWN = 80  # characters of a sample


class TrainingDisplay(Callbacks):
    """A progress bar, with permanent lines for validations and other events.

    The exit code of a training that was stopped by a signal is that of the signal.
    """

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
        self._stage, self._stage_started_at = "", perf_counter()
        self._printed_at = float("-inf")
        self._first: tuple[int, float] | None = None  # step and time of the first step in this process
        self._speed = 0.0  # tokens (or another unit) per second, smoothed
        self._unit = "tokens"
        self._measures: Sequence[Measure] = TRANSLATION_MEASURES
        self._budget_seconds: float | None = None
        self._verdict: str | None = None
        self._n_after = 0  # trainings that come after this one
        self._seconds_each: float | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._bar.stop()
        if isinstance(error, TrainingStopped):
            self.print(f"stopped after step {error.step} and saved a checkpoint; run the same command again to resume")
            raise typer.Exit(128 + error.signal_number)

    def print(self, text: str) -> None:
        """Print a permanent line."""
        self._console.print(text, markup=False)

    def on_progress(self, stage: str, done: int, total: int | None) -> None:
        if stage != self._stage:
            self._stage, self._stage_started_at = stage, perf_counter()
            if not self._live:
                self.print(f"{stage} …")
            self._replace_task(stage, total)
        if self._task is not None:
            seconds = perf_counter() - self._stage_started_at
            eta = f"{duration(seconds / done * (total - done))} left" if total and done else ""
            self._bar.update(self._task, completed=done, total=total, eta=eta)

    def on_event(self, event: str, **fields: Any) -> None:
        if "measures" in fields:
            self._measures = read_measures(fields)
        self._unit = fields.get("unit", self._unit)
        handler = getattr(self, "_on_" + event.replace("-", "_"), None)
        if handler is not None:
            handler(**fields)

    def _replace_task(self, description: str, total: int | None) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(description, total=total, numbers="", eta="")

    def _on_examined(self, report: dict[str, Any], **_: Any) -> None:
        for finding in report["findings"]:
            if (
                label := {"spoils": "error: ", "warning": "warning: ", "found": ""}.get(finding["severity"])
            ) is not None:
                self.print(f"{label}{finding['message']}")

    def _on_plan(self, **plan: Any) -> None:
        self._budget_seconds = plan["budget_seconds"]
        n_skipped, noun = plan.get("n_blank", 0) + plan.get("n_too_long", 0), plan.get("examples", "pairs")
        self.print(
            f"data      {plan['n_pairs']:,} training {noun}, {plan['n_validation']:,} validation {noun}"
            + (f", {n_skipped:,} skipped (blank or too long)" if n_skipped else "")
            + (f", {plan['n_cut']:,} cut off (too long)" if plan.get("n_cut") else "")
        )
        names = dict.fromkeys(str(plan[key]) for key in ("preset", "size") if plan.get(key))  # the size may be both
        vocabulary = f", vocabulary {plan['vocabulary']:,}" if "vocabulary" in plan else ""
        self.print(f"model     {', '.join(names)}, {plan['n_parameters'] / 1e6:.1f}M parameters{vocabulary}")
        epochs = plan["steps"] / plan["steps_an_epoch"]
        by = f" by {plan['n_processes']} processes" if plan.get("n_processes", 1) > 1 else ""
        precision = " in bfloat16" if plan["precision"] == "bfloat16" else ""
        self.print(
            f"training  {plan['steps']:,} steps ({epochs:.1f} epochs) of {plan['seconds_a_step']:.2f} s each, on the "
            f"{plan['device']}{by}{precision}: about {duration(plan['steps'] * plan['seconds_a_step'])}"
        )
        if "flops" in plan:
            memory, disk = size_text(plan["memory_bytes"]), size_text(plan["disk_bytes"])
            padding = f"{plan['padding']:.1%} padding"
            self.print(f"cost      {plan['flops']:.2g} FLOPs ({padding}), {memory} of memory, at most {disk} of disk")

    def _on_row(self, label: str, number: int, n_rows: int, n_after: int, seconds_each: float | None, **_: Any) -> None:
        """A training of several, one after the other: the rows of a table."""
        self._n_after, self._seconds_each = n_after, seconds_each
        self._first, self._stage, self._verdict = None, "", None
        self.print(f"[{number}/{n_rows}] {label}")

    def _on_report(self, path: str, **_: Any) -> None:
        self.print(f"report    {path} (open it in a browser; it reloads until training ends)")

    def _on_skipped(self, checkpoint: str, reason: str, **_: Any) -> None:
        self.print(f"skipped checkpoint {checkpoint}: {reason}")

    def _on_resume(self, step: int, steps: int, budget_seconds: float | None, **_: Any) -> None:
        self._budget_seconds = budget_seconds
        self.print(f"resuming after step {step:,} of {steps:,}")

    def _on_extended(self, step: int, reached: int, steps: int, **_: Any) -> None:
        back = f", from step {step:,}, before the learning rate began to fall" if reached > step else ""
        self.print(f"more time: {steps:,} steps in all{back}")

    def _on_refit(self, steps: int, was: int, **_: Any) -> None:
        self.print(f"steps changed from {was:,} to {steps:,}, to fit the remaining time")

    def _on_warning(self, message: str, **_: Any) -> None:
        self.print(f"warning: {message}")

    def _on_step(
        self, step: int, steps: int, nll: float, tokens_per_second: float, elapsed_seconds: float, **fields: Any
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
        if self._n_after and n_taken > 1:
            each = self._seconds_each or elapsed_seconds + remaining
            eta = f"{eta} of about {duration(remaining + self._n_after * each)}"
        losses = {"loss": nll, **fields.get("losses", {})}  # without label smoothing, as in validations
        loss_text = "  ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
        numbers = f"step {step:,}/{steps:,}  {loss_text}  {self._speed:,.0f} {self._unit}/s"
        if self._task is not None:
            self._bar.update(self._task, completed=step, total=steps, numbers=numbers, eta=f"{eta} left")
        if not self._live and now - self._printed_at >= _SECONDS_BETWEEN_LINES:
            self._printed_at = now
            self.print(f"{numbers}  {eta} left")

    def _on_validation(self, step: int, best: bool, **fields: Any) -> None:
        scores = "  ".join(shown(self._measures, fields))
        self.print(f"step {step:>7,}  validation: {scores}{'  (best)' if best else ''}")
        for sample in fields.get("samples", [])[:1]:
            first, *_, last = sample.values()
            self.print(f"              {_shortened(first)}  →  {_shortened(last)}")

    def print_verdict(self) -> None:
        """Print what the finished model is good for, as the last line."""
        if self._verdict is not None:
            self.print(self._verdict)

    def _on_finished(self, path: str | None, elapsed_seconds: float, verdict: str | None = None, **facts: Any) -> None:
        self._verdict = verdict
        scores = ", ".join(shown(headline(self._measures), facts))
        self.print(f"finished in {duration(elapsed_seconds)}: {scores}")
        if path is not None:
            self.print(f"the model is in {path}/model")

    def _on_already_finished(self, path: str, **facts: Any) -> None:
        self.print(f"{path} is finished: {', '.join(shown(headline(self._measures), facts))}; nothing to do")


def _shortened(text: str) -> str:
    """The beginning and the end: a question about a story is its end, and so is what a continuation follows."""
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN // 2]} … {text[-_MAX_SHOWN // 2 :]}"
