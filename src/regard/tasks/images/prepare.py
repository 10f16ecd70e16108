"""From files of images to arrays in memory: find out the size, check, read, split."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import Images, LabelledImages, Size, Source, common_size, files_of, read_images
from regard.data.images import Pixels
from regard.errors import DataError
from regard.tasks.classes import count_labels
from regard.tasks.images.sections import ImageDataConfig
from regard.tasks.task import OnProgress, Raw, finding
from regard.tasks.vocabulary import digest
from regard.text import fingerprint, sort_labels

MAX_SIDE, _SIDE_STEP = 64, 4  # of the default size: a multiple of the step has whole patches
_SHIFT_PER_SIDE = 14  # of MNIST's 28 pixels, 2


@dataclass(frozen=True)
class ImageSplit:
    """The images of a run."""

    train: Images
    validation: Images
    labels: list[str]  # of the training images, in order
    reports: list[Raw]


@dataclass(frozen=True)
class _Files:
    files: tuple[Path, ...]


def fixed_values(data: ImageDataConfig) -> Raw:
    """The values of [data] that depend on the files; raises RunError if one has changed since the run began."""
    sources = [config.source() for config in (*data.train, *data.validation)]
    files = tuple(path for source in sources for path in files_of(source))
    current = digest(fingerprint(_Files(files)), *(f"{path.parent.name}/{path.name}" for path in files))
    data.require_unchanged(current, "the images have")
    size = default_size(data, sources)
    shift = size.height // _SHIFT_PER_SIDE if data.shift is None else data.shift
    return {"fingerprint": current, "shift": shift} | size._asdict()


def default_size(data: ImageDataConfig, sources: Sequence[Source]) -> Size:
    """What the recipe says, or else a size for these images."""
    if data.height is not None and data.width is not None and data.channels is not None:
        return Size(data.height, data.width, data.channels)
    sizes, is_colour = common_size(sources)
    height, width = max(sizes) if len(sizes) == 1 else (MAX_SIDE, MAX_SIDE)
    side = (data.height or _rounded(height), data.width or _rounded(width))
    return Size(*side, data.channels or (3 if is_colour else 1))


def _rounded(side: int) -> int:
    return min(MAX_SIDE, -(-side // _SIDE_STEP) * _SIDE_STEP)


def read_split(data: ImageDataConfig, size: Size, on_progress: OnProgress) -> ImageSplit:
    """All images, in training and validation; without a validation set, some of the training images are held out."""
    sources = [config.source() for config in data.train]
    train = [_required(source, size, partial(on_progress, f"reading {source.name}")) for source in sources]
    joined, validation = _joined(train), _validation(data, size)
    if len(set(joined.labels)) < 2:
        message = f"{sources[0].path}: all labels are {joined.labels[0]!r}"
        raise DataError(message, hint="there must be two different ones")
    if validation is None:
        joined, validation = _held_out(joined, data.held_out)
    labels = sort_labels(joined.labels)
    if unknown := set(validation.labels) - set(labels):
        raise DataError(
            f"the validation images have the label {min(unknown)!r}, which no training image has",
            hint="a label needs some images to train on",
        )
    return ImageSplit(joined, validation, labels, _reports(sources, train, size, joined, validation))


def labelled(images: Images, labels: Sequence[str]) -> LabelledImages:
    numbers = {label: i for i, label in enumerate(labels)}
    return LabelledImages(images.pixels, np.array([numbers[label] for label in images.labels], dtype=np.int64))


def _validation(data: ImageDataConfig, size: Size) -> Images | None:
    """The given validation images, or those in the `.npz` files of the training images; None if there are none."""
    given = [config.source() for config in data.validation]
    sources = given or [config.source() for config in data.train if config.images.suffix == ".npz"]
    found = [read_images(source, size, "validation") for source in sources]
    if given:
        found = [images or read_images(source, size, "test") for source, images in zip(given, found, strict=True)]
    parts = [images for images in found if images is not None]
    return _joined(parts) if parts else None


def _required(source: Source, size: Size, on_progress: Callable[[int, int], None]) -> Images:
    images = read_images(source, size, on_progress=on_progress)
    assert images is not None  # every source has a training part, or is refused
    return images


def _joined(parts: Sequence[Images]) -> Images:
    if len(parts) == 1:
        return parts[0]
    return Images(
        np.concatenate([part.pixels for part in parts]),
        tuple(label for part in parts for label in part.labels),
        tuple(name for part in parts for name in part.names),
    )


def _held_out(images: Images, share: float | None) -> tuple[Images, Images]:
    """By a hash of the pixels, so that equal images are all in one part: a tenth, but at most about 5,000 images."""
    n = len(images.labels)
    share = min(0.1, 5_000 / n) if share is None else share
    hashes = np.array([_digest(image) for image in images.pixels])
    n_out = max(1, round(share * n)) if share else 0
    is_out = hashes <= np.sort(hashes)[n_out - 1] if n_out else np.zeros(n, dtype=bool)
    if not is_out.any() or is_out.all():
        raise DataError(
            f"of {n:,} images, {int(is_out.sum()):,} would be held out for validation",
            hint="change data.held_out, or give --valid-images",
        )
    return _selected(images, ~is_out), _selected(images, is_out)


def _digest(image: Pixels) -> int:
    return int.from_bytes(hashlib.blake2b(image.tobytes(), digest_size=8).digest(), "big") >> 1


def _selected(images: Images, chosen: Any) -> Images:
    rows = np.flatnonzero(chosen)
    return Images(
        images.pixels[rows],
        tuple(images.labels[i] for i in rows),
        tuple(images.names[i] for i in rows),
    )


def _reports(
    sources: Sequence[Source], parts: Sequence[Images], size: Size, train: Images, validation: Images
) -> list[Raw]:
    """What was found out about the images; shown when a training begins."""
    findings = [
        [finding("found", "images", _summary(source, part, size))] for source, part in zip(sources, parts, strict=True)
    ]
    known = set(map(_digest, train.pixels))
    n_leaks = sum(_digest(image) in known for image in validation.pixels)
    if n_leaks:
        message = f"{n_leaks:,} of {len(validation.labels):,} validation images are also training images"
        findings[0].append(finding("warning", "images", message))
    return [
        {"name": source.name, "n_examples": len(part.labels), "findings": of_source}
        for source, part, of_source in zip(sources, parts, findings, strict=True)
    ]


def _summary(source: Source, images: Images, size: Size) -> str:
    kind = "grey" if size.channels == 1 else "colour"
    n = len(images.labels)
    return f"{source.name}: {n:,} images, read as {size.height} × {size.width} {kind}; {count_labels(images.labels)}"
