"""Texts in, labels with their probabilities out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.artifact import Description, LoadedModel, load_described, max_length
from regard.artifact.directory import COPY_AGAIN
from regard.data import Batch, collate_texts
from regard.errors import ArtifactError, UserError
from regard.tasks.classification.prepare import cut

LABELS_FILE = "labels.json"
_MAX_LABELS_BYTES = 1_000_000
_MAX_TOKENS = 4_096  # of a batch, padding included


@dataclass(frozen=True)
class Classification:
    """The most probable label of a text, and the probabilities of all labels."""

    label: str
    probability: float
    probabilities: Mapping[str, float]  # in the order of the labels

    @property
    def text(self) -> str:
        return f"{self.label}\t{self.probability:.4f}"

    def to_dict(self) -> dict[str, Any]:
        return {"label": self.label, "probability": self.probability, "probabilities": dict(self.probabilities)}


class Classifier:
    """A loaded model. An input is a text; for a model of pairs, two texts with a tab between them or in a list."""

    def __init__(self, loaded: LoadedModel, labels: Sequence[str], limit: int) -> None:
        facts = loaded.facts
        temperature, n_texts = facts.get("temperature", 1.0), facts.get("n_texts", 1)
        is_number = isinstance(temperature, int | float) and isfinite(temperature) and temperature > 0
        self.temperature = float(temperature) if is_number else 1.0
        self.n_texts = 2 if n_texts == 2 else 1
        self.columns = facts.get("columns")
        self.model, self.labels, self.max_length = loaded.model, tuple(labels), limit
        self.tokenizer = loaded.tokenizers.source

    @classmethod
    def load(cls, described: Description) -> Classifier:
        loaded = load_described(described)
        labels = read_labels(described)
        if len(labels) != described.sizes.get("n_classes"):
            path = described.directory / LABELS_FILE
            raise ArtifactError(f"{path}: {len(labels)} labels, but the model has other classes", hint=COPY_AGAIN)
        n_others = 3 if described.facts.get("n_texts") == 2 else 2  # bos and eos
        limit = None if described.max_length is None else described.max_length - n_others + 1
        return cls(loaded, labels, max_length(described.facts, limit))

    def predict(self, inputs: Sequence[Any]) -> list[Classification]:
        """One prediction per input."""
        examples = [self.read(value) for value in inputs]
        lengths = [sum(map(len, example)) for example in examples]
        order = sorted(range(len(examples)), key=lambda i: -lengths[i])
        predictions: dict[int, Classification] = {}
        while len(predictions) < len(order):
            first = order[len(predictions)]
            n_rows = max(1, _MAX_TOKENS // (lengths[first] + self.n_texts + 1))
            rows = list(islice(order, len(predictions), len(predictions) + n_rows))
            with torch.inference_mode():
                logits = self.model(*self.batch([examples[i] for i in rows]).inputs)
            predictions |= zip(rows, self.predictions(logits), strict=True)
        return [predictions[i] for i in range(len(inputs))]

    def predictions(self, logits: Tensor) -> list[Classification]:
        """(B, C) → the calibrated probabilities of each text."""
        probabilities = (logits.double() / self.temperature).softmax(-1)
        return [
            Classification(self.labels[int(np.argmax(row))], max(row), dict(zip(self.labels, row, strict=True)))
            for row in probabilities.tolist()
        ]

    def read(self, value: Any) -> list[list[int]]:
        """The ids of an input, not longer than in training."""
        return cut(self.tokenizer.encode_many(self.texts_of(value)), self.max_length)

    def texts_of(self, value: Any) -> list[str]:
        """The text of an input, or the two of a pair."""
        if self.n_texts == 1 and isinstance(value, str):
            return [value]
        texts = value.split("\t") if isinstance(value, str) else value
        if isinstance(texts, list) and len(texts) == self.n_texts and all(isinstance(text, str) for text in texts):
            return texts
        if self.n_texts == 1:
            raise UserError("an input must be a text", hint='give strings, as in {"input": ["A sentence."]}')
        raise UserError("an input must be two texts", hint='write a tab between them, or ["first", "second"] in JSON')

    def batch(self, examples: Sequence[Sequence[Sequence[int]]]) -> Batch:
        t = self.tokenizer
        return collate_texts(examples, pad_id=t.pad_id, bos_id=t.bos_id, eos_id=t.eos_id)

    def close(self) -> None:
        """Nothing is open."""


def read_labels(described: Description) -> list[str]:
    """The labels of a model, in the order of its classes."""
    try:
        labels = json.loads(described.read_asset(LABELS_FILE, _MAX_LABELS_BYTES))
    except ValueError as error:
        raise ArtifactError(f"{described.directory / LABELS_FILE} is not JSON", hint=COPY_AGAIN) from error
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ArtifactError(f"{described.directory / LABELS_FILE} is not a list of labels", hint=COPY_AGAIN)
    return labels


def fit_temperature(logits: Tensor, classes: Tensor) -> float:
    """The temperature with the lowest loss of softmax(logits / T) (Guo et al., 2017): (N, C), (N,).

    One more text of each class is assumed (Platt, 1999): N right answers do not prove a probability of 1.
    """
    logits, low, high = logits.double(), np.log(0.05), np.log(20.0)
    n_texts, n_classes = logits.shape

    def loss(log_temperature: float) -> float:
        scaled, smoothing = logits / float(np.exp(log_temperature)), n_classes / (n_texts + n_classes)
        return float(torch.nn.functional.cross_entropy(scaled, classes, label_smoothing=smoothing))

    golden = (np.sqrt(5) - 1) / 2
    for _ in range(40):  # golden-section search: the loss is convex in 1/T, so it has one minimum
        a, b = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, b) if loss(a) <= loss(b) else (a, high)
    return round(float(np.exp((low + high) / 2)), 6)
