"""A training without a recipe has the batches and the rates of the paper (section 4.2), not those of sentences."""

from pathlib import Path
from typing import Any

import pytest

from regard.run import Callbacks
from regard.run.plan import Speed, complete, examine_and_prepare

from ...stories import write_stories


@pytest.mark.parametrize(("processes", "batch"), [(1, 32), (2, 16)])
def test_updates_have_32_questions(processes: int, batch: int, tmp_path: Path) -> None:
    files = [str(write_stories(tmp_path / "stories.txt", n_stories=500))]
    given: dict[str, Any] = {"task": "answering", "model": {"architecture": "memory-network"}}
    given |= {"data": {"train": files}, "training": {"processes": processes}}
    (tmp_path / "run").mkdir()
    prepared, values = examine_and_prepare(given, tmp_path / "run", Callbacks())
    prepared, _ = complete(prepared, values, True, lambda _: Speed(0.001, 1), fast_bfloat16=False, started_at=0.0)
    training = prepared.recipe.training
    assert training.max_tokens == batch
    assert training.steps == pytest.approx(120 * len(prepared.data.train) / 32, rel=0.05)
