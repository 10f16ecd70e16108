"""The machine's speed on the smallest model decides, with a budget, whether there is time for a larger one."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.run import Raw, Watcher, defaults
from regard.run import plan as module
from regard.run.build import Prepared
from regard.run.plan import settle

SECONDS = {"tiny": 0.1, "small": 0.3, "tiny, bfloat16": 0.08}


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The presets that are timed, in turn; nothing is really trained."""
    found: list[str] = []

    def seconds(prepared: Prepared, *_: Any) -> float:
        recipe = prepared.recipe
        size = "tiny" if recipe.model.d_model == 128 else "small"
        found.append(size if recipe.training.precision == "float32" else f"{size}, bfloat16")
        return SECONDS[found[-1]]

    monkeypatch.setattr(module, "_seconds_a_step", seconds)
    monkeypatch.setattr(module, "perf_counter", lambda: 0.0)  # preparing takes no time
    monkeypatch.setattr(defaults, "SMALL_CORPUS", 100)
    monkeypatch.setattr(defaults, "STEPS_FOR_SMALL", 1000)
    monkeypatch.setattr(module, "has_fast_bfloat16", lambda _: False)
    return found


@pytest.fixture
def fast_bfloat16(timed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_fast_bfloat16", lambda _: True)


def settled(folder: Path, budget_seconds: float | None, training: Raw | None = None, **model: Any) -> Prepared:
    for side in ("source", "target"):
        (folder / side).write_text("".join(f"{side} sentence number {i * 7919 % 1000}\n" for i in range(300)))
    raw: Raw = {"data": {"train": [{"source": str(folder / "source"), "target": str(folder / "target")}]}}
    raw |= {"model": model, "training": training or {}}
    if budget_seconds is not None:
        raw["training"] |= {"budget_seconds": budget_seconds, "schedule": "cooldown"}
    return settle(raw, folder / "run", True, torch.device("cpu"), Watcher(), started_at=0.0)


def test_a_short_time_is_for_the_smallest_model(timed: list[str], tmp_path: Path) -> None:
    recipe = settled(tmp_path, 60.0).recipe
    assert timed == ["tiny"]
    assert recipe.model.d_model == 128
    assert recipe.training.steps == 550


def test_a_longer_time_is_for_a_larger_one_with_its_own_rate_and_steps(timed: list[str], tmp_path: Path) -> None:
    recipe = settled(tmp_path, 120.0).recipe
    assert timed == ["tiny", "small"]
    assert recipe.model.d_model == 256
    assert recipe.training.rate == pytest.approx(0.0025)
    assert recipe.training.steps == 383


def test_a_size_that_was_asked_for_stays_and_is_timed_once(timed: list[str], tmp_path: Path) -> None:
    assert settled(tmp_path, 1e4, preset="tiny").recipe.model.d_model == 128
    assert timed == ["tiny"]


def test_without_a_budget_the_text_alone_decides(timed: list[str], tmp_path: Path) -> None:
    assert settled(tmp_path, None).recipe.model.d_model == 256
    assert timed == ["small"]


@pytest.mark.parametrize("budget_seconds", [None, 90.0])
@pytest.mark.usefixtures("fast_bfloat16")
def test_bfloat16_is_taken_where_it_is_fast(timed: list[str], tmp_path: Path, budget_seconds: float | None) -> None:
    assert settled(tmp_path, budget_seconds, preset="tiny").recipe.training.precision == "bfloat16"
    assert timed == ["tiny, bfloat16"]


@pytest.mark.usefixtures("fast_bfloat16")
def test_a_precision_that_was_asked_for_stays(timed: list[str], tmp_path: Path) -> None:
    assert settled(tmp_path, 90.0, {"precision": "float32"}).recipe.training.precision == "float32"
    assert timed == ["tiny"]
