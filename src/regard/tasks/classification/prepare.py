"""From labelled files to ids and classes: read, find out the layout, check, split, encode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data import LabelledTexts, cut
from regard.errors import DataError
from regard.tasks.classes import count_labels
from regard.tasks.classification.sections import ClassificationDataConfig
from regard.tasks.task import Raw, finding
from regard.tasks.vocabulary import digest
from regard.text import (
    LabelledFile,
    Tokenizer,
    fingerprint,
    is_held_out,
    normalise,
    read_labelled,
    sort_labels,
)
from regard.text.labelled import LabelledLines

SPLIT_SEED = 0  # the validation set does not change with the seed of a run, so that seeds can be compared

Example = tuple[str, tuple[str, ...]]  # label and texts


@dataclass(frozen=True)
class LabelledSplit:
    """The examples of a run."""

    train: list[Example]
    validation: list[Example]
    labels: list[str]  # of the training examples, in order
    values: Raw  # of [data], which depend on the files
    reports: list[Raw]
    key: str  # changes with any training example

    @property
    def n_texts(self) -> int:
        return len(self.train[0][1])

    def training_lines(self) -> Iterator[str]:
        for _, texts in self.train:
            yield from texts


def read_split(data: ClassificationDataConfig) -> LabelledSplit:
    """Reads all files; raises RunError if one has changed since the run began."""
    files = [config.file() for config in (*data.train, *data.validation)]
    current = digest(*(fingerprint(file) for file in files))
    data.require_unchanged(current)
    parts, validation_parts = _read_all(data)
    train = [example for part in parts for example in zip(part.labels, part.texts, strict=True)]
    validation = [example for part in validation_parts for example in zip(part.labels, part.texts, strict=True)]
    held_out = 0.0 if validation_parts else _held_out_share(len(train)) if data.held_out is None else data.held_out
    if not validation_parts:
        is_validation = [is_held_out("\t".join(texts), held_out, SPLIT_SEED) for _, texts in train]
        validation = [example for example, out in zip(train, is_validation, strict=True) if out]
        train = [example for example, out in zip(train, is_validation, strict=True) if not out]
    labels = sort_labels({label for label, _ in train})
    _require_classes(files[0], train, validation, labels, held_out)
    layout = parts[0].layout
    values = {"columns": layout.columns, "held_out": held_out, "fingerprint": current}
    names = [file.name for file in files]
    reports = [_file_report(name, part) for name, part in zip(names, [*parts, *validation_parts], strict=True)]
    reports[0]["findings"] += _findings(train, validation)
    return LabelledSplit(
        train, validation, labels, values, reports, digest(current, held_out, data.columns, data.header)
    )


def encode(
    examples: Sequence[Example], labels: Sequence[str], tokenizer: Tokenizer, max_length: int
) -> tuple[LabelledTexts, int]:
    """The examples as ids, and how many were cut off."""
    n_texts, numbers = len(examples[0][1]), {label: i for i, label in enumerate(labels)}
    ids = tokenizer.encode_many(text for _, texts in examples for text in texts)
    encoded = [cut(ids[i : i + n_texts], max_length) for i in range(0, len(ids), n_texts)]
    n_cut = sum(
        sum(map(len, encoded[i])) < sum(map(len, ids[i * n_texts : (i + 1) * n_texts])) for i in range(len(encoded))
    )
    return LabelledTexts.of(encoded, [numbers[label] for label, _ in examples], n_texts), n_cut


def _held_out_share(n_texts: int) -> float:
    """A tenth, but at most about 2,000 texts: more than for translators, since a text is only one answer."""
    return min(0.1, 2_000 / n_texts)


def _read_all(data: ClassificationDataConfig) -> tuple[list[LabelledLines], list[LabelledLines]]:
    """All training files in the layout of the first, and the validation files with the labels of the training files."""
    columns, train = data.columns, []
    for config in data.train:
        part = read_labelled(config.file(), columns=columns, header=data.header, on_bad=data.on_bad)
        columns = part.layout.columns
        train.append(part)
    known = {label for part in train for label in part.labels}
    validation = [
        read_labelled(config.file(), columns=columns, header=data.header, known=known, on_bad=data.on_bad)
        for config in data.validation
    ]
    for config, part in zip(data.validation, validation, strict=True):
        if part.layout.n_texts != train[0].layout.n_texts:
            raise DataError(
                f"{config.labels} has {part.layout.n_texts} texts per line, {data.train[0].labels} has "
                f"{train[0].layout.n_texts}",
                hint="use files of the same kind",
            )
    return train, validation


def _require_classes(
    first: LabelledFile, train: list[Example], validation: list[Example], labels: list[str], held_out: float
) -> None:
    """Raises DataError if there is nothing to learn or to validate."""
    if len(labels) < 2:
        raise DataError(
            f"{first.name}: all labels are {labels[0]!r}", hint="there must be at least two different labels"
        )
    if not validation:
        raise DataError(
            f"the validation set is empty (data.held_out is {held_out:g})",
            hint="raise data.held_out, or give --valid-labels",
        )
    if unknown := [label for label, _ in validation if label not in labels]:
        raise DataError(
            f"{first.name}: label {unknown[0]!r} is too rare", hint="a label needs some examples to train on"
        )


def _file_report(name: str, part: LabelledLines) -> dict[str, Any]:
    """What was found out about a file; shown when a training begins."""
    findings = [finding("found", "labels", f"{name}: {part.layout.describe()}; {count_labels(part.labels)}")]
    if part.n_bad:
        findings.append(finding("warning", "labels", f"{name}: lines that were skipped: {part.n_bad:,}"))
    return {"name": name, "n_examples": len(part.labels), "findings": findings}


def _findings(train: list[Example], validation: list[Example]) -> list[dict[str, str]]:
    """Texts that are in both sets, or that have several labels."""
    labels_of: dict[tuple[str, ...], set[str]] = {}
    for label, texts in train:
        labels_of.setdefault(_key(texts), set()).add(label)
    n_leaks = sum(_key(texts) in labels_of for _, texts in validation)
    n_several = sum(len(labels) > 1 for labels in labels_of.values())
    findings = []
    if n_leaks:
        findings.append(
            finding(
                "warning",
                "labels",
                f"{n_leaks:,} of {len(validation):,} validation texts are also in the training text",
            )
        )
    if n_several:
        findings.append(finding("warning", "labels", f"{n_several:,} training texts occur with different labels"))
    return findings


def _key(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(normalise(text).casefold() for text in texts)
