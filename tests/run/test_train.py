"""`regard.train`: elapsed time, warnings, and runs that cannot be resumed."""

from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import torch

from regard.artifact import directory
from regard.errors import RecipeError
from regard.run import Callbacks, Raw, train
from regard.run.plan import plan_run
from regard.training import Workers, device

module = import_module("regard.run.train")  # the package exports the function of this name


class Events(Callbacks):
    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}  # the last of each kind

    def on_event(self, event: str, **fields: Any) -> None:
        self.seen[event] = fields


def recipe(folder: Path, **training: Any) -> Raw:
    for side in ("source", "target"):
        (folder / side).write_text("".join(f"{side} sentence number {i * 7919 % 1000}\n" for i in range(300)))
    return {
        "data": {"train": [{"source": str(folder / "source"), "target": str(folder / "target")}]},
        "model": {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2},
        "training": {"max_tokens": 256, "translated": 0} | training,
    }


def test_elapsed_time_includes_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*args: Any, of: Any = module.export_model) -> Any:
        sleep(1.0)
        return of(*args)

    monkeypatch.setattr(module, "export_model", slowly)
    events = Events()
    train(recipe(tmp_path, steps=2), tmp_path / "run", callbacks=events)
    assert events.seen["finished"]["elapsed_seconds"] >= events.seen["step"]["elapsed_seconds"] + 1.0


def test_steps_beside_a_budget_are_ignored_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "plan_run", lambda given, *_: planned.append(given) or 1 / 0)
    planned: list[Raw] = []
    events = Events()
    given = recipe(tmp_path, steps=9, warmup=3, schedule="cooldown", budget_seconds=60.0)
    with pytest.raises(ZeroDivisionError):
        train(given, tmp_path / "run", fill_defaults=True, callbacks=events)
    assert events.seen["warning"]["message"].endswith("ignored from the recipe: steps, warmup")
    assert not {"steps", "warmup"} & set(planned[0]["training"])


def test_bfloat16_run_cannot_be_resumed_where_bfloat16_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = recipe(tmp_path, steps=2, precision="bfloat16")
    monkeypatch.setattr(device, "has_fast_bfloat16", lambda _: True)
    plan_run(given, tmp_path / "run", False, torch.device("cpu"), Workers(), Callbacks(), started_at=0.0)
    monkeypatch.setattr(device, "has_fast_bfloat16", lambda _: False)
    with pytest.raises(RecipeError, match=r"no fast bfloat16; hint: resume on the machine .*, or .*another directory"):
        train(given, tmp_path / "run", device="cpu")


def test_parent_model_is_verified_once_per_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = recipe(tmp_path, steps=2)
    parent = train(given, tmp_path / "parent")
    verified: list[Path] = []

    def recorded(path: Path, of: Any = directory.verify_directory) -> Any:
        verified.append(path)
        return of(path)

    monkeypatch.setattr(directory, "verify_directory", recorded)
    del given["model"]
    train(given | {"start_from": str(parent)}, tmp_path / "run", fill_defaults=True)
    assert verified.count(parent) == 1
