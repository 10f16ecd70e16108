"""Images with classes → batches of normalised pixels, shifted and flipped at random in training.

B batch, N examples, H rows, W columns, C channels
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import NO_TARGET, OUTSIDE_TRAINING, Batch, Place
from regard.data.random_key import random_key

Pixels = NDArray[np.uint8]

_MIN_STD = 1 / 255  # of a channel that is the same everywhere


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """All images in memory, as bytes."""

    pixels: Pixels  # (N, H, W, C)
    classes: NDArray[np.int64]  # (N,) NO_TARGET where it is not known

    def __len__(self) -> int:
        return len(self.pixels)

    @cached_property
    def lengths(self) -> tuple[NDArray[np.integer], ...]:
        """(N,) zeros: with the one symbol that is added, each image counts as one."""
        return (np.zeros(len(self), dtype=np.int64),)


@dataclass(frozen=True)
class ImageStatistics:
    """Mean and standard deviation of each channel, of pixels between 0 and 1."""

    mean: tuple[float, ...]  # (C,)
    std: tuple[float, ...]  # (C,)

    @classmethod
    def of(cls, pixels: Pixels) -> ImageStatistics:
        """Exact, from the counts of the 256 values."""
        values = np.arange(256) / 255
        counts = [np.bincount(pixels[..., channel].ravel(), minlength=256) for channel in range(pixels.shape[-1])]
        means = [float(values @ count / count.sum()) for count in counts]
        variances = [float((values - m) ** 2 @ n / n.sum()) for m, n in zip(means, counts, strict=True)]
        return cls(tuple(means), tuple(max(_MIN_STD, variance**0.5) for variance in variances))

    def normalise(self, pixels: Pixels) -> Tensor:
        """(B, H, W, C) → (B, C, H, W)."""
        scale = 1 / (255 * np.asarray(self.std, np.float32))
        offset = np.asarray(self.mean, np.float32) / np.asarray(self.std, np.float32)
        return torch.from_numpy(np.ascontiguousarray((pixels * scale - offset).transpose(0, 3, 1, 2)))


@dataclass(frozen=True, kw_only=True)
class ImageCollator:
    """Batches of images. What an image is in an epoch depends only on the seed, the epoch and the number of the batch.

    `shift` moves it by at most so many pixels in each direction, over a background of the image's own edge; `flip`
    mirrors half of the images.
    """

    images: LabelledImages
    statistics: ImageStatistics
    shift: int = 0
    flip: bool = False

    def __call__(self, indices: NDArray[np.integer], place: Place) -> Batch:
        """Inputs: pixels (B, C, H, W). Target: the class (B,)."""
        pixels = self.images.pixels[indices]
        if self.shift or self.flip:
            rng = np.random.Generator(np.random.PCG64(random_key(place.seed, "images", place.epoch, place.index)))
            pixels = _moved(pixels, rng.integers(-self.shift, self.shift, (2, len(indices)), endpoint=True))
            if self.flip:
                pixels = np.where(rng.random(len(indices))[:, None, None, None] < 0.5, pixels[:, :, ::-1], pixels)
        return image_batch(self.statistics.normalise(pixels), self.images.classes[indices], indices, place)


def _moved(pixels: Pixels, by: NDArray[np.integer]) -> Pixels:
    """(B, H, W, C) moved by (2, B) rows and columns; what moves in repeats the edge."""
    _, h, w, _ = pixels.shape
    rows = (np.arange(h) - by[0][:, None]).clip(0, h - 1)  # (B, H)
    columns = (np.arange(w) - by[1][:, None]).clip(0, w - 1)  # (B, W)
    moved: Pixels = pixels[np.arange(len(pixels))[:, None, None], rows[:, :, None], columns[:, None, :]]
    return moved


def image_batch(
    inputs: Tensor,
    classes: NDArray[np.integer] | Sequence[int] | None = None,
    indices: NDArray[np.integer] | None = None,
    place: Place = OUTSIDE_TRAINING,
) -> Batch:
    """Normalised pixels (B, C, H, W), with or without classes."""
    targets = np.full(len(inputs), NO_TARGET) if classes is None else np.asarray(classes)
    return Batch(
        inputs=(inputs,),
        targets=(torch.from_numpy(targets.astype(np.int64)),),
        n_targets=(len(inputs) if classes is not None else 0,),
        place=place,
        indices=np.arange(len(inputs)) if indices is None else indices.astype(np.int64),
    )
