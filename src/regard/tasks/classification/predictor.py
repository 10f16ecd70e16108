"""Texts in, labels with their probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch

from regard.artifact import Description, LoadedModel, max_length
from regard.data import Batch, collate_texts, cut
from regard.errors import UserError
from regard.tasks.classes import Classification, LabelPredictor, load_labelled

_MAX_TOKENS = 4_096  # of a batch, padding included


class Classifier(LabelPredictor):
    """A loaded model. An input is a text; for a model of pairs, two texts with a tab between them or in a list."""

    def __init__(self, loaded: LoadedModel, labels: Sequence[str], limit: int) -> None:
        super().__init__(loaded, labels)
        self.n_texts = 2 if loaded.facts.get("n_texts", 1) == 2 else 1
        self.columns = loaded.facts.get("columns")
        self.tokenizer, self.max_length = loaded.tokenizers.source, limit

    @classmethod
    def load(cls, described: Description) -> Classifier:
        loaded, labels = load_labelled(described)
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
