"""One run: a recipe and a directory in, a model out. Everything is kept, so that the same call again goes on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from regard.artifact import LoadedModel, load_model
from regard.durable import check_writable, lock_directory, remove_leftovers
from regard.errors import ArtifactError, RunError
from regard.report import LiveReport, is_out_of_date
from regard.run.build import Prepared, encode, set_up_run
from regard.run.callbacks import Remembering, Watcher
from regard.run.defaults import by_the_clock, choose_rhythm
from regard.run.export import finish
from regard.run.plan import settle
from regard.run.recipe import Raw, Recipe, differences, merge, read_recipe
from regard.training import (
    Journal,
    Report,
    Stop,
    check_precision,
    choose_device,
    fit,
    keep_freed_memory,
    quick_products,
)

_ELSEWHERE = "go on where the run began, or train in another directory with --set training.precision=float32"


def train(
    recipe: Recipe | Raw,
    out: str | Path,
    *,
    choose: bool = False,
    device: str | None = None,
    watcher: Watcher | None = None,
    stop: Stop | None = None,
    spent_seconds: float = 0.0,
    live_report: bool = False,
) -> Path:
    """Train what the recipe says into the run directory `out`, and give the model directory.

    `choose` fills in what the recipe does not say from the corpus, the machine's speed and the budget; otherwise the
    paper's values stand. Called again with the same values it goes on where it was, bit for bit. `spent_seconds` went
    before this call, and count into the budget. `report.html` is written at the end; with `live_report`, all along.
    """
    started_at = perf_counter() - spent_seconds
    out, watcher = Path(out), watcher or Watcher()
    asked = recipe.asked() if isinstance(recipe, Recipe) else recipe
    left_out: list[str] = []
    if choose:
        asked, left_out = by_the_clock(asked)
        asked = merge(choose_rhythm(asked), asked)
    on = choose_device(device)
    keep_freed_memory()
    with lock_directory(out), quick_products():
        remove_leftovers(out)
        stored = _stored_recipe(out, asked)
        if stored is not None and (done := _finished(out, stored)) is not None:
            if is_out_of_date(out):  # its trainer was killed after the last step
                _page(out, watcher).close()
            watcher.event("already-finished", path=str(out), **done.facts)
            return out / "model"
        early = Remembering(watcher)
        if stored is None:
            check_writable(out, 0)
            if left_out:
                words = f"with a budget the clock counts the steps; left out of the recipe: {', '.join(left_out)}"
                early.event("warning", message=words)
            prepared = settle(asked, out, choose, on, early, started_at)
        else:
            check_precision(stored.training.precision, on, _ELSEWHERE)
            prepared = encode(stored, out, watcher)
        with Journal(out / "journal.jsonl") as journal, closing(_page(out, watcher, live_report)) as page:

            def record(event: str, flush: bool = False, **fields: Any) -> None:
                journal.record(event, flush=flush, **fields)
                page.event(event, **fields)

            def report(event: str, flush: bool = False, **fields: Any) -> None:
                record(event, flush, **fields)
                watcher.event(event, **fields)

            for event, fields in early.events:
                record(event, **fields)
            if live_report:
                page.start()
                watcher.event("report", path=str(page.path))
            return _run(prepared, out, on, report, stop or Stop(), started_at, watcher)


def _page(out: Path, watcher: Watcher, live: bool = False) -> LiveReport:
    return LiveReport(out, live=live, warn=lambda message: watcher.event("warning", message=message))


def require_run_directory(out: Path) -> None:
    """Refuse a directory that has things in it and is not a run: a training writes into its own place only."""
    if out.is_dir() and not (out / "recipe.toml").exists():
        strangers = sorted(entry.name for entry in out.iterdir() if entry.name not in {".lock", "data"})
        if strangers:
            raise RunError(f"{out} is not empty and not a run: it has {strangers[0]}", hint="choose another directory")


def _stored_recipe(out: Path, asked: Raw) -> Recipe | None:
    """The recipe that this directory is a run of, if it is one; what was asked must agree with it."""
    require_run_directory(out)
    if not (out / "recipe.toml").exists():
        return None
    stored = Recipe.build(read_recipe(out / "recipe.toml"))
    changed = differences(stored.raw(), Recipe.build(merge(stored.raw(), asked)).raw())
    if changed:
        raise RunError(
            f"{out} was begun with another recipe: {'; '.join(changed[:3])}",
            hint="go on with the values as before, or train in another directory",
        )
    return stored


def _finished(out: Path, recipe: Recipe) -> LoadedModel | None:
    try:
        loaded = load_model(out / "model")
    except ArtifactError:
        return None
    return loaded if loaded.facts.get("recipe") == recipe.digest() else None


def _run(
    prepared: Prepared,
    out: Path,
    device: torch.device,
    report: Report,
    stop: Stop,
    started_at: float,
    watcher: Watcher,
) -> Path:
    with closing(set_up_run(prepared, out, device)) as training:
        check_writable(out, training.checkpoints.bytes_needed(training.model, 3 + (training.ema is not None)))
        with stop:
            progress = fit(training, report, stop, perf_counter() - started_at)
        trained_at = perf_counter()
        watcher.progress("finishing the model", 0, None)
        facts = finish(training, prepared.recipe, prepared.tokenizers, prepared.spoken, progress, out / "model")
    elapsed_seconds = progress.elapsed_seconds + perf_counter() - trained_at
    report("finished", flush=True, path=str(out), elapsed_seconds=elapsed_seconds, **facts)
    return out / "model"
