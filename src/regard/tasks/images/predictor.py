"""Images in, labels with their probabilities out.

B batch
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.artifact import Description, LoadedModel
from regard.artifact.directory import COPY_AGAIN
from regard.data import ImageStatistics, Size, read_image
from regard.data.images import Pixels
from regard.errors import ArtifactError, UserError
from regard.tasks.classes import Classification, LabelPredictor, load_labelled

_BATCH = 256  # images
_DATA_URL = "data:image/"
_FORMS = 'an input is a PNG or JPEG image in base64, as text or as {"image": "…"}; regard predict takes files'


class ImageClassifier(LabelPredictor):
    """A loaded model. An input is the path of a file, or an image in base64, with or without `data:image/png;base64,`.

    JSON has no paths, so a request can never name a file.
    """

    def __init__(self, loaded: LoadedModel, labels: Sequence[str], size: Size, statistics: ImageStatistics) -> None:
        super().__init__(loaded, labels)
        self.size, self.statistics = size, statistics

    @classmethod
    def load(cls, described: Description) -> ImageClassifier:
        size, statistics = size_of(described), statistics_of(described)
        loaded, labels = load_labelled(described)
        return cls(loaded, labels, size, statistics)

    @property
    def image_size(self) -> dict[str, Any]:
        """What the page needs to know, to draw an image as those of the training data."""
        return self.size._asdict() | {"is_dark": sum(self.statistics.mean) / len(self.statistics.mean) < 0.5}

    def predict(self, inputs: Sequence[Any]) -> list[Classification]:
        """One prediction per input."""
        return [
            prediction
            for start in range(0, len(inputs), _BATCH)
            for prediction in self.classify(np.stack([self.read(value) for value in inputs[start : start + _BATCH]]))
        ]

    def classify(self, pixels: Pixels) -> list[Classification]:
        """(B, H, W, C) → a prediction for each image."""
        with torch.inference_mode():
            parts = [
                self.model(self.statistics.normalise(pixels[i : i + _BATCH])) for i in range(0, len(pixels), _BATCH)
            ]
        return [prediction for logits in parts for prediction in self.predictions(logits)]

    def read(self, value: Any) -> Pixels:
        """(H, W, C)"""
        if isinstance(value, Path):
            return read_image(value, self.size, str(value))
        text = value.get("image") if isinstance(value, dict) else value
        if not isinstance(text, str) or not text:
            raise UserError("the input is no image", hint=_FORMS)
        if text.startswith(_DATA_URL):
            text = text.partition(",")[2]
        try:
            data = b64decode(text, validate=True)
        except (Base64Error, ValueError) as error:
            raise UserError(f"the input is not base64 ({text[:20]!r})", hint=_FORMS) from error
        return read_image(data, self.size, "the input")


def size_of(described: Description) -> Size:
    """Of the images that a model reads."""
    size = Size(*(described.sizes.get(name, 0) for name in ("height", "width", "n_channels")))
    if min(size) < 1 or size.channels not in (1, 3):
        raise ArtifactError(f"{described.directory / 'config.json'} has no size of images", hint=COPY_AGAIN)
    return size


def statistics_of(described: Description) -> ImageStatistics:
    """Of the images that a model was trained on."""
    stored, n = described.facts.get("images"), described.sizes.get("n_channels")
    mean, std = (_numbers(stored.get(name) if isinstance(stored, dict) else None, n) for name in ("mean", "std"))
    if mean is None or std is None or min(std) <= 0:
        raise ArtifactError(f"{described.directory / 'config.json'} has no statistics of images", hint=COPY_AGAIN)
    return ImageStatistics(mean, std)


def _numbers(values: Any, n: int | None) -> tuple[float, ...] | None:
    if not isinstance(values, list) or len(values) != n:
        return None
    is_number = all(isinstance(value, int | float) and isfinite(value) for value in values)
    return tuple(map(float, values)) if is_number else None
