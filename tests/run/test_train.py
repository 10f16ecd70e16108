"""A run as one call: what it tells of its time, and what it refuses to go on with."""

from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import torch

from regard.errors import RecipeError
from regard.run import Raw, Watcher, train
from regard.run.plan import settle
from regard.training import device

module = import_module("regard.run.train")  # the package exports the function of this name


class Events(Watcher):
    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}  # the last of each kind

    def event(self, event: str, **fields: Any) -> None:
        self.seen[event] = fields


def recipe(folder: Path, **training: Any) -> Raw:
    for side in ("source", "target"):
        (folder / side).write_text("".join(f"{side} sentence number {i * 7919 % 1000}\n" for i in range(300)))
    return {
        "data": {"train": [{"source": str(folder / "source"), "target": str(folder / "target")}]},
        "model": {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2},
        "training": {"max_tokens": 256, "translated": 0} | training,
    }


def test_what_comes_after_the_last_step_counts_into_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*args: Any, of: Any = module.finish) -> Any:
        sleep(1.0)
        return of(*args)

    monkeypatch.setattr(module, "finish", slowly)
    events = Events()
    train(recipe(tmp_path, steps=2), tmp_path / "run", watcher=events)
    assert events.seen["finished"]["elapsed_seconds"] >= events.seen["step"]["elapsed_seconds"] + 1.0


def test_steps_beside_a_budget_are_left_out_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "settle", lambda asked, *_: asked_for.append(asked) or 1 / 0)
    asked_for: list[Raw] = []
    events = Events()
    given = recipe(tmp_path, steps=9, warmup=3, schedule="cooldown", budget_seconds=60.0)
    with pytest.raises(ZeroDivisionError):
        train(given, tmp_path / "run", choose=True, watcher=events)
    assert events.seen["warning"]["message"].endswith("left out of the recipe: steps, warmup")
    assert not {"steps", "warmup"} & set(asked_for[0]["training"])


def test_a_run_in_bfloat16_is_not_gone_on_with_where_that_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = recipe(tmp_path, steps=2, precision="bfloat16")
    monkeypatch.setattr(device, "has_fast_bfloat16", lambda _: True)
    settle(given, tmp_path / "run", False, torch.device("cpu"), Watcher(), started_at=0.0)
    monkeypatch.setattr(device, "has_fast_bfloat16", lambda _: False)
    with pytest.raises(RecipeError, match=r"no fast bfloat16; hint: go on where the run began, or .*another directory"):
        train(given, tmp_path / "run", device="cpu")
