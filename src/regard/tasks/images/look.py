"""A look at a classifier of images: its patches, and where its attention went.

N patches, T tokens: the class token and the patches, L layers, H heads, D d_model
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import image_batch
from regard.data.images import Pixels
from regard.errors import UserError
from regard.lens.images import attention_distance, attention_rollout, patch_filters, position_similarity
from regard.lens.inspect import SiteLook, inspect
from regard.lens.look_json import ArrayFormat, encoder
from regard.tasks.images.predictor import ImageClassifier

_SHADES = " ░▒▓█"
_N_FILTERS = 24
CLASS_TOKEN = "class"


@dataclass(frozen=True, eq=False)
class ImageLook(SiteLook):
    """What a classifier computed for an image."""

    name: str
    pixels: Pixels  # (H, W, C)

    @cached_property
    def patch(self) -> int:
        """The side of a patch, in pixels."""
        height, width, _ = self.pixels.shape
        return isqrt(height * width // (self.weights[0].shape[-1] - 1))

    @cached_property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.pixels.shape[0] // self.patch, self.pixels.shape[1] // self.patch

    @cached_property
    def weights(self) -> list[Any]:
        """L × (H, T, T)"""
        return [self.trace[site.path][0].double().numpy() for site in self.trace.sites("attention")]

    @cached_property
    def rollout(self) -> Any:
        """(N,)"""
        return attention_rollout(self.weights)

    @cached_property
    def distances(self) -> Any:
        """(L, H), in pixels."""
        return np.stack([attention_distance(weights, self.grid, self.patch) for weights in self.weights])

    @cached_property
    def similarity(self) -> Any:
        """(N, N)"""
        return position_similarity(self._vectors("position"))

    @cached_property
    def filters(self) -> Any:
        """(n, P, P, C)"""
        return patch_filters(self._vectors("filters"), self.patch, self.pixels.shape[2], _N_FILTERS)

    def _vectors(self, name: str) -> Any:
        [site] = [site for site in self.trace.sites("vector") if site.name == name]
        return self.trace[site.path][0].double().numpy()

    def to_dict(self, arrays: ArrayFormat = "list") -> dict[str, Any]:
        """`pixels` are what the model reads, between 0 and 255; patches and tokens are in the order of reading."""
        encode, (rows, columns) = encoder(arrays), self.grid
        places = [f"{i // columns + 1},{i % columns + 1}" for i in range(rows * columns)]
        pieces = [{"text": CLASS_TOKEN, "special": True}, *({"text": place, "special": False} for place in places)]
        values = {
            "pixels": self.pixels.astype(np.float32),
            "rollout": self.rollout.reshape(self.grid),
            "attention_distance": self.distances,
            "position_similarity": self.similarity,
            "patch_filters": np.ascontiguousarray(self.filters),
        }
        image = {name: encode(torch.from_numpy(value).float()) for name, value in values.items()}
        return super().to_dict(arrays) | {
            "source": {"text": self.name, "pieces": pieces},
            "image": image | {"patch": self.patch, "rows": rows, "columns": columns},
        }

    def table(self) -> list[tuple[str, ...]]:
        """The image and the rollout, a character pair per patch, and the distances of all heads."""
        mean = self.pixels.reshape(self.grid[0], self.patch, self.grid[1], -1).mean((1, 3))  # (rows, columns)
        shares = self.rollout.reshape(self.grid)
        rows: list[tuple[str, ...]] = [("patches", "image", "rollout")]
        for number, (pixels, share) in enumerate(zip(mean / 255, shares / shares.max(), strict=True), start=1):
            rows.append((f"row {number}", _shaded(pixels), _shaded(share)))
        rows.append(("", "", ""))
        for number, heads in enumerate(self.distances, start=1):
            distances = " · ".join(f"{distance:.1f}" for distance in heads)
            rows.append((f"layer {number}", "distance of attention by head, pixels", distances))
        return rows

    def picture(self) -> Any:
        from regard.lens.plots.images import ImageViews, draw_image

        views = ImageViews(self.pixels, self.grid, self.rollout, self.distances, self.similarity, self.filters)
        title = f"Image · predicted: {self.prediction['label']} ({self.prediction['probability']:.1%})"
        how = f"{self.grid[0]} × {self.grid[1]} patches of {self.patch} pixels"
        return draw_image(views, title, f"{self.name}, {how}; darker is more")


def look_at_image(classifier: ImageClassifier, value: Any) -> ImageLook:
    """Runs one image with a trace."""
    pixels = classifier.read(value)
    [prediction] = classifier.classify(pixels[None])
    trace = inspect(classifier.model, image_batch(classifier.statistics.normalise(pixels[None])), {}).trace
    if not trace.sites("attention"):
        raise UserError("this model has no attention to patches", hint="regard predict gives its predictions")
    return ImageLook(
        trace=trace,
        prediction=prediction.to_dict(),
        name=value.name if isinstance(value, Path) else "image",
        pixels=pixels,
    )


def _shaded(values: Any) -> str:
    """Two characters per value between 0 and 1."""
    return "".join(2 * _SHADES[min(len(_SHADES) - 1, int(value * len(_SHADES)))] for value in values.tolist())
