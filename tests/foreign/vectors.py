"""A task that regard does not have: float vectors → class, and for some vectors also a second class, "side".

Two inputs of different dtype (the vector, and a mask of the values that are known), two losses with different counts:
in some batches one half, and in some updates the whole, has no targets for the second loss. Importing this module
registers the task and its one architecture.

The files have one JSON object per line: {"x": [0.5, null, …], "class": 2, "side": 1 or null}.

B examples, F features, C classes, D width
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, Field
from torch import nn

from regard.artifact import Description, LoadedModel, load_described
from regard.data import NO_TARGET, Batch, Place
from regard.errors import DataError, RunError, UserError
from regard.metrics import Measure
from regard.models import ARCHITECTURES, Architecture, Model, ModelConfig, Term
from regard.nn import Dropout, Trace
from regard.tasks import TASKS, Data, Evaluation, Examined, OnProgress, Task
from regard.training import TrainingConfig, Validation
from regard.training.validation import score_terms

FullPath = Annotated[Path, AfterValidator(Path.absolute)]


class VectorsConfig(ModelConfig, frozen=True, extra="forbid"):
    """Sizes."""

    d_hidden: int = Field(default=16, ge=1, le=4096)

    @property
    def width(self) -> int:
        return self.d_hidden

    def describe(self) -> str:
        return f"one layer of {self.d_hidden}"


class VectorClassifier(Model):
    """A hidden layer over the known values, and two softmaxes over it."""

    matrices: ClassVar[dict[str, int]] = {"hidden.weight": 1}

    def __init__(self, config: VectorsConfig, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.config: VectorsConfig = config
        self.hidden = nn.Linear(n_features, config.d_hidden)
        self.dropout = Dropout(config.dropout)
        self.main = nn.Linear(config.d_hidden, n_classes)
        self.side = nn.Linear(config.d_hidden, 2, bias=False)

    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        values, is_known = batch.inputs  # (B, F) float32, (B, F) bool
        states = self.hidden(values.masked_fill(~is_known, 0.0)).relu()  # (B, D)
        if trace is not None:
            trace.record("hidden.states", states, kind="state", axes=("unit",))
        states = self.dropout(states)
        return (
            Term("class", states, self.main.weight, self.main.bias, batch.targets[0]),
            Term("side", states, self.side.weight, None, batch.targets[1], scale=0.5),
        )


class VectorsSection(BaseModel, frozen=True, extra="forbid"):
    """The [data] section."""

    train: FullPath
    validation: FullPath
    fingerprint: str | None = None


@dataclass(frozen=True)
class Vectors:
    """All lines of a file, in memory."""

    lines: list[dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Vectors:
        try:
            return cls([json.loads(line) for line in path.read_text().splitlines()])
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is not a file of vectors: {error}") from error

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def lengths(self) -> tuple[NDArray[np.int32], ...]:
        return (np.zeros(len(self.lines), dtype=np.int32),)

    def collate(self, indices: NDArray[np.integer], place: Place) -> Batch:
        lines = [self.lines[i] for i in indices]
        rows = [[0.0 if x is None else x for x in line["x"]] for line in lines]
        values = torch.tensor(rows, dtype=torch.float32)
        is_known = torch.tensor([[x is not None for x in line["x"]] for line in lines])
        classes = torch.tensor([line["class"] for line in lines])
        sides = torch.tensor([NO_TARGET if line["side"] is None else line["side"] for line in lines])
        counts = (len(lines), int((sides != NO_TARGET).sum()))
        return Batch((values, is_known), (classes, sides), counts, place, indices.astype(np.int64))


@dataclass(frozen=True)
class VectorPrediction:
    """A class and its probability."""

    label: str
    probability: float

    @property
    def text(self) -> str:
        return f"{self.label}\t{self.probability:.4f}"

    def to_dict(self) -> dict[str, Any]:
        return {"label": self.label, "probability": self.probability}


class VectorPredictor:
    """Takes lists of numbers, or their JSON."""

    def __init__(self, loaded: LoadedModel, labels: list[str]) -> None:
        self.loaded, self.labels = loaded, labels

    def batch(self, inputs: Sequence[Any]) -> Batch:
        n_features = self.loaded.model.hidden.in_features
        rows = [self._row(value, n_features) for value in inputs]
        return Vectors(rows).collate(np.arange(len(rows)), Place())

    def _row(self, value: Any, n_features: int) -> dict[str, Any]:
        try:
            numbers = json.loads(value) if isinstance(value, str) else value
            if len(numbers) == n_features and all(x is None or float(x) == float(x) for x in numbers):
                return {"x": numbers, "class": 0, "side": None}
        except (ValueError, TypeError):
            pass
        raise UserError(f"an input must be a list of {n_features} numbers", hint="such as [0.5, 1, null]")

    def predict(self, inputs: Sequence[Any]) -> list[VectorPrediction]:
        if not inputs:
            return []
        with torch.inference_mode():
            term, _ = self.loaded.model.terms(self.batch(inputs))
            best = (term.hidden @ term.weight.t() + term.bias).softmax(-1).max(-1)
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [VectorPrediction(self.labels[i], p) for i, p in pairs]

    def close(self) -> None:
        pass


class VectorTask(Task[Data]):
    """Float vectors → class."""

    name = "vectors"
    title = "A classifier of vectors"
    usage = 'echo "[0.5, 1, 2, 3]" | regard predict this/folder'
    sections: ClassVar = {"data": VectorsSection}
    architecture = "vector-classifier"
    measures = (
        Measure("loss", "loss", 4, higher_is_better=False),
        Measure("error", "error", 1, higher_is_better=False, is_share=True),
        Measure("side_accuracy", "side accuracy", 1, higher_is_better=True, is_share=True),
    )
    unit = "vectors"

    def examine(self, recipe: Any, on_progress: OnProgress) -> Examined:
        return Examined({"data": {"fingerprint": _fingerprint(recipe.data)}})

    def prepare(self, recipe: Any, parent: Description | None, cache: Path, on_progress: OnProgress) -> Data:
        if _fingerprint(recipe.data) != recipe.data.fingerprint:
            raise RunError("the vectors have changed since this run began")
        train, validation = Vectors.read(recipe.data.train), Vectors.read(recipe.data.validation)
        labels = [f"class {i}" for i in range(1 + max(line["class"] for line in train.lines))]
        return Data(
            train=train,
            validation=validation,
            collate=train.collate,
            collate_validation=validation.collate,
            n_targets=len(train),
            sizes={"n_features": len(train.lines[0]["x"]), "n_classes": len(labels)},
            assets={"labels.json": json.dumps(labels).encode()},
            facts={},
        )

    def describe_data(self, recipe: Any, data: Data) -> str:
        return f"{recipe.data.train.name} ({len(data.train):,} vectors)"

    def validate(self, model: Any, data: Data, config: TrainingConfig, device: torch.device) -> Validation:
        scores = score_terms(model, data.validation_batches(config.max_tokens), device)
        main, side = scores["class"], scores["side"]
        metrics = {"loss": main.loss, "error": 1 - main.accuracy, "side_accuracy": side.accuracy}
        return Validation(metrics, ({"input": "the first vector", "output": "its class"},))

    def predictor(self, described: Description) -> VectorPredictor:
        loaded = load_described(described)
        return VectorPredictor(loaded, json.loads(described.read_asset("labels.json", 100_000)))

    def evaluate(self, predictor: VectorPredictor, files: Sequence[Path]) -> Evaluation:
        lines = [line for file in files for line in Vectors.read(file).lines]
        predictions = predictor.predict([line["x"] for line in lines])
        right = [p.label == f"class {line['class']}" for p, line in zip(predictions, lines, strict=True)]
        return Evaluation({"error": 1 - sum(right) / len(right)}, len(right))

    def look(self, described: Description, value: Any) -> Any:
        from regard.lens.inspect import inspect

        predictor = self.predictor(described)
        return inspect(predictor.loaded.model, predictor.batch([value]), predictor.predict([value])[0].to_dict())


def _fingerprint(data: Any) -> str:
    return hashlib.sha256(data.train.read_bytes() + b"\0" + data.validation.read_bytes()).hexdigest()


def write_vectors(path: Path, n: int, seed: int, n_features: int = 6, n_classes: int = 3) -> Path:
    """Vectors around one centre per class; a third of the lines, in blocks, have a side."""
    rng = np.random.default_rng(seed)
    centres = 2 * np.eye(n_classes, n_features)
    with path.open("w") as file:
        for number in range(n):
            label = int(rng.integers(n_classes))
            x = [round(float(value), 3) for value in centres[label] + rng.normal(0, 0.4, n_features)]
            side = int(x[0] > 1) if number % 12 < 4 else None
            known = [None if rng.random() < 0.05 else value for value in x]
            file.write(json.dumps({"x": known, "class": label, "side": side}) + "\n")
    return path


TASKS["vectors"] = VectorTask()
ARCHITECTURES["vector-classifier"] = Architecture(
    models={"vectors": VectorClassifier},
    config=VectorsConfig,
    presets={"tiny": VectorsConfig(), "small": VectorsConfig(d_hidden=64)},
)
