"""A training without a recipe has the batches and the rates of the paper (section 4.2), not those of sentences."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.run import Callbacks
from regard.run import plan as module
from regard.run.plan import plan_run
from regard.training import Workers
from ...stories import write_stories


@pytest.mark.parametrize(("processes", "batch"), [(1, 32), (2, 16)])
def test_updates_have_32_questions(processes: int, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_measure_speed", lambda *_: module.Speed(0.001, 1))
    files: list[Any] = [str(write_stories(tmp_path / "stories.txt", n_stories=500))]
    raw = {
        "task": "answering",
        "model": {"architecture": "memory-network"},
        "data": {"train": files},
        "training": {"processes": processes},
    }
    recipe = plan_run(raw, tmp_path / "run", True, torch.device("cpu"), Workers(), Callbacks(), started_at=0.0).recipe
    assert recipe.training.max_tokens == batch
    assert recipe.training.steps == pytest.approx(120 * 900 / 32, abs=120)
