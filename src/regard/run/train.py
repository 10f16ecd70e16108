"""One run: a recipe and a directory in, a model out. All state is saved, so the same call again resumes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch

from regard.artifact import LoadedModel, load_model
from regard.durable import check_writable, lock_directory, remove_leftovers
from regard.errors import ArtifactError, RunError
from regard.report import LiveReport, RunReader, is_out_of_date, verdict
from regard.run.build import PreparedRun, build_training, describe_parent, prepare_run, require_processes
from regard.run.callbacks import Callbacks, EventFanOut
from regard.run.defaults import default_intervals, drop_step_counts
from regard.run.export import export_model
from regard.run.plan import plan_run
from regard.run.recipe import Recipe, differences, identity, merge, read_recipe
from regard.tasks import Raw
from regard.training import (
    Journal,
    Stop,
    Workers,
    check_precision,
    fast_matmul,
    fit,
    keep_freed_memory,
    select_device,
    torchrun_identity,
)

_PRECISION_HINT = (
    "resume on the machine where the run began, or train in another directory with --set training.precision=float32"
)


def train(
    recipe: Recipe | Raw,
    out: str | Path,
    *,
    fill_defaults: bool = False,
    device: str | None = None,
    callbacks: Callbacks | None = None,
    stop: Stop | None = None,
    spent_seconds: float = 0.0,
    live_report: bool = False,
    workers: Workers | None = None,
) -> Path:
    """Trains a recipe in the run directory `out`, and returns the path of the model directory.

    Called again with the same values it resumes, with the same result to the bit.

    Args:
        fill_defaults: derive missing values from the corpus, the machine's speed and the budget, not from the paper.
        device: "cpu", "cuda" or "mps"; by default the fastest one available.
        callbacks: receives progress and events.
        stop: ends the training after the current step with its state saved.
        spent_seconds: time spent before this call that counts towards the budget.
        live_report: update `report.html` during the training; otherwise it is written at the end.
        workers: the processes that share the training, from `open_workers`; by default this one alone.
    """
    workers = workers or _alone()
    started_at = perf_counter() - spent_seconds
    out, events = Path(out), EventFanOut(callbacks or Callbacks())
    given = recipe.explicit() if isinstance(recipe, Recipe) else recipe
    dropped: list[str] = []
    if fill_defaults:
        given, dropped = drop_step_counts(given)
        given = merge(default_intervals(given), given)
    if workers.world_size > 1 and not given.get("training", {}).get("exact"):
        given = merge({"training": {"processes": workers.world_size}}, given)
    torch_device = workers.device or select_device(device)
    keep_freed_memory()
    with lock_directory(out), fast_matmul():
        remove_leftovers(out)
        stored = _stored_recipe(out, given)
        budget = _larger_budget(stored, given)
        if stored is not None and (finished := _finished_model(out, budget)) is not None:
            if is_out_of_date(out):  # the training was killed between exporting the model and writing the report
                _report_page(out, events.callbacks).close()
            events.callbacks.on_event("already-finished", path=str(out), **finished.facts)
            return out / "model"
        if stored is None:
            check_writable(out, 0)
            if dropped:
                message = f"the budget sets the number of steps; ignored from the recipe: {', '.join(dropped)}"
                events.on_event("warning", message=message)
            with _threads(given):
                prepared = plan_run(given, out, fill_defaults, torch_device, workers, events, started_at)
        else:
            require_processes(stored, workers, torch_device)
            check_precision(stored.training.precision, torch_device, _PRECISION_HINT)
            prepared = prepare_run(stored, describe_parent(stored), out, events)
            prepared = replace(prepared, budget_seconds=budget)
        with (
            Journal(out / "journal.jsonl") as journal,
            closing(_report_page(out, events.callbacks, live_report)) as page,
        ):
            events.attach(journal, page)
            if live_report:
                page.start()
                events.callbacks.on_event("report", path=str(page.path))
            with _threads(prepared.recipe.explicit()):
                return _train_and_export(prepared, out, torch_device, workers, events, stop or Stop(), started_at)


def _alone() -> Workers:
    if (identity := torchrun_identity()) is not None:
        raise RunError(
            f"this is one of {identity.world_size} processes of torchrun",
            hint="write `with regard.run.open_workers() as workers:` and pass `workers` to regard.train",
        )
    return Workers()


@contextmanager
def _threads(given: Raw) -> Iterator[None]:
    """One thread, if a recipe asks for bits that do not depend on the number of processes."""
    before = torch.get_num_threads()
    training = given.get("training")
    if isinstance(training, dict) and training.get("exact"):
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _report_page(out: Path, callbacks: Callbacks, live: bool = False) -> LiveReport:
    return LiveReport(out, live=live, warn=lambda message: callbacks.on_event("warning", message=message))


def require_run_directory(out: Path) -> None:
    """Raises RunError if `out` has files in it but is not a run: a training never writes into other directories."""
    if out.is_dir() and not (out / "recipe.toml").exists():
        foreign = sorted(entry.name for entry in out.iterdir() if entry.name not in {".lock", "data"})
        if foreign:
            raise RunError(
                f"{out} is not empty and is not a run directory: it contains {foreign[0]}",
                hint="choose another directory",
            )


def _stored_recipe(out: Path, given: Raw) -> Recipe | None:
    """The recipe of the run in `out`, or None if there is no run yet; raises RunError if `given` disagrees with it."""
    require_run_directory(out)
    if not (out / "recipe.toml").exists():
        return None
    stored = Recipe.build(read_recipe(out / "recipe.toml"))
    now = Recipe.build(merge(stored.raw(), given)).raw()
    if _larger_budget(stored, given) is not None:
        now = merge(now, {"training": {"budget_seconds": stored.training.budget_seconds}})
    changed = differences(stored.raw(), now)
    if changed:
        raise RunError(
            f"the run in {out} was started with another recipe: {'; '.join(changed[:3])}",
            hint="resume with the same values, or train in another directory",
        )
    return stored


def _larger_budget(stored: Recipe | None, given: Raw) -> float | None:
    """The given budget, if it is larger than the one that the run was begun with."""
    planned = None if stored is None else stored.training.budget_seconds
    section = given.get("training")
    budget = section.get("budget_seconds") if isinstance(section, dict) else None
    return float(budget) if planned is not None and isinstance(budget, int | float) and budget > planned else None


def _finished_model(out: Path, budget: float | None) -> LoadedModel | None:
    """The model of a finished run, unless it has been given more time since."""
    try:
        loaded = load_model(out / "model")
    except ArtifactError:
        return None
    is_final = loaded.facts.get("recipe") == identity((out / "recipe.toml").read_bytes())
    has_more_time = budget is not None and budget > (loaded.facts.get("budget_seconds") or 0)
    return loaded if is_final and not has_more_time else None


def _train_and_export(
    prepared: PreparedRun,
    out: Path,
    device: torch.device,
    workers: Workers,
    events: EventFanOut,
    stop: Stop,
    started_at: float,
) -> Path:
    with closing(build_training(prepared, out, device, workers)) as training:
        with stop:
            progress = fit(training, events.on_event, stop, perf_counter() - started_at)
        trained_at = perf_counter()
        training.close()  # the second process is not needed for what follows, and exporting takes memory
        events.on_progress("exporting the model", 0, None)
        with workers.all_threads():
            facts = export_model(training, prepared, progress, out / "model")
    elapsed_seconds = progress.elapsed_seconds + perf_counter() - trained_at
    words = verdict(RunReader(out).read(), facts)
    events.on_event("finished", flush=True, path=str(out), elapsed_seconds=elapsed_seconds, verdict=words, **facts)
    return out / "model"
