"""A plan: with a budget, the speed of the smallest model decides the size; what is decided is written down."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.models import defaults
from regard.run import Callbacks, Raw, Recipe, read_recipe
from regard.run import plan as module
from regard.run.build import PreparedRun
from regard.run.plan import plan_run
from regard.training import Workers

SECONDS = {"tiny": 0.1, "small": 0.3, "tiny, bfloat16": 0.08}
N_PROCESSES = {"tiny": 1, "small": 2}


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The presets whose speed is measured, in order; nothing is trained."""
    presets: list[str] = []

    def seconds(out: Path, device: Any, workers: Workers, callbacks: Callbacks, prepared: PreparedRun) -> Any:
        recipe = prepared.recipe
        size = "tiny" if recipe.model.d_model == 128 else "small"
        presets.append(size if recipe.training.precision == "float32" else f"{size}, bfloat16")
        return module.Speed(SECONDS[presets[-1]], N_PROCESSES[size])

    monkeypatch.setattr(module, "_measure_speed", seconds)
    monkeypatch.setattr(module, "perf_counter", lambda: 0.0)  # preparation takes no time
    monkeypatch.setattr(defaults, "SMALL_CORPUS", 100)
    monkeypatch.setattr(defaults, "MIN_STEPS_FOR_SECOND_PRESET", 1000)
    monkeypatch.setattr(module, "has_fast_bfloat16", lambda _: False)
    return presets


@pytest.fixture
def fast_bfloat16(timed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_fast_bfloat16", lambda _: True)


class Events(Callbacks):
    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}  # the last of each kind

    def on_event(self, event: str, **fields: Any) -> None:
        self.seen[event] = fields


def plan(
    folder: Path,
    budget_seconds: float | None,
    training: Raw | None = None,
    fill_defaults: bool = True,
    callbacks: Callbacks | None = None,
    **model: Any,
) -> PreparedRun:
    for side in ("source", "target"):
        (folder / side).write_text("".join(f"{side} sentence number {i * 7919 % 1000}\n" for i in range(300)))
    raw: Raw = {"data": {"train": [{"source": str(folder / "source"), "target": str(folder / "target")}]}}
    raw |= {"model": model, "training": training or {}}
    if budget_seconds is not None:
        raw["training"] |= {"budget_seconds": budget_seconds, "schedule": "cooldown"}
    cpu = torch.device("cpu")
    return plan_run(raw, folder / "run", fill_defaults, cpu, Workers(), callbacks or Callbacks(), started_at=0.0)


def test_short_budget_uses_the_smallest_model(timed: list[str], tmp_path: Path) -> None:
    recipe = plan(tmp_path, 60.0).recipe
    assert timed == ["tiny"]
    assert recipe.model.d_model == 128
    assert recipe.training.steps == 550


def test_longer_budget_uses_a_larger_model_with_its_own_rate_and_steps(timed: list[str], tmp_path: Path) -> None:
    recipe = plan(tmp_path, 120.0).recipe
    assert timed == ["tiny", "small"]
    assert recipe.model.d_model == 256
    assert recipe.training.rate == pytest.approx(0.0025)
    assert recipe.training.steps == 383


def test_given_size_is_kept_and_measured_once(timed: list[str], tmp_path: Path) -> None:
    assert plan(tmp_path, 1e4, preset="tiny").recipe.model.d_model == 128
    assert timed == ["tiny"]


def test_without_budget_the_corpus_decides_the_size(timed: list[str], tmp_path: Path) -> None:
    assert plan(tmp_path, None).recipe.model.d_model == 256
    assert timed == ["small"]


@pytest.mark.parametrize("budget_seconds", [None, 90.0])
@pytest.mark.usefixtures("fast_bfloat16")
def test_bfloat16_is_the_default_where_it_is_fast(
    timed: list[str], tmp_path: Path, budget_seconds: float | None
) -> None:
    assert plan(tmp_path, budget_seconds, preset="tiny").recipe.training.precision == "bfloat16"
    assert timed == ["tiny, bfloat16"]


@pytest.mark.usefixtures("fast_bfloat16")
def test_given_precision_is_kept(timed: list[str], tmp_path: Path) -> None:
    assert plan(tmp_path, 90.0, {"precision": "float32"}).recipe.training.precision == "float32"
    assert timed == ["tiny"]


@pytest.mark.parametrize(("preset", "written"), [("tiny", "off"), ("small", "on")])
def test_number_of_processes_is_written_into_the_recipe(
    timed: list[str], tmp_path: Path, preset: str, written: str
) -> None:
    recipe = plan(tmp_path, None, preset=preset).recipe
    assert recipe.training.two_processes == written
    assert Recipe.build(read_recipe(tmp_path / "run" / "recipe.toml")) == recipe


def test_without_defaults_the_number_of_processes_is_written_too(timed: list[str], tmp_path: Path) -> None:
    prepared = plan(tmp_path, None, {"max_tokens": 256}, fill_defaults=False, preset="small")
    assert read_recipe(tmp_path / "run" / "recipe.toml")["training"]["two_processes"] == "on"
    assert prepared.recipe.training.steps == 100_000


def test_identity_of_a_run_is_the_digest_of_its_recipe_file(timed: list[str], tmp_path: Path) -> None:
    prepared = plan(tmp_path, None)
    assert prepared.identity == hashlib.sha256((tmp_path / "run" / "recipe.toml").read_bytes()).hexdigest()


def test_plan_names_the_task_the_architecture_and_the_measures(timed: list[str], tmp_path: Path) -> None:
    events = Events()
    plan(tmp_path, None, callbacks=events, preset="tiny")
    planned = events.seen["plan"]
    assert (planned["task"], planned["architecture"], planned["preset"]) == ("translation", "transformer", "tiny")
    assert (planned["size"], planned["unit"]) == ("4+4 layers of 128", "tokens")
    assert [measure["name"] for measure in planned["measures"]] == ["loss", "perplexity", "accuracy", "bleu", "chrf"]
    assert {"higher_is_better": True, "label": "BLEU", "digits": 1}.items() <= planned["measures"][3].items()
