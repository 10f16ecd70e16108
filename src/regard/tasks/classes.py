"""What all tasks share whose examples have one of several classes: labels, probabilities, measures, calibration.

B batch, N examples, C classes
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.artifact import Description, LoadedModel, load_described
from regard.artifact.directory import COPY_AGAIN
from regard.data import Examples
from regard.errors import ArtifactError
from regard.evaluate.classes import Confusion, calibration_error
from regard.metrics import Measure
from regard.models import ClassificationModel
from regard.tasks.task import Data, Evaluation, Task
from regard.text import sort_labels
from regard.training import TrainingConfig, Validation
from regard.training.validation import evaluation_mode

LABELS_FILE = "labels.json"
_MAX_LABELS_BYTES = 1_000_000
_SHOWN_LABELS = 10


@dataclass(frozen=True)
class Classification:
    """The most probable label of an example, and the probabilities of all labels."""

    label: str
    probability: float
    probabilities: Mapping[str, float]  # in the order of the labels

    @property
    def text(self) -> str:
        return f"{self.label}\t{self.probability:.4f}"

    def to_dict(self) -> dict[str, Any]:
        return {"label": self.label, "probability": self.probability, "probabilities": dict(self.probabilities)}


class LabelPredictor:
    """A loaded model with its labels and temperature."""

    def __init__(self, loaded: LoadedModel, labels: Sequence[str]) -> None:
        self.model, self.labels = loaded.model, tuple(labels)
        temperature = loaded.facts.get("temperature", 1.0)
        is_number = isinstance(temperature, int | float) and isfinite(temperature) and temperature > 0
        self.temperature = float(temperature) if is_number else 1.0

    def predictions(self, logits: Tensor) -> list[Classification]:
        """(B, C) → the calibrated probabilities of each example."""
        probabilities = (logits.double() / self.temperature).softmax(-1)
        return [
            Classification(self.labels[int(np.argmax(row))], max(row), dict(zip(self.labels, row, strict=True)))
            for row in probabilities.tolist()
        ]

    def close(self) -> None:
        """Nothing is open."""


def load_labelled(described: Description) -> tuple[LoadedModel, list[str]]:
    """A model and its labels, one for each class."""
    loaded, labels = load_described(described), read_labels(described)
    if len(labels) != described.sizes.get("n_classes"):
        path = described.directory / LABELS_FILE
        raise ArtifactError(f"{path}: {len(labels)} labels, but the model has other classes", hint=COPY_AGAIN)
    return loaded, labels


def read_labels(described: Description) -> list[str]:
    """The labels of a model, in the order of its classes."""
    try:
        labels = json.loads(described.read_asset(LABELS_FILE, _MAX_LABELS_BYTES))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{described.directory / LABELS_FILE} is not JSON", hint=COPY_AGAIN) from error
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ArtifactError(f"{described.directory / LABELS_FILE} is not a list of labels", hint=COPY_AGAIN)
    return labels


def count_labels(labels: Sequence[str]) -> str:
    """How often each label occurs, for a report."""
    counts = Counter(labels)
    names = sort_labels(counts)
    shown = ", ".join(f"{name} ({counts[name]:,})" for name in names[:_SHOWN_LABELS])
    more = f", and {len(names) - _SHOWN_LABELS:,} more" if len(names) > _SHOWN_LABELS else ""
    return f"labels {shown}{more}"


def fit_temperature(logits: Tensor, classes: Tensor) -> float:
    """The temperature with the lowest loss of softmax(logits / T) (Guo et al., 2017): (N, C), (N,).

    One more example of each class is assumed (Platt, 1999): N right answers do not prove a probability of 1.
    """
    logits, low, high = logits.double(), np.log(0.05), np.log(20.0)
    n_examples, n_classes = logits.shape

    def loss(log_temperature: float) -> float:
        scaled, smoothing = logits / float(np.exp(log_temperature)), n_classes / (n_examples + n_classes)
        return float(torch.nn.functional.cross_entropy(scaled, classes, label_smoothing=smoothing))

    golden = (np.sqrt(5) - 1) / 2
    for _ in range(40):  # golden-section search: the loss is convex in 1/T, so it has one minimum
        a, b = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, b) if loss(a) <= loss(b) else (a, high)
    return round(float(np.exp((low + high) / 2)), 6)


class LabelledExamples(Examples, Protocol):
    """Examples, and the class of each."""

    @property
    def classes(self) -> NDArray[np.int64]:
        """(N,)"""
        ...


@dataclass(frozen=True, kw_only=True)
class LabelledData(Data):
    """Examples with a class each."""

    validation: LabelledExamples
    labels: tuple[str, ...]
    samples: Mapping[int, dict[str, str]]  # some validation examples for the report, by their number


D = TypeVar("D", bound=LabelledData)


class LabelTask(Task[D]):
    """A task whose measures are those of a confusion matrix."""

    measures = (
        Measure("loss", "loss", 4, higher_is_better=False),
        Measure("accuracy", "accuracy", 1, higher_is_better=True, is_share=True),
        Measure("macro_f1", "macro F1", 1, higher_is_better=True, is_share=True),
        Measure("matthews", "Matthews", 3, higher_is_better=True),
    )
    test_measures = (Measure("calibration_error", "calibration error", 1, higher_is_better=False, is_share=True),)

    def continues(self, parent: Description, data: D) -> bool:
        """Only with the same labels the softmax is the parent's too."""
        return parent.task == self.name and read_labels(parent) == list(data.labels)

    def validate(self, model: ClassificationModel, data: D, config: TrainingConfig, device: torch.device) -> Validation:
        logits, classes = _logits(model, data, config, device)
        predicted = logits.argmax(-1)
        loss = float(torch.nn.functional.cross_entropy(logits, classes))
        confusion = Confusion.of(data.labels, classes.tolist(), predicted.tolist())
        samples = tuple(sample | {"predicted": data.labels[predicted[i]]} for i, sample in data.samples.items())
        return Validation({"loss": loss} | confusion.measures, samples)

    def finish(self, loaded: LoadedModel, data: D, config: TrainingConfig, device: torch.device) -> dict[str, Any]:
        """The temperature that calibrates the probabilities."""
        with evaluation_mode(loaded.model):
            return {"temperature": fit_temperature(*_logits(loaded.model, data, config, device))}


def evaluation_of(
    labels: Sequence[str],
    gold: Sequence[int],
    predictions: Sequence[Classification],
    names: str,
    examples: str,
    gallery: Callable[[], Any] | None = None,
) -> Evaluation:
    """The measures of predictions. `names` are the test files, `examples` what they consist of: for the picture.

    `gallery` makes what is drawn below the confusion matrix.
    """
    predicted = [labels.index(prediction.label) for prediction in predictions]
    confusion = Confusion.of(labels, gold, predicted)
    is_right = [a == b for a, b in zip(gold, predicted, strict=True)]
    error = calibration_error([prediction.probability for prediction in predictions], is_right)
    return Evaluation(
        metrics=confusion.measures | {"calibration_error": error},
        n_examples=len(gold),
        intervals=confusion.intervals(),
        details={"labels": list(labels), "confusion": confusion.counts.tolist()},
        text=confusion.to_text(),
        draw=partial(_draw, confusion, names, examples, gallery),
    )


def _logits(
    model: ClassificationModel, data: LabelledData, config: TrainingConfig, device: torch.device
) -> tuple[Tensor, Tensor]:
    """(N, C) logits of the validation examples, and their classes (N,), in the order of the file."""
    logits, classes = torch.empty(len(data.validation), len(data.labels)), torch.from_numpy(data.validation.classes)
    with evaluation_mode(model):
        for batch in data.validation_batches(config.max_tokens):
            logits[torch.from_numpy(batch.indices)] = model(*batch.to(device).inputs).float().cpu()
    return logits, classes


def _draw(confusion: Confusion, files: str, examples: str, gallery: Callable[[], Any] | None) -> Any:
    from regard.lens.plots.confusion import draw_confusion

    sentence = f"{files}: {confusion.counts.sum():,} {examples}, accuracy {confusion.measures['accuracy']:.1%}"
    return draw_confusion(confusion.classes, confusion.counts, "Confusion matrix", sentence, gallery and gallery())
