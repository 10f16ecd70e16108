"""Small texts, and a trainer that takes a few steps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.paper.rows import Trainer
from regard.paper.texts import PaperText, own_text
from regard.run import Callbacks

from ..digits import write_digits


class Recorder(Callbacks):
    """Counts the training steps, and keeps the rows that were announced."""

    def __init__(self) -> None:
        self.n_steps = 0
        self.rows: list[dict[str, Any]] = []

    def on_event(self, event: str, **fields: Any) -> None:
        self.n_steps += event == "step"
        if event == "row":
            self.rows.append(fields)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def digits(tmp_path: Path) -> PaperText:
    """300 short pairs, of which some are held out."""
    source, target = write_digits(tmp_path, 300, seed=1)
    return own_text(tmp_path / "data", (source, target), None, None)


@pytest.fixture
def make_trainer(tmp_path: Path, recorder: Recorder) -> Callable[..., Trainer]:
    def make(text: PaperText, steps: int = 3) -> Trainer:
        training = {"steps": steps, "translated": 4, "precision": "float32", "two_processes": "off"}
        return Trainer(tmp_path / "out", {"data": text.data, "training": training}, recorder)

    return make
