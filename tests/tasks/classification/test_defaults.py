"""What is chosen for a classifier where the recipe has no value; nothing is trained."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.run import Callbacks
from regard.run import plan as module
from regard.run.plan import plan_run
from regard.training import Workers

from ...labelled import write_labelled


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes 20 ms, and preparation no time."""
    monkeypatch.setattr(module, "_measure_speed", lambda *_: module.Speed(0.02, 1))
    monkeypatch.setattr(module, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(module, "has_fast_bfloat16", lambda _: False)


def plan(tmp_path: Path, **training: Any) -> Any:
    data = {"train": [{"labels": str(write_labelled(tmp_path / "a.tsv", 2000))}]}
    raw = {"task": "classification", "data": data, "training": training}
    return plan_run(raw, tmp_path / "run", True, torch.device("cpu"), Workers(), Callbacks(), started_at=0.0)


def test_the_best_checkpoints_count_and_each_is_validated(tmp_path: Path) -> None:
    prepared = plan(tmp_path)
    training = prepared.recipe.training
    assert (training.average_of, training.average, training.best_by) == ("best", 3, "loss")
    assert training.save_every == training.validate_every < training.steps / 4
    assert prepared.recipe.model.architecture == "encoder"
    epochs = training.steps / len(prepared.loader.epoch_order(0))
    assert epochs == pytest.approx(5, rel=0.05)


def test_one_given_interval_is_used_for_both(tmp_path: Path) -> None:
    training = plan(tmp_path, validate_every=7).recipe.training
    assert (training.save_every, training.validate_every) == (7, 7)


def test_budget_sets_the_number_of_steps(tmp_path: Path) -> None:
    training = plan(tmp_path, budget_seconds=60.0, schedule="cooldown").recipe.training
    assert 60 / 0.02 * 0.8 < training.steps < 60 / 0.02
    assert training.budget_seconds == 60
