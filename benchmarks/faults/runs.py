"""Rows 1, 5, 8, 9, 10 and 11: whole trainings on the command line, interrupted, refused and gone on with."""

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

from faults.lab import (
    STEPS,
    Figure,
    Lab,
    NotAllowed,
    everything_in,
    fill_disk,
    remount_read_only,
    small_disk,
    weights_of,
)
from faults.saves import RUN, tensors_of
from regard.training import Checkpoints
from regard.training.journal import events

STEP_SECONDS = 0.02  # about what one takes here, so that a kill falls anywhere in it


def killed_at_random_steps(lab: Lab) -> Figure:
    """Row 1: a kill, or two, then on to the end; weights, moments and product are compared as bytes."""
    rng, n_equal, n_kills = random.Random(1), 0, 0
    n_runs = lab.times(20, 3)
    for _ in range(n_runs):
        run = lab.fresh()
        for _ in range(rng.choice((1, 1, 2))):
            reached = lab.killed(run, rng.randint(0, STEPS - 2), delay_seconds=rng.uniform(0, STEP_SECONDS))
            n_kills += reached < STEPS
        done = lab.train(run)
        n_equal += done.returncode == 0 and weights_of(run) == weights_of(lab.reference)
        shutil.rmtree(run)
    return Figure(f"{n_equal}/{n_runs} runs, {n_kills} kills", n_equal == n_runs and n_kills >= n_runs)


def no_room_at_the_start(lab: Lab) -> Figure:
    """Row 5: no space, too little, a read-only disk, a file in the way; for a new run and for one to go on with."""
    n_ok, n_tried, slowest_seconds = 0, 0, 0.0
    try:
        for begin in (_nothing, _half_a_run(lab)):
            for place in (_no_space, _too_little_space, _read_only, _a_file_in_the_way):
                with place(lab, begin) as run:
                    before = _steps_taken(run)
                    started_at = time.perf_counter()
                    done = lab.train(run)
                    slowest_seconds = max(slowest_seconds, time.perf_counter() - started_at)
                    words = r"error: (cannot write in|the checkpoints of .* need|.* is not a directory).*hint"
                    n_ok += done.returncode == 2 and bool(re.search(words, done.stderr)) and _steps_taken(run) == before
                    n_tried += 1
    except NotAllowed as error:
        return Figure(f"not run: {error}", None)
    return Figure(f"{n_ok}/{n_tried} refused, slowest {slowest_seconds:.1f} s", n_ok == n_tried)


def text_or_recipe_changed(lab: Lab) -> Figure:
    """Row 8: refused with the reason, nothing touched; with all as before, on to the same end."""
    run, source = lab.fresh(), lab.text[0]
    lab.killed(run, 25)
    before, text = everything_in(run), source.read_bytes()
    refused = []
    for edited in (text + b"1 2 3\n", text.replace(b"1", b"2", 1), text[:-2]):
        source.write_bytes(edited)
        refused.append(_refused(lab, run, r"text was edited since this run began|unequal|lines"))
    source.write_bytes(text)
    for setting in ("model.dropout=0.1", "training.seed=2", "training.steps=70", "text.vocabulary=290"):
        key, value = setting.split("=")
        refused.append(_refused(lab, run, rf"begun with another recipe: {key} was .* and is {value}", setting))
    unchanged = everything_in(run) == before
    stored = run / "recipe.toml"
    recipe = stored.read_text()
    stored.write_text(recipe.replace("beta1 = 0.9", "beta1 = 0.8"))
    refused.append(_refused(lab, run, r"was made with another recipe"))
    stored.write_text(recipe)
    done = lab.train(run)
    same = done.returncode == 0 and weights_of(run) == weights_of(lab.reference)
    text = f"{sum(refused)}/{len(refused)} refused; untouched: {_yes(unchanged)}; then the same end: {_yes(same)}"
    return Figure(text, all(refused) and unchanged and same)


def resumed_rerun_and_doubled(lab: Lab) -> Figure:
    """Row 9."""
    nothing = lab.fresh()
    no_run = _refused(lab, nothing, "there is no run in .* to resume", options=("--resume",)) and not nothing.exists()
    before = everything_in(lab.reference)
    again = lab.train(lab.reference)
    nothing_done = again.returncode == 0 and "nothing to do" in again.stderr and everything_in(lab.reference) == before
    run = lab.fresh()
    first = lab.start(run, "training.accumulate=4")
    while not (run / ".lock").exists() or not (run / ".lock").read_text():
        time.sleep(0.01)
    second = _refused(lab, run, rf"is being trained by process {first.pid}", "training.accumulate=4")
    finished = first.wait(120) == 0
    text = f"no run: {_yes(no_run)}; finished: {_yes(nothing_done)}; second trainer: {_yes(second and finished)}"
    return Figure(text, no_run and nothing_done and second and finished)


def loss_that_is_no_number(lab: Lab) -> Figure:
    """Row 10: rates at which the numbers overflow. Every step is saved, so the last good one is the step before."""
    n_late, n_bad, stopped_at = 0, 0, []
    for rate in ("1e6", "1e12", "1e18", "1e30", "1e38", "1e60")[:: lab.times(1, 3)]:
        run = lab.fresh()
        done = lab.train(run, f"training.rate={rate}", "training.schedule=constant", "training.save_every=1")
        named = re.search(r"error: step (\d+): (.* on \d+ pairs \(numbers [\d, ]+|'[\w.]+' has values)", done.stderr)
        steps = [event for event in events(run / "journal.jsonl") if event["event"] == "step"]
        n_late += sum(isinstance(event["loss"], str) for event in steps)  # "nan" and "inf" are written as words
        stopped_at.append(int(named[1]) if named is not None else 0)
        n_bad += done.returncode != 2 or not _good_up_to(run, stopped_at[-1] - 1)
    return Figure(f"{n_late} steps late (stopped at steps {stopped_at})", n_late == n_bad == 0)


def rotation_among_stale_steps(lab: Lab) -> Figure:
    """Row 11: another run's higher steps lie in the directory; nothing that is needed goes, nor what is not ours."""
    n_lost, n_saves = _random_rotations(lab.times(200, 20))
    other, run = lab.fresh(), lab.fresh()
    assert lab.train(other, "training.seed=2").returncode == 0
    lab.killed(run, 25)
    stale = [(other / "checkpoints" / name, name.replace("000000", "000009")) for name in _steps_in(other)]
    for path, name in stale:
        shutil.copytree(path, run / "checkpoints" / name)
    done = lab.train(run)
    for _, name in stale:
        there = run / "checkpoints" / name
        n_lost += not there.exists()
        shutil.rmtree(there, ignore_errors=True)
    same = done.returncode == 0 and weights_of(run) == weights_of(lab.reference)
    return Figure(f"lost {n_lost} in {n_saves} saves; a training: {_yes(same)}", n_lost == 0 and same)


def _yes(value: bool) -> str:
    return "held" if value else "FAILED"


def _refused(lab: Lab, run: Path, words: str, *settings: str, options: tuple[str, ...] = ()) -> bool:
    done = lab.train(run, *settings, options=options)
    lines = done.stderr.strip().splitlines()
    return done.returncode == 2 and re.search(rf"error: .*({words})", lines[-1] if lines else "") is not None


def _nothing(run: Path) -> None:
    """A run that has not begun."""


def _half_a_run(lab: Lab) -> Callable[[Path], None]:
    half = lab.fresh()
    lab.killed(half, 25)
    return lambda run: shutil.copytree(half, run) and None


@contextmanager
def _no_space(lab: Lab, begin: Callable[[Path], None]) -> Iterator[Path]:
    with small_disk(lab.fresh(), 16 * 1024 * 1024) as disk:
        begin(disk / "run")
        fill_disk(disk)
        yield disk / "run"


@contextmanager
def _too_little_space(lab: Lab, begin: Callable[[Path], None]) -> Iterator[Path]:
    with small_disk(lab.fresh(), 16 * 1024 * 1024) as disk:
        begin(disk / "run")
        fill_disk(disk, 300_000)  # the text as ids, and one checkpoint, would fit
        yield disk / "run"


@contextmanager
def _read_only(lab: Lab, begin: Callable[[Path], None]) -> Iterator[Path]:
    with small_disk(lab.fresh(), 16 * 1024 * 1024) as disk:
        begin(disk / "run")
        remount_read_only(disk)
        yield disk / "run"


@contextmanager
def _a_file_in_the_way(lab: Lab, begin: Callable[[Path], None]) -> Iterator[Path]:
    run = lab.fresh()
    begin(run)
    if run.exists():
        shutil.rmtree(run / "checkpoints")
        (run / "checkpoints").write_bytes(b"")
    else:
        run.write_bytes(b"")
    yield run


def _good_up_to(run: Path, step: int) -> bool:
    """Whether the newest checkpoint is of that step (0: there is none), and all that is kept are numbers."""
    kept = Checkpoints(run / "checkpoints", keep_last=1, keep_best=0)
    opened = [kept.open(one) for one in kept.steps()]
    tensors = [tensor for one in opened for stem in ("model", "optimizer") for tensor in one.tensors(stem).values()]
    return (kept.steps() or [0])[-1] == step and all(bool(torch.isfinite(one).all()) for one in tensors)


def _steps_taken(run: Path) -> int:
    journal = run / "journal.jsonl"
    return sum(event["event"] == "step" for event in events(journal)) if journal.exists() else 0


def _steps_in(run: Path) -> list[str]:
    return sorted(entry.name for entry in (run / "checkpoints").iterdir())


def _random_rotations(n_runs: int) -> tuple[int, int]:
    """Runs of saves with random scores among stale steps, resumed now and then: how much that is needed was lost."""
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
                    found, _ = keep.resume(RUN)
                    n_lost += found is None or found.step != step
    return n_lost, n_saves


@contextmanager
def _temporary() -> Iterator[Path]:
    # in memory where there is such a place: thousands of flushes, and none of them is measured here
    home = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="regard-faults-", dir=home) as folder:
        yield Path(folder) / "checkpoints"
