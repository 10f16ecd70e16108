"""A task that regard does not have: numbers → the sign of their sum. Its "model" is a directory without weights."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.artifact import Description
from regard.durable import commit_directory
from regard.errors import UserError
from regard.metrics import Measure
from regard.tasks import TASKS, Data, Evaluation, Task


@dataclass(frozen=True)
class Sign:
    """A prediction."""

    label: str
    total: float

    @property
    def text(self) -> str:
        return self.label

    def to_dict(self) -> dict[str, Any]:
        return {"label": self.label, "total": self.total}


@dataclass(frozen=True)
class SignLook:
    """What the model saw: a line of numbers."""

    value: str

    @property
    def n_numbers(self) -> int:
        return len(self.value.split())

    def to_dict(self, arrays: str) -> dict[str, Any]:
        return {"looked at": self.value, "arrays": arrays}


class SignPredictor:
    """Takes numbers: as a line of text, or as a list. Records its threads and batches."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.threads: set[str] = set()
        self.closed = False
        self.in_batch: Callable[[], Any] = lambda: None

    def predict(self, inputs: Sequence[Any]) -> list[Sign]:
        self.batches.append(list(inputs))
        self.threads.add(threading.current_thread().name)
        self.in_batch()
        totals = [self._total(value) for value in inputs]
        return [Sign("positive" if total > 0 else "negative", total) for total in totals]

    def close(self) -> None:
        self.closed = True

    def _total(self, value: Any) -> float:
        try:
            return float(sum(map(float, value.split() if isinstance(value, str) else value)))
        except (TypeError, ValueError) as error:
            raise UserError("an input must be numbers", hint='such as "1 -2.5"') from error


class SignTask(Task[Data]):
    """Has no training: `load`, `predict`, `evaluate` and `serve` need none."""

    name = "sign"
    title = "Signs of sums"
    usage = "echo 1 | regard predict this/folder"
    sections: ClassVar = {}
    architecture = "none"
    measures = (
        Measure("loss", "loss", 4, higher_is_better=False),
        Measure("right", "right signs", 1, higher_is_better=True, is_share=True),
        Measure("mean", "mean sum", 3, higher_is_better=True),
    )

    def __init__(self) -> None:
        self.predictors: list[SignPredictor] = []

    def predictor(self, described: Description) -> SignPredictor:
        self.predictors.append(SignPredictor())
        return self.predictors[-1]

    def evaluate(self, predictor: SignPredictor, files: Sequence[Path]) -> Evaluation:
        """Lines: numbers, a tab, their sign."""
        lines = [line.split("\t") for file in files for line in file.read_text().splitlines()]
        signs = predictor.predict([numbers for numbers, _ in lines])
        right = sum(sign.label == expected for sign, (_, expected) in zip(signs, lines, strict=True))
        metrics = {"mean": sum(sign.total for sign in signs) / len(signs), "right": right / len(signs)}
        return Evaluation(metrics, len(signs))

    def examine(self, *_: Any) -> Any:
        raise NotImplementedError

    prepare = describe_data = validate = examine

    def look(self, described: Description, value: Any) -> SignLook:
        SignPredictor().predict([value])
        return SignLook(value)


@contextmanager
def registered() -> Iterator[SignTask]:
    """The task, as a foreign module registers it when it is imported."""
    task = TASKS["sign"] = SignTask()
    yield task
    del TASKS["sign"]


def write_sign_model(directory: Path) -> Path:
    content = {"format": 1, "task": "sign", "architecture": "adder", "model": {"n_terms": 2}, "size": "2 terms"}
    content |= {"sizes": {"n": 1}, "facts": {}}
    commit_directory(directory, lambda aside: (aside / "config.json").write_text(json.dumps(content)))
    return directory
