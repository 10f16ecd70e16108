"""Rows 1, 5, 8, 9, 10 and 11: whole trainings on the command line, interrupted, refused and resumed."""

import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from faults.harness import (
    STEPS,
    Figure,
    Harness,
    NotAllowed,
    everything_in,
    fill_disk,
    remount_read_only,
    small_disk,
    step_events,
    weights_of,
)
from faults.saves import RUN, tensors_of
from regard.training import Checkpoints

STEP_SECONDS = 0.02  # about the length of a step, so that a kill can happen anywhere in it


def killed_at_random_steps(harness: Harness) -> Figure:
    """Row 1: one or two kills, then to the end; weights, optimiser state and final model are compared as bytes."""
    rng, n_equal, n_kills = random.Random(1), 0, 0
    n_runs = harness.times(20, 3)
    for _ in range(n_runs):
        run = harness.fresh()
        for _ in range(rng.choice((1, 1, 2))):
            reached = harness.killed(run, rng.randint(0, STEPS - 2), delay_seconds=rng.uniform(0, STEP_SECONDS))
            n_kills += reached < STEPS
        process = harness.train(run)
        n_equal += process.returncode == 0 and weights_of(run) == weights_of(harness.reference)
        shutil.rmtree(run)
    return Figure(f"{n_equal}/{n_runs} runs, {n_kills} kills", n_equal == n_runs and n_kills >= n_runs)


def no_space_at_start(harness: Harness) -> Figure:
    """Row 5: no space, too little, a read-only disk, a file in the way; for a new run and a resumed one."""
    n_ok, n_tried, slowest_seconds = 0, 0, 0.0
    try:
        for prepare in (_nothing, _half_a_run(harness)):
            for place in (_no_space, _too_little_space, _read_only, _a_file_in_the_way):
                with place(harness, prepare) as run:
                    before = len(step_events(run))
                    started_at = time.perf_counter()
                    process = harness.train(run)
                    slowest_seconds = max(slowest_seconds, time.perf_counter() - started_at)
                    words = r"error: (cannot write in|the checkpoints of .* need|.* is not a directory).*hint"
                    n_ok += (
                        process.returncode == 2
                        and bool(re.search(words, process.stderr))
                        and len(step_events(run)) == before
                    )
                    n_tried += 1
    except NotAllowed as error:
        return Figure(f"not run: {error}", None)
    return Figure(f"{n_ok}/{n_tried} refused, slowest {slowest_seconds:.1f} s", n_ok == n_tried)


def text_or_recipe_changed(harness: Harness) -> Figure:
    """Row 8: refused with the reason, nothing changed; with the original text and recipe, the same final weights."""
    run, source = harness.fresh(), harness.text[0]
    harness.killed(run, 25)
    before, text = everything_in(run), source.read_bytes()
    refused = []
    for edited in (text + b"1 2 3\n", text.replace(b"1", b"2", 1), text[:-2]):
        source.write_bytes(edited)
        refused.append(_refused(harness, run, r"text has changed since this run began|unequal|lines"))
    source.write_bytes(text)
    for setting in ("model.dropout=0.1", "training.seed=2", "training.steps=70", "text.vocabulary=290"):
        key, value = setting.split("=")
        refused.append(_refused(harness, run, rf"started with another recipe: {key} was .* and is {value}", setting))
    unchanged = everything_in(run) == before
    stored = run / "recipe.toml"
    recipe = stored.read_text()
    stored.write_text(recipe.replace("beta1 = 0.9", "beta1 = 0.8"))
    refused.append(_refused(harness, run, r"belong to another recipe"))
    stored.write_text(recipe)
    process = harness.train(run)
    same = process.returncode == 0 and weights_of(run) == weights_of(harness.reference)
    text = f"unchanged: {_verdict(unchanged)}; then the same weights: {_verdict(same)}"
    return Figure(f"{sum(refused)}/{len(refused)} refused; {text}", all(refused) and unchanged and same)


def resume_rerun_and_second_trainer(harness: Harness) -> Figure:
    """Row 9: --resume without a run, a finished run again, two trainings in one directory."""
    nothing = harness.fresh()
    no_run = (
        _refused(harness, nothing, "there is no run in .* to resume", options=("--resume",)) and not nothing.exists()
    )
    before = everything_in(harness.reference)
    again = harness.train(harness.reference)
    was_unchanged = (
        again.returncode == 0 and "nothing to do" in again.stderr and everything_in(harness.reference) == before
    )
    run = harness.fresh()
    first = harness.start(run, "training.accumulate=4")
    while not (run / ".lock").exists() or not (run / ".lock").read_text():
        time.sleep(0.01)
    second = _refused(harness, run, rf"is being trained by process {first.pid}", "training.accumulate=4")
    finished = first.wait(120) == 0
    second_refused = second and finished
    text = f"no run: {_verdict(no_run)}; finished: {_verdict(was_unchanged)}; second: {_verdict(second_refused)}"
    return Figure(text, no_run and was_unchanged and second_refused)


def loss_not_finite(harness: Harness) -> Figure:
    """Row 10: learning rates that overflow. Every step is saved, so the step before has the last good checkpoint."""
    n_late, n_bad, stopped_at = 0, 0, []
    for rate in ("1e6", "1e12", "1e18", "1e30", "1e38", "1e60")[:: harness.times(1, 3)]:
        run = harness.fresh()
        process = harness.train(run, f"training.rate={rate}", "training.schedule=constant", "training.save_every=1")
        named = re.search(r"error: step (\d+): (.* of \d+ examples \(numbers [\d, ]+|'[\w.]+' has NaN)", process.stderr)
        n_late += sum(
            isinstance(event["loss"], str) for event in step_events(run)
        )  # "nan" and "inf" are written as strings
        stopped_at.append(int(named[1]) if named is not None else 0)
        n_bad += process.returncode != 2 or not _good_up_to(run, stopped_at[-1] - 1)
    return Figure(f"{n_late} steps late (stopped at steps {stopped_at})", n_late == n_bad == 0)


def rotation_among_stale_steps(harness: Harness) -> Figure:
    """Row 11: the directory has higher steps of another run; no checkpoint that is needed or foreign is removed."""
    n_lost, n_saves = _random_rotations(harness.times(200, 20))
    other, run = harness.fresh(), harness.fresh()
    assert harness.train(other, "training.seed=2").returncode == 0
    harness.killed(run, 25)
    stale = [(other / "checkpoints" / name, name.replace("000000", "000009")) for name in _steps_in(other)]
    for path, name in stale:
        shutil.copytree(path, run / "checkpoints" / name)
    process = harness.train(run)
    for _, name in stale:
        there = run / "checkpoints" / name
        n_lost += not there.exists()
        shutil.rmtree(there, ignore_errors=True)
    same = process.returncode == 0 and weights_of(run) == weights_of(harness.reference)
    return Figure(f"lost {n_lost} in {n_saves} saves; a training: {_verdict(same)}", n_lost == 0 and same)


def _verdict(value: bool) -> str:
    return "pass" if value else "FAILED"


def _refused(harness: Harness, run: Path, words: str, *settings: str, options: tuple[str, ...] = ()) -> bool:
    process = harness.train(run, *settings, options=options)
    lines = process.stderr.strip().splitlines()
    return process.returncode == 2 and re.search(rf"error: .*({words})", lines[-1] if lines else "") is not None


def _nothing(run: Path) -> None:
    """No run yet."""


def _half_a_run(harness: Harness) -> Callable[[Path], None]:
    half = harness.fresh()
    harness.killed(half, 25)
    return lambda run: shutil.copytree(half, run) and None


@contextmanager
def _no_space(harness: Harness, prepare: Callable[[Path], None]) -> Iterator[Path]:
    with small_disk(harness.fresh(), 16 * 1024 * 1024) as disk:
        prepare(disk / "run")
        fill_disk(disk)
        yield disk / "run"


@contextmanager
def _too_little_space(harness: Harness, prepare: Callable[[Path], None]) -> Iterator[Path]:
    with small_disk(harness.fresh(), 16 * 1024 * 1024) as disk:
        prepare(disk / "run")
        fill_disk(disk, 300_000)  # enough for the encoded text and one checkpoint
        yield disk / "run"


@contextmanager
def _read_only(harness: Harness, prepare: Callable[[Path], None]) -> Iterator[Path]:
    with small_disk(harness.fresh(), 16 * 1024 * 1024) as disk:
        prepare(disk / "run")
        remount_read_only(disk)
        yield disk / "run"


@contextmanager
def _a_file_in_the_way(harness: Harness, prepare: Callable[[Path], None]) -> Iterator[Path]:
    run = harness.fresh()
    prepare(run)
    if run.exists():
        shutil.rmtree(run / "checkpoints")
        (run / "checkpoints").write_bytes(b"")
    else:
        run.write_bytes(b"")
    yield run


def _good_up_to(run: Path, step: int) -> bool:
    """Whether the newest checkpoint is of that step (0: none), and all tensors are finite."""
    kept = Checkpoints(run / "checkpoints", keep_last=1, keep_best=0)
    opened = [kept.open(number) for number in kept.steps()]
    tensors = [
        tensor
        for checkpoint in opened
        for stem in ("model", "optimizer")
        for tensor in checkpoint.tensors(stem).values()
    ]
    return (kept.steps() or [0])[-1] == step and all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


def _steps_in(run: Path) -> list[str]:
    return sorted(entry.name for entry in (run / "checkpoints").iterdir())


def _random_rotations(n_runs: int) -> tuple[int, int]:
    """Save with random scores beside stale steps, sometimes resuming; returns how many needed checkpoints were lost."""
    rng, n_lost, n_saves = random.Random(1), 0, 0
    small = {"model": {"weight": tensors_of(1)["model"].popitem()[1][:1]}}
    for _ in range(n_runs):
        with _temporary() as directory:
            stale = {rng.randint(1, 10_000) * 10 + 5 for _ in range(3)}
            for step in stale:
                Checkpoints(directory, keep_last=9, keep_best=0).save(step, small, {"recipe": "another"}, 0.0)
            keep, scores = Checkpoints(directory, keep_last=rng.randint(1, 3), keep_best=rng.randint(0, 2)), {}
            for step in range(10, 110, 10):
                scores[step] = rng.random()
                keep.save(step, small, RUN, scores[step])
                n_saves += 1
                needed = {*stale, *sorted(scores)[-keep.keep_last :]}
                needed |= {*sorted(scores, key=scores.__getitem__)[: keep.keep_best]}
                n_lost += len(needed - set(keep.steps()))
                if rng.random() < 0.3:
                    keep = Checkpoints(directory, keep_last=keep.keep_last, keep_best=keep.keep_best)
                    checkpoint, _ = keep.resume(RUN)
                    n_lost += checkpoint is None or checkpoint.step != step
    return n_lost, n_saves


@contextmanager
def _temporary() -> Iterator[Path]:
    # in memory if possible: thousands of flushes that are not measured
    home = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="regard-faults-", dir=home) as folder:
        yield Path(folder) / "checkpoints"
