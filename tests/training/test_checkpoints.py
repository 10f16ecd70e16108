"""A checkpoint is restored exactly or rejected, and rotation never removes one that is needed."""

import json
import os
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from regard.durable import commit_directory
from regard.errors import ArtifactError, RunError
from regard.models import load_weights, named_weights
from regard.training.checkpoints import (
    Checkpoints,
    load_optimizer_tensors,
    optimizer_tensors,
)

RUN = {"recipe": "r1", "corpus": "c1"}
FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")


class Tied(nn.Module):
    """Two names for one weight, a buffer, and a transposed parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.output = nn.Linear(3, 5)
        self.output.weight = self.embedding.weight
        self.slanted = nn.Parameter(torch.randn(4, 3).t())
        self.count: Tensor
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, ids: Tensor) -> Tensor:
        self.count += 1
        hidden: Tensor = self.embedding(ids) @ self.slanted @ self.slanted.t()
        logits: Tensor = self.output(hidden)
        return logits


def make(seed: int, fused: bool = True) -> tuple[Tied, torch.optim.Adam]:
    torch.manual_seed(seed)
    model = Tied()
    return model, torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9, fused=fused)


def train(model: Tied, optimizer: torch.optim.Adam, steps: range) -> None:
    for step in steps:
        ids = torch.arange(5).roll(step)
        loss = nn.functional.cross_entropy(model(ids), ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def save(checkpoints: Checkpoints, step: int, score: float | None = None, **state: Any) -> Path:
    model, optimizer = make(step)
    train(model, optimizer, range(1))
    tensors = {"model": named_weights(model), "optimizer": optimizer_tensors(optimizer, model)}
    return checkpoints.save(step, tensors, {**RUN, **state}, score)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", keep_last=2, keep_best=1)


def names(checkpoints: Checkpoints) -> list[str]:
    return [entry.name for entry in checkpoints.directory.iterdir()]


def resumed_step(checkpoints: Checkpoints) -> int:
    checkpoint, _ = checkpoints.resume(RUN)
    assert checkpoint is not None
    return checkpoint.step


@pytest.mark.parametrize("fused", [True, False])
def test_resumed_run_ends_with_identical_weights(checkpoints: Checkpoints, fused: bool) -> None:
    model, optimizer = make(1, fused)
    train(model, optimizer, range(7))
    tensors = {"model": named_weights(model), "optimizer": optimizer_tensors(optimizer, model)}
    state = {**RUN, "step": 7, "elapsed_seconds": 0.1 + 0.2, "best": None}
    checkpoints.save(7, tensors, state)
    train(model, optimizer, range(7, 20))

    again, other_optimizer = make(2, fused)
    checkpoint, skipped = checkpoints.resume(RUN)
    assert checkpoint is not None and not skipped
    assert checkpoint.state == state
    load_weights(again, checkpoint.tensors("model"))
    load_optimizer_tensors(other_optimizer, again, checkpoint.tensors("optimizer"))
    train(again, other_optimizer, range(7, 20))

    assert again.output.weight is again.embedding.weight
    for expected, actual in (
        (named_weights(model), named_weights(again)),
        (optimizer_tensors(optimizer, model), optimizer_tensors(other_optimizer, again)),
    ):
        assert expected.keys() == actual.keys()
        assert all(torch.equal(expected[name], actual[name]) for name in expected)


def test_checkpoint_before_the_first_step_can_be_resumed(checkpoints: Checkpoints) -> None:
    model, optimizer = make(1)
    checkpoints.save(0, {"model": named_weights(model), "optimizer": optimizer_tensors(optimizer, model)}, RUN)
    checkpoint, _ = checkpoints.resume(RUN)
    assert checkpoint is not None
    load_optimizer_tensors(optimizer, model, checkpoint.tensors("optimizer"))


def test_weights_of_another_shape_are_rejected_and_change_nothing() -> None:
    model, optimizer = make(1)
    train(model, optimizer, range(2))
    before = {name: tensor.clone() for name, tensor in named_weights(model).items()}
    name = "slanted"
    for wrong in (
        {key: value for key, value in before.items() if key != name},
        {**before, "more": torch.zeros(1)},
        {**before, name: torch.zeros(3, 5)},
        {**before, name: torch.zeros(3, 4, dtype=torch.float64)},
    ):
        with pytest.raises(ArtifactError, match=r"slanted|more"):
            load_weights(model, wrong)
        assert all(torch.equal(before[key], value) for key, value in named_weights(model).items())

    state = optimizer_tensors(optimizer, model)
    for wrong in (
        {key: value for key, value in state.items() if key != f"exp_avg/{name}"},
        {**state, "exp_avg/more": torch.zeros(1)},
        {**state, f"exp_avg/{name}": torch.zeros(3, 5)},
    ):
        with pytest.raises(ArtifactError, match=r"incomplete|more|slanted"):
            load_optimizer_tensors(optimizer, model, wrong)


def test_any_damaged_byte_is_detected_and_the_checkpoint_skipped(checkpoints: Checkpoints) -> None:
    good, target = save(checkpoints, 10), save(checkpoints, 20)
    rng = random.Random(1)
    n_detected = 0
    for name in FILES:
        data = (target / name).read_bytes()
        for place in rng.sample(range(8 * (len(data) - 1)), 40):
            flipped = bytearray(data)
            flipped[place // 8] ^= 1 << place % 8
            for damaged in (bytes(flipped), data[: place // 8]):
                (target / name).write_bytes(damaged)
                checkpoint, skipped = checkpoints.resume(RUN)
                if checkpoint is not None and checkpoint.path == target:
                    # only whitespace inside the manifest may change undetected
                    assert name == "manifest.json" and json.loads(damaged) == json.loads(data)
                    continue
                assert checkpoint is not None and checkpoint.path == good
                assert list(skipped) == [target.name]
                assert name in skipped[target.name] or name == "manifest.json"
                n_detected += 1
        (target / name).write_bytes(data)
    assert n_detected > 300
    assert resumed_step(checkpoints) == 20


@pytest.mark.parametrize("name", FILES)
def test_missing_or_added_file_is_detected(checkpoints: Checkpoints, name: str) -> None:
    save(checkpoints, 10)
    target = save(checkpoints, 20)
    (target / "added").write_text("")
    assert resumed_step(checkpoints) == 10
    (target / "added").unlink()
    (target / name).unlink()
    assert resumed_step(checkpoints) == 10


@pytest.mark.parametrize("put", ["link", "file", "fifo", "copy"])
def test_anything_else_with_the_name_of_a_checkpoint_is_skipped(checkpoints: Checkpoints, put: str) -> None:
    good = save(checkpoints, 10)
    fake = good.parent / "step-00000099"
    match put:
        case "link":
            fake.symlink_to(good)
        case "fifo":
            os.mkfifo(fake)
        case "copy":
            shutil.copytree(good, fake)
        case _:
            fake.write_text("")
    checkpoint, skipped = checkpoints.resume(RUN)
    assert checkpoint is not None and checkpoint.step == 10
    assert list(skipped) == [fake.name]


def test_unusable_checkpoints_raise_instead_of_starting_again(checkpoints: Checkpoints) -> None:
    assert checkpoints.resume(RUN) == (None, {})
    for step in (10, 20):
        (save(checkpoints, step) / "state.json").unlink()
    with pytest.raises(RunError, match=r"none of the 2 checkpoints in .* can be used: .*state\.json is missing; hint"):
        checkpoints.resume(RUN)


@pytest.mark.parametrize("put", ["file", "link to nowhere"])
def test_checkpoint_path_that_is_not_a_directory_raises_before_the_first_step(
    checkpoints: Checkpoints, put: str
) -> None:
    if put == "file":
        checkpoints.directory.write_text("")
    else:
        checkpoints.directory.symlink_to("unmounted")
    with pytest.raises(RunError, match="checkpoints is not a directory; hint: move it away"):
        checkpoints.resume(RUN)


class Bomb:
    """Creates a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("protocol", [0, 4])
def test_pickle_in_place_of_any_file_is_never_executed(checkpoints: Checkpoints, name: str, protocol: int) -> None:
    marker = checkpoints.directory.parent / "executed"
    data = pickle.dumps(Bomb(marker), protocol=protocol)

    def write(temporary: Path) -> None:
        for stem in FILES[:3]:
            (temporary / stem).write_bytes(data if stem == name else b"{}")

    commit_directory(checkpoints.directory / "step-00000010", write)  # anybody can write a valid manifest
    if name == "manifest.json":
        (checkpoints.directory / "step-00000010" / name).write_bytes(data)
    with pytest.raises(RunError):
        checkpoints.resume(RUN)

    path = save(checkpoints, 20)
    checkpoint = checkpoints.open(20)
    (path / name).write_bytes(data)
    for stem in ("model", "optimizer"):
        if name.startswith(stem):
            with pytest.raises(ArtifactError, match="not a safetensors file"):
                checkpoint.tensors(stem)
    assert not marker.exists()


def test_checkpoint_of_another_recipe_or_corpus_is_rejected_with_the_reason(checkpoints: Checkpoints) -> None:
    save(checkpoints, 10)
    with pytest.raises(RunError, match="belong to another corpus; hint: resume with the original corpus"):
        checkpoints.resume({**RUN, "corpus": "c2"})
    with pytest.raises(RunError, match="belong to another recipe and corpus"):
        checkpoints.resume({"recipe": "r2", "corpus": "c2"})


def test_checkpoints_of_another_run_do_not_affect_rotation(checkpoints: Checkpoints) -> None:
    stale = Checkpoints(checkpoints.directory, keep_last=9, keep_best=0)
    for step in (700, 800, 900):
        save(stale, step, score=0.1, recipe="another")
    damaged = save(stale, 600)
    (damaged / "state.json").unlink()
    checkpoints.directory.rename(checkpoints.directory.parent / "kept")
    save(checkpoints, 10, score=1.0)
    save(checkpoints, 20, score=3.0)
    for entry in (checkpoints.directory.parent / "kept").iterdir():
        entry.rename(checkpoints.directory / entry.name)

    again = Checkpoints(checkpoints.directory, keep_last=2, keep_best=1)
    checkpoint, skipped = again.resume(RUN)
    assert checkpoint is not None and checkpoint.step == 20
    assert [name[-3:] for name in skipped] == ["900", "800", "700", "600"]
    for step in (30, 40, 50):
        path = save(again, step, score=2.0)
        assert path.is_dir()
        assert {10, step - 10, step} <= set(again.steps())
    assert again.steps() == [10, 40, 50, 600, 700, 800, 900]
    assert [checkpoint.step for checkpoint in again.best(1)] == [10]


def test_damaged_checkpoint_is_replaced_when_its_step_is_saved_again(checkpoints: Checkpoints) -> None:
    save(checkpoints, 10)
    (save(checkpoints, 20) / "model.safetensors").write_bytes(b"")
    again = Checkpoints(checkpoints.directory, keep_last=2, keep_best=1)
    assert resumed_step(again) == 10
    save(again, 20)
    assert resumed_step(again) == 20
    assert again.steps() == [10, 20]


def test_rotation_keeps_the_newest_and_the_best(checkpoints: Checkpoints) -> None:
    for step, score in ((10, 5.0), (20, 1.0), (30, None), (40, 2.0), (50, float("nan")), (60, 3.0)):
        save(checkpoints, step, score)
    assert checkpoints.steps() == [20, 50, 60]
    assert [checkpoint.step for checkpoint in checkpoints.last(5)] == [20, 50, 60]
    assert [checkpoint.step for checkpoint in checkpoints.best(2)] == [20, 60]
    again = Checkpoints(checkpoints.directory, keep_last=2, keep_best=1)
    assert resumed_step(again) == 60
    save(again, 70, 0.5)
    assert again.steps() == [60, 70]


def test_resume_removes_temporary_files_of_a_killed_save(checkpoints: Checkpoints) -> None:
    save(checkpoints, 10)
    (checkpoints.directory / ".step-00000020.writing-0123abcd").mkdir()
    (checkpoints.directory / ".step-00000020.writing-0123abcd" / "model.safetensors").write_bytes(b"half")
    assert resumed_step(checkpoints) == 10
    assert names(checkpoints) == ["step-00000010"]


def test_failed_save_leaves_earlier_checkpoints_intact(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(checkpoints, 10)

    def fsync(descriptor: int) -> None:
        raise OSError(5, os.strerror(5))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(RunError, match=r"could not save .*step-00000020: input/output error"):
            save(checkpoints, 20)
    assert names(checkpoints) == ["step-00000010"]
    assert resumed_step(checkpoints) == 10


def test_full_disk_inside_safetensors_raises_run_error(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: object, path: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("regard.models.weights.save_file", full)
    with pytest.raises(RunError, match="no space left on device; hint: free some disk space"):
        save(checkpoints, 10)
    assert names(checkpoints) == []


def test_bytes_needed_counts_checkpoints_that_are_not_written_yet(checkpoints: Checkpoints) -> None:
    model, _ = make(1)
    once = 3 * sum(tensor.nbytes for tensor in named_weights(model).values())
    assert checkpoints.bytes_needed(model, 3) == 4 * once
    save(checkpoints, 10)
    assert checkpoints.bytes_needed(model, 3) == 3 * once


def test_files_have_the_permissions_of_the_umask(checkpoints: Checkpoints) -> None:
    umask = os.umask(0o022)
    try:
        path = save(checkpoints, 10)
    finally:
        os.umask(umask)
    assert {file.stat().st_mode & 0o777 for file in path.iterdir()} == {0o644}
