"""Rows 3, 4 and 6: what a save leaves behind when it is killed, when the disk fails it, and when it is damaged."""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from faults.child import Outcome, in_child, system_calls
from faults.lab import CONFIG, Figure, Lab, NotAllowed, fill_disk, last_step, put, small_disk, wait_for_step, weights_of
from regard.artifact import load_model
from regard.durable import remove_leftovers
from regard.errors import UserError
from regard.models import Transformer, named_weights
from regard.training import Checkpoints

RUN = {"recipe": "one"}
PAGE = 4096

Tensors = dict[str, dict[str, Tensor]]


def killed_at_every_call_of_a_save(lab: Lab) -> Figure:
    """Row 3."""
    n_points, bad, not_met = 0, [], []
    found = {"old": 0, "new": 0}
    for scene in _scenes(lab):
        scene.prepare()
        calls = system_calls(scene.save, lab.folder / "strace.log")
        for name, number in calls[:: lab.times(1, 20)]:
            n_points += 1
            outcome, state = _killed_save(scene, name, number)
            if state in found:
                found[state] += 1
            else:
                bad.append(f"{name} {number}: {state}")
            if outcome.how != "killed":
                not_met.append(f"{name} {number}: {outcome.how} {outcome.message}")
    text = f"{n_points - len(bad)}/{n_points} points ({found['old']} old, {found['new']} new)"
    text += f"; {len(not_met)} not met, as {not_met[0]}" if not_met else ""
    return Figure("; ".join([text, *bad[:3]]), not bad and len(not_met) <= n_points // 100)


def _killed_save(scene: "Scene", name: str, number: int) -> tuple[Outcome, str]:
    """Kill a save at a call. Memory is asked for now and then, so that a call may not come a second time: try again."""
    for _ in range(3):
        scene.prepare()
        inject = ("-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}")
        outcome = in_child(scene.save, strace=inject)
        state = scene.found()
        if outcome.how == "killed" or state not in ("old", "new"):
            break
    return outcome, state


def the_disk_fails_a_save(lab: Lab) -> Figure:
    """Row 4."""
    flushes = [_failed_flush(scene, number) for scene in _scenes(lab) for number in _flushes(scene, lab)]
    text = f"EIO {sum(flushes)}/{len(flushes)}"
    try:
        sizes = [_full_disk(lab, extra) for extra in range(0, _pages_of_a_save(lab), lab.times(1, 10))]
        whole_run = _full_disk_while_training(lab)
    except NotAllowed as error:
        return Figure(f"{text}; full disk not run: {error}", all(flushes))
    text += f", full disk {sum(sizes)}/{len(sizes)} sizes, in a training {whole_run:d}/1"
    return Figure(text, all(flushes) and all(sizes) and whole_run)


def a_damaged_checkpoint(lab: Lab) -> Figure:
    """Row 6."""
    directory = lab.fresh()
    keep = Checkpoints(directory, keep_last=2, keep_best=0)
    good, target = (keep.save(step, tensors_of(step), RUN) for step in (10, 20))
    damages = list(_damages(target, lab))
    n_found = 0
    for path, data in damages:
        before = path.read_bytes() if path.exists() else None
        _restore(path, data)
        found, skipped = Checkpoints(directory, keep_last=2, keep_best=0).resume(RUN)
        n_found += found is not None and found.path == good and [one.name for one in skipped] == [target.name]
        _restore(path, before)
    found, skipped = Checkpoints(directory, keep_last=2, keep_best=0).resume(RUN)
    assert found is not None and found.path == target, "the harness has mended what it broke"
    in_a_run = _resumed_over_damage(lab)
    text = f"{n_found}/{len(damages)} detected; in a training {in_a_run:d}/1"
    return Figure(text, n_found == len(damages) and in_a_run)


@dataclass(frozen=True)
class Scene:
    """A save over an older state."""

    directory: Path
    prepare: Callable[[], None]  # the old state, and nothing else
    save: Callable[[], None]
    found: Callable[[], str]  # "old", "new", or what is wrong


def tensors_of(seed: int) -> Tensors:
    """A small model's weights, and as many numbers for its optimiser."""
    torch.manual_seed(seed)
    weights = {name: tensor.clone() for name, tensor in named_weights(Transformer(CONFIG, 280, 280)).items()}
    return {"model": weights, "optimizer": {f"exp_avg/{name}": tensor * 2 for name, tensor in weights.items()}}


def _scenes(lab: Lab) -> list[Scene]:
    """A new step (the old one is rotated away), the same step again, and the product."""
    return [_checkpoint_scene(lab, 20), _checkpoint_scene(lab, 10), _model_scene(lab)]


def _checkpoint_scene(lab: Lab, step: int) -> Scene:
    directory, old, new = lab.fresh(), tensors_of(1), tensors_of(2)

    def keeper() -> Checkpoints:
        return Checkpoints(directory, keep_last=1, keep_best=0)

    def prepare() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        keeper().save(10, old, RUN)

    def save() -> None:
        keep = keeper()
        keep.resume(RUN)
        keep.save(step, new, RUN)

    def found() -> str:
        try:
            checkpoint, skipped = keeper().resume(RUN)
        except UserError as error:
            return str(error)
        if checkpoint is None or skipped:
            return f"skipped {skipped}"
        if any(not entry.name.startswith("step-") for entry in directory.iterdir()):
            return "debris"
        read = {stem: checkpoint.tensors(stem) for stem in old}
        return "old" if _equal(read, old) else "new" if _equal(read, new) else "neither"

    return Scene(directory, prepare, save, found)


def _model_scene(lab: Lab) -> Scene:
    directory = lab.fresh()
    model = directory / "model"
    kept = {name: lab.save_model(lab.fresh(), seed=seed) for name, seed in (("old", 1), ("new", 2))}
    weights = {name: named_weights(load_model(path).model) for name, path in kept.items()}

    def prepare() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(kept["old"], model)

    def found() -> str:
        remove_leftovers(directory)
        try:
            read = named_weights(load_model(model).model)
        except UserError as error:
            return str(error)
        if [entry.name for entry in directory.iterdir()] != ["model"]:
            return "debris"
        return next((name for name, one in weights.items() if _equal({"": read}, {"": one})), "neither")

    return Scene(directory, prepare, partial(lab.save_model, model, seed=2), found)


def _equal(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(
        one[stem].keys() == other[stem].keys()
        and all(torch.equal(one[stem][name], other[stem][name]) for name in one[stem])
        for stem in one
    )


def _flushes(scene: Scene, lab: Lab) -> list[int]:
    scene.prepare()
    return [number for name, number in system_calls(scene.save, lab.folder / "strace.log") if name == "fsync"]


def _failed_flush(scene: Scene, number: int) -> bool:
    """Whether a save whose n-th fsync fails says so, and leaves what was there before and nothing else."""
    scene.prepare()
    outcome = in_child(scene.save, strace=("-e", "trace=fsync", "-e", f"inject=fsync:error=EIO:when={number}"))
    return _said(outcome, "input/output error") and _clean(scene.directory) and scene.found() in ("old", "new")


def _said(outcome: Outcome, words: str) -> bool:
    return outcome.how == "refused" and "could not" in outcome.message and words in outcome.message


def _clean(directory: Path) -> bool:
    return not any(entry.name.startswith(".") for entry in directory.iterdir())


def _pages_of_a_save(lab: Lab) -> int:
    path = Checkpoints(lab.fresh(), keep_last=1, keep_best=0).save(10, tensors_of(1), RUN)
    return sum(-(-file.stat().st_size // PAGE) for file in path.iterdir())


def _full_disk(lab: Lab, extra_pages: int) -> bool:
    """A save on a disk with so many pages left: none of these is enough."""
    with small_disk(lab.fresh(), 4 * 1024 * 1024) as disk:
        keep = Checkpoints(disk / "run", keep_last=2, keep_best=0)
        keep.save(10, tensors_of(1), RUN)
        fill_disk(disk, extra_pages * PAGE)
        outcome = in_child(lambda: keep.save(20, tensors_of(2), RUN))
        found, skipped = Checkpoints(disk / "run", keep_last=2, keep_best=0).resume(RUN)
        is_old = found is not None and found.step == 10 and _equal({"model": found.tensors("model")},
                                                                   {"model": tensors_of(1)["model"]})  # fmt: skip
        return _said(outcome, "no space left on device") and is_old and not skipped and _clean(disk / "run")


def _full_disk_while_training(lab: Lab) -> bool:
    """Something else fills the disk in the middle of a training; with room again, it ends with the same weights."""
    with small_disk(lab.fresh(), 16 * 1024 * 1024) as disk:
        run = disk / "run"
        process = lab.start(run, "training.accumulate=1")
        wait_for_step(run, process, 15)
        filler = fill_disk(disk)
        code = process.wait(60)
        stopped_at = last_step(run)
        whole = _clean(run / "checkpoints")
        filler.unlink()
        again = lab.train(run)
        same = weights_of(run) == weights_of(lab.reference)
        return code == 2 and 15 <= stopped_at < 60 and whole and again.returncode == 0 and same


def _damages(target: Path, lab: Lab) -> list[tuple[Path, bytes | None]]:
    """What each file becomes: cut, with a bit flipped, missing, or there although it should not be."""
    rng = random.Random(1)
    files = sorted(target.iterdir())
    damages: list[tuple[Path, bytes | None]] = []
    for number in range(lab.times(50, 12)):
        data = files[number % len(files)].read_bytes()
        damages.append((files[number % len(files)], data[: rng.randrange(len(data))]))
    for number in range(lab.times(1000, 40)):
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


def _resumed_over_damage(lab: Lab) -> bool:
    """On the command line: the damaged one is named, the one before it resumed, the end the same."""
    run = lab.fresh()
    lab.killed(run, 25)
    weights = run / "checkpoints" / "step-00000020" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    put(weights, bytes(data))
    done = lab.train(run)
    told = "skipped step-00000020" in done.stderr and "is damaged" in done.stderr and "after step 10" in done.stderr
    return done.returncode == 0 and told and weights_of(run) == weights_of(lab.reference)
