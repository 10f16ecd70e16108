"""The task "images"."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar, NamedTuple, Protocol

from regard.artifact import Description
from regard.data import ImageCollator, Images, ImageStatistics, LabelledImages, Size, Source, read_images
from regard.data.images import Pixels
from regard.errors import DataError
from regard.models import ModelConfig
from regard.tasks.classes import LABELS_FILE, Classification, LabelledData, LabelTask, evaluation_of
from regard.tasks.images.predictor import ImageClassifier, size_of, statistics_of
from regard.tasks.images.prepare import fixed_values, labelled, read_split
from regard.tasks.images.sections import ImageDataConfig
from regard.tasks.task import Evaluation, Examined, Inherited, OnProgress, sample_places
from regard.training import TrainingConfig

_N_WORST, _N_LISTED = 24, 10  # wrong predictions that are drawn, and printed


class ImageRecipe(Protocol):
    """A recipe with the sections of this task."""

    data: ImageDataConfig
    training: TrainingConfig

    @property
    def config(self) -> ModelConfig: ...


@dataclass(frozen=True, kw_only=True)
class ImageData(LabelledData):
    """Images in memory, and their labels."""

    train: LabelledImages
    validation: LabelledImages


class ImageTask(LabelTask[ImageData]):
    """Images in, a classifier out."""

    name = "images"
    title = "A classifier of images"
    usage = "regard predict this/folder image.png"
    sections: ClassVar = {"data": ImageDataConfig}
    architecture = "vit"
    examples = "images"
    unit = "images"
    reads_files = True

    def inherit(self, parent: Description) -> Inherited:
        """The size of the images is the parent's."""
        values = {"data": size_of(parent)._asdict()}
        return Inherited(values, values)

    def examine(self, recipe: ImageRecipe, on_progress: OnProgress) -> Examined:
        on_progress("reading the images", 0, None)
        return Examined({"data": fixed_values(recipe.data)})

    def prepare(
        self, recipe: ImageRecipe, parent: Description | None, cache: Path, on_progress: OnProgress
    ) -> ImageData:
        on_progress("reading the images", 0, None)
        values = fixed_values(recipe.data)
        size = Size(*(values[name] for name in Size._fields))
        split = read_split(recipe.data, size, on_progress)
        train, validation = labelled(split.train, split.labels), labelled(split.validation, split.labels)
        statistics = ImageStatistics.of(train.pixels) if parent is None else statistics_of(parent)
        counts = Counter(split.train.labels)
        return ImageData(
            train=train,
            validation=validation,
            labels=tuple(split.labels),
            samples=_samples(split.validation),
            collate=ImageCollator(images=train, statistics=statistics, shift=values["shift"], flip=recipe.data.flip),
            collate_validation=ImageCollator(images=validation, statistics=statistics),
            n_targets=len(train),
            sizes={"n_classes": len(split.labels)} | _sizes(size),
            assets={LABELS_FILE: json.dumps(split.labels, ensure_ascii=False).encode()},
            facts={
                "images": {"mean": list(statistics.mean), "std": list(statistics.std)},
                "label_counts": {label: counts[label] for label in split.labels},
            },
            counts={"n_classes": len(split.labels)},
        )

    def describe_data(self, recipe: ImageRecipe, data: ImageData) -> str:
        files = ", ".join(config.images.name for config in recipe.data.train)
        return f"{files} ({len(data.train):,} images, {len(data.labels)} labels)"

    def predictor(self, described: Description) -> ImageClassifier:
        return ImageClassifier.load(described)

    def evaluate(self, predictor: ImageClassifier, files: Sequence[Path]) -> Evaluation:
        """Files: folders with one folder per class, `.npz` files, of which the test part is used, or IDX files."""
        parts = [_test_images(Source(path), predictor.size) for path in files]
        gold, predictions = list[int](), list[Classification]()
        for path, part in zip(files, parts, strict=True):
            if unknown := set(part.labels) - set(predictor.labels):
                message = f"{path}: the model has no label {min(unknown)!r}"
                raise DataError(
                    message, hint=f"its labels are {shorten(', '.join(predictor.labels), 200, placeholder=' …')}"
                )
            gold += [predictor.labels.index(label) for label in part.labels]
            predictions += predictor.classify(part.pixels)
        worst = _worst(parts, predictions)
        names = ", ".join(path.name for path in files)
        gallery = partial(_gallery, worst)
        evaluation = evaluation_of(predictor.labels, gold, predictions, names, self.examples, gallery)
        records = [_record(mistake) for mistake in worst]
        return evaluation._replace(
            details={**evaluation.details, "worst": records}, text=evaluation.text + _listed(worst)
        )

    def look(self, described: Description, value: Any) -> Any:
        from regard.tasks.images.look import look_at_image

        return look_at_image(self.predictor(described), value)


def _sizes(size: Size) -> dict[str, int]:
    """The arguments of a model."""
    return {"height": size.height, "width": size.width, "n_channels": size.channels}


class _Mistake(NamedTuple):
    """An image with a wrong prediction."""

    name: str
    pixels: Pixels
    label: str
    predicted: Classification

    @property
    def probability(self) -> float:
        """Of the right label."""
        return self.predicted.probabilities[self.label]


def _worst(parts: Sequence[Images], predictions: Sequence[Classification]) -> list[_Mistake]:
    """The wrong predictions with the least probability of the right label, the worst first."""
    images = (image for part in parts for image in zip(part.names, part.pixels, part.labels, strict=True))
    mistakes = [_Mistake(*image, prediction) for image, prediction in zip(images, predictions, strict=True)]
    wrong = [mistake for mistake in mistakes if mistake.predicted.label != mistake.label]
    return sorted(wrong, key=lambda mistake: mistake.probability)[:_N_WORST]


def _record(mistake: _Mistake) -> dict[str, Any]:
    predicted = {"predicted": mistake.predicted.label, "predicted_probability": mistake.predicted.probability}
    return {"name": mistake.name, "label": mistake.label, "probability": mistake.probability} | predicted


def _listed(worst: Sequence[_Mistake]) -> str:
    lines = [f"  {m.name}  {m.label} → {m.predicted.label} ({m.predicted.probability:.1%})\n"
             for m in worst[:_N_LISTED]]  # fmt: skip
    return "worst images: name, label → predicted\n" + "".join(lines) if lines else ""


def _gallery(worst: Sequence[_Mistake]) -> Any:
    from regard.lens.plots.images import Gallery, Thumbnail

    def captions(mistake: _Mistake) -> tuple[str, str]:
        return f"{mistake.label} → {mistake.predicted.label} {mistake.predicted.probability:.0%}", mistake.name

    title = "The worst images: label → predicted" if worst else "No image is classified wrongly"
    return Gallery(title, [Thumbnail(mistake.pixels, captions(mistake)) for mistake in worst])


def _test_images(source: Source, size: Size) -> Images:
    images = read_images(source, size, "test")
    if images is None:
        raise DataError(f"{source.path} has no test images", hint="name them x_test and y_test")
    return images


def _samples(images: Images) -> dict[int, dict[str, str]]:
    return {i: {"text": images.names[i], "label": images.labels[i]} for i in sample_places(len(images.labels))}
