"""Rows 3, 4 and 6: a save that is killed, a disk that fails, and a damaged checkpoint."""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from faults.child import Outcome, in_child, system_calls
from faults.harness import (
    CONFIG,
    Figure,
    Harness,
    NotAllowed,
    fill_disk,
    last_step,
    put,
    small_disk,
    wait_for_step,
    weights_of,
)
from regard.artifact import load_model
from regard.durable import remove_leftovers
from regard.errors import UserError
from regard.models import Transformer, named_weights
from regard.training import Checkpoints

RUN = {"recipe": "one"}
PAGE = 4096

Tensors = dict[str, dict[str, Tensor]]


def killed_at_every_system_call(harness: Harness) -> Figure:
    """Row 3: kill a save at each of its system calls; the old or the new state must load."""
    n_points, bad, not_killed = 0, [], []
    counts = {"old": 0, "new": 0}
    for scene in _scenes(harness):
        scene.prepare()
        calls = system_calls(scene.save, harness.folder / "strace.log")
        for name, number in calls[:: harness.times(1, 20)]:
            n_points += 1
            outcome, state = _killed_save(scene, name, number)
            if state in counts:
                counts[state] += 1
            else:
                bad.append(f"{name} {number}: {state}")
            if outcome.how != "killed":
                not_killed.append(f"{name} {number}: {outcome.how} {outcome.message}")
    text = f"{n_points - len(bad)}/{n_points} points ({counts['old']} old, {counts['new']} new)"
    text += f"; {len(not_killed)} not killed, e.g. {not_killed[0]}" if not_killed else ""
    return Figure("; ".join([text, *bad[:3]]), not bad and len(not_killed) <= n_points // 100)


def _killed_save(scene: "Scene", name: str, number: int) -> tuple[Outcome, str]:
    """Kill a save at a call. The calls for memory vary between runs, so the call may not occur: try again then."""
    for _ in range(3):
        scene.prepare()
        inject = ("-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}")
        outcome = in_child(scene.save, strace=inject)
        state = scene.state()
        if outcome.how == "killed" or state not in ("old", "new"):
            break
    return outcome, state


def disk_fails_during_save(harness: Harness) -> Figure:
    """Row 4: fsync fails, or the disk is full."""
    flushes = [_failed_flush(scene, number) for scene in _scenes(harness) for number in _flushes(scene, harness)]
    text = f"EIO {sum(flushes)}/{len(flushes)}"
    try:
        sizes = [_full_disk(harness, extra) for extra in range(0, _pages_of_a_save(harness), harness.times(1, 10))]
        whole_run = _full_disk_while_training(harness)
    except NotAllowed as error:
        return Figure(f"{text}; full disk not run: {error}", all(flushes))
    text += f", full disk {sum(sizes)}/{len(sizes)} sizes, in a training {whole_run:d}/1"
    return Figure(text, all(flushes) and all(sizes) and whole_run)


def damaged_checkpoint(harness: Harness) -> Figure:
    """Row 6: a damaged checkpoint is detected, and the one before it is used."""
    directory = harness.fresh()
    keep = Checkpoints(directory, keep_last=2, keep_best=0)
    good, target = (keep.save(step, tensors_of(step), RUN) for step in (10, 20))
    damages = list(_damages(target, harness))
    n_detected = 0
    for path, data in damages:
        before = path.read_bytes() if path.exists() else None
        _restore(path, data)
        checkpoint, skipped = Checkpoints(directory, keep_last=2, keep_best=0).resume(RUN)
        n_detected += checkpoint is not None and checkpoint.path == good and list(skipped) == [target.name]
        _restore(path, before)
    checkpoint, skipped = Checkpoints(directory, keep_last=2, keep_best=0).resume(RUN)
    assert checkpoint is not None and checkpoint.path == target, "the original was not restored"
    in_a_run = _resumed_over_damage(harness)
    text = f"{n_detected}/{len(damages)} detected; in a training {in_a_run:d}/1"
    return Figure(text, n_detected == len(damages) and in_a_run)


@dataclass(frozen=True)
class Scene:
    """A save over an older state."""

    directory: Path
    prepare: Callable[[], None]  # writes the old state, and nothing else
    save: Callable[[], None]
    state: Callable[[], str]  # "old", "new", or what is wrong


def tensors_of(seed: int) -> Tensors:
    """The weights of a small model, and an optimiser state of the same size."""
    torch.manual_seed(seed)
    weights = {name: tensor.clone() for name, tensor in named_weights(Transformer(CONFIG, 280, 280)).items()}
    return {"model": weights, "optimizer": {f"exp_avg/{name}": tensor * 2 for name, tensor in weights.items()}}


def _scenes(harness: Harness) -> list[Scene]:
    """A new step (the old one is removed), the same step again, and the final model."""
    return [_checkpoint_scene(harness, 20), _checkpoint_scene(harness, 10), _model_scene(harness)]


def _checkpoint_scene(harness: Harness, step: int) -> Scene:
    directory, old, new = harness.fresh(), tensors_of(1), tensors_of(2)

    def checkpoints() -> Checkpoints:
        return Checkpoints(directory, keep_last=1, keep_best=0)

    def prepare() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        checkpoints().save(10, old, RUN)

    def save() -> None:
        keep = checkpoints()
        keep.resume(RUN)
        keep.save(step, new, RUN)

    def state() -> str:
        try:
            checkpoint, skipped = checkpoints().resume(RUN)
        except UserError as error:
            return str(error)
        if checkpoint is None or skipped:
            return f"skipped {skipped}"
        if any(not entry.name.startswith("step-") for entry in directory.iterdir()):
            return "leftovers"
        read = {stem: checkpoint.tensors(stem) for stem in old}
        return "old" if _equal(read, old) else "new" if _equal(read, new) else "neither"

    return Scene(directory, prepare, save, state)


def _model_scene(harness: Harness) -> Scene:
    directory = harness.fresh()
    model = directory / "model"
    kept = {name: harness.save_model(harness.fresh(), seed=seed) for name, seed in (("old", 1), ("new", 2))}
    weights = {name: named_weights(load_model(path).model) for name, path in kept.items()}

    def prepare() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(kept["old"], model)

    def state() -> str:
        remove_leftovers(directory)
        try:
            read = named_weights(load_model(model).model)
        except UserError as error:
            return str(error)
        if [entry.name for entry in directory.iterdir()] != ["model"]:
            return "leftovers"
        return next((name for name, saved in weights.items() if _equal({"": read}, {"": saved})), "neither")

    return Scene(directory, prepare, partial(harness.save_model, model, seed=2), state)


def _equal(a: Tensors, b: Tensors) -> bool:
    return a.keys() == b.keys() and all(
        a[stem].keys() == b[stem].keys() and all(torch.equal(a[stem][name], b[stem][name]) for name in a[stem])
        for stem in a
    )


def _flushes(scene: Scene, harness: Harness) -> list[int]:
    scene.prepare()
    return [number for name, number in system_calls(scene.save, harness.folder / "strace.log") if name == "fsync"]


def _failed_flush(scene: Scene, number: int) -> bool:
    """Whether a save whose n-th fsync fails reports it, and leaves the previous state and nothing else."""
    scene.prepare()
    outcome = in_child(scene.save, strace=("-e", "trace=fsync", "-e", f"inject=fsync:error=EIO:when={number}"))
    return _reported(outcome, "input/output error") and _clean(scene.directory) and scene.state() in ("old", "new")


def _reported(outcome: Outcome, words: str) -> bool:
    return outcome.how == "refused" and "could not" in outcome.message and words in outcome.message


def _clean(directory: Path) -> bool:
    return not any(entry.name.startswith(".") for entry in directory.iterdir())


def _pages_of_a_save(harness: Harness) -> int:
    path = Checkpoints(harness.fresh(), keep_last=1, keep_best=0).save(10, tensors_of(1), RUN)
    return sum(-(-file.stat().st_size // PAGE) for file in path.iterdir())


def _full_disk(harness: Harness, extra_pages: int) -> bool:
    """A save on a disk with too few free pages."""
    with small_disk(harness.fresh(), 4 * 1024 * 1024) as disk:
        keep = Checkpoints(disk / "run", keep_last=2, keep_best=0)
        keep.save(10, tensors_of(1), RUN)
        fill_disk(disk, extra_pages * PAGE)
        outcome = in_child(lambda: keep.save(20, tensors_of(2), RUN))
        checkpoint, skipped = Checkpoints(disk / "run", keep_last=2, keep_best=0).resume(RUN)
        is_old = checkpoint is not None and checkpoint.step == 10 and _equal({"model": checkpoint.tensors("model")},
                                                                   {"model": tensors_of(1)["model"]})  # fmt: skip
        return _reported(outcome, "no space left on device") and is_old and not skipped and _clean(disk / "run")


def _full_disk_while_training(harness: Harness) -> bool:
    """The disk fills up during a training; with space again, it ends with the same weights."""
    with small_disk(harness.fresh(), 16 * 1024 * 1024) as disk:
        run = disk / "run"
        process = harness.start(run, "training.accumulate=1")
        wait_for_step(run, process, 15)
        filler = fill_disk(disk)
        code = process.wait(60)
        stopped_at = last_step(run)
        whole = _clean(run / "checkpoints")
        filler.unlink()
        again = harness.train(run)
        same = weights_of(run) == weights_of(harness.reference)
        return code == 2 and 15 <= stopped_at < 60 and whole and again.returncode == 0 and same


def _damages(target: Path, harness: Harness) -> list[tuple[Path, bytes | None]]:
    """New contents of files: cut, with a bit flipped, missing, or unexpected."""
    rng = random.Random(1)
    files = sorted(target.iterdir())
    damages: list[tuple[Path, bytes | None]] = []
    for number in range(harness.times(50, 12)):
        data = files[number % len(files)].read_bytes()
        damages.append((files[number % len(files)], data[: rng.randrange(len(data))]))
    for number in range(harness.times(1000, 40)):
        data = bytearray(files[number % len(files)].read_bytes())
        place = rng.randrange(8 * len(data))
        data[place // 8] ^= 1 << place % 8
        damages.append((files[number % len(files)], bytes(data)))
    damages += [(file, None) for file in files]
    return [*damages, (target / "added", b""), (target / "model.safetensors.bak", files[0].read_bytes())]


def _restore(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink()
    else:
        put(path, data)


def _resumed_over_damage(harness: Harness) -> bool:
    """On the command line: names the damaged checkpoint, resumes from the one before, ends with the same weights."""
    run = harness.fresh()
    harness.killed(run, 25)
    weights = run / "checkpoints" / "step-00000020" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    put(weights, bytes(data))
    process = harness.train(run)
    reported = (
        "skipped step-00000020" in process.stderr
        and "is damaged" in process.stderr
        and "after step 10" in process.stderr
    )
    return process.returncode == 0 and reported and weights_of(run) == weights_of(harness.reference)
