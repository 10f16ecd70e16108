"""Small texts, and a trainer that takes a few steps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.paper.rows import Trainer
from regard.paper.texts import PaperText, own_text, write_pairs
from regard.run import Callbacks

from ..digits import reversed_digits


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
def letters(tmp_path: Path) -> PaperText:
    """200 pairs of letters and the same letters reversed, of which some are held out, and 6 to test."""
    as_letters = str.maketrans("0123456789", "abcdefghij")
    pairs = [(source.translate(as_letters), target.translate(as_letters)) for source, target in reversed_digits(206, 1)]
    files = {name: (tmp_path / f"{name}.src", tmp_path / f"{name}.tgt") for name in ("train", "test")}
    write_pairs(files["train"], pairs[:200])
    write_pairs(files["test"], pairs[200:])
    return own_text(tmp_path / "data", files["train"], None, files["test"])


@pytest.fixture
def make_trainer(tmp_path: Path, recorder: Recorder) -> Callable[..., Trainer]:
    def make(text: PaperText, steps: int = 3) -> Trainer:
        training = {"steps": steps, "translated": 4, "precision": "float32", "two_processes": "off"}
        return Trainer(tmp_path / "out", {"data": text.data, "training": training}, recorder)

    return make
