"""The task "classification"."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from regard.artifact import Description, LoadedModel
from regard.data import LabelledTexts, TextCollator
from regard.errors import DataError, RecipeError
from regard.evaluate.classes import Confusion, calibration_error
from regard.metrics import Measure
from regard.models import ClassificationModel, ModelConfig
from regard.models.defaults import ClassificationDefaults
from regard.tasks.classification.predictor import LABELS_FILE, Classifier, fit_temperature, read_labels
from regard.tasks.classification.prepare import Example, encode, read_split
from regard.tasks.classification.sections import ClassificationDataConfig, ClassificationTextConfig
from regard.tasks.task import Data, Evaluation, Examined, Inherited, OnProgress, Task
from regard.tasks.vocabulary import make_tokenizer
from regard.text import LabelledFile, Tokenizer, TokenizerPair, read_labelled
from regard.text.vocabulary import default_vocab_size
from regard.training import TrainingConfig, Validation
from regard.training.validation import evaluation_mode

_N_SAMPLES = 3
_SAMPLE_CHARACTERS = 300
_WORD_DROPOUT = 0.3
_MAX_OTHERS = 3  # bos, and an eos after each text


class ClassificationRecipe(Protocol):
    """A recipe with the sections of this task."""

    data: ClassificationDataConfig
    text: ClassificationTextConfig
    training: TrainingConfig
    start_from: Path | None

    @property
    def config(self) -> ModelConfig: ...


@dataclass(frozen=True, kw_only=True)
class ClassificationData(Data):
    """Texts as ids, and their labels."""

    train: LabelledTexts
    validation: LabelledTexts
    tokenizers: TokenizerPair
    labels: tuple[str, ...]
    samples: dict[int, dict[str, str]]  # some validation examples, by their number


class ClassificationTask(Task[ClassificationData]):
    """Labelled text in, a classifier out."""

    name = "classification"
    title = "A classifier of texts"
    usage = 'echo "A sentence." | regard predict this/folder'
    sections: ClassVar = {"data": ClassificationDataConfig, "text": ClassificationTextConfig}
    architecture = "encoder"
    defaults = ClassificationDefaults()
    starts_from = ("classification", "pretraining", "language")
    measures = (
        Measure("loss", "loss", 4, higher_is_better=False),
        Measure("accuracy", "accuracy", 1, higher_is_better=True, is_share=True),
        Measure("macro_f1", "macro F1", 1, higher_is_better=True, is_share=True),
        Measure("matthews", "Matthews", 3, higher_is_better=True),
        Measure("calibration_error", "calibration error", 1, higher_is_better=False, is_share=True),
    )
    examples = "texts"
    unit = "texts"

    def check(self, recipe: ClassificationRecipe) -> None:
        if recipe.training.best_by == "calibration_error":
            raise ValueError("training.best_by = 'calibration_error' is only measured by regard evaluate")
        limit, length = recipe.config.max_length, recipe.text.max_length
        if limit is not None and length + _MAX_OTHERS > limit:
            raise ValueError(
                f"text.max_length = {length} needs {length + _MAX_OTHERS} positions, and this model has {limit}"
            )

    def inherit(self, parent: Description) -> Inherited:
        """The vocabulary is the parent's."""
        tokenizer = parent.tokenizers.source
        values = {"kind": tokenizer.kind, "vocabulary": tokenizer.size}
        return Inherited({"text": values}, {"text": values})

    def continues(self, parent: Description, data: ClassificationData) -> bool:
        """Only with the same labels the softmax is the parent's too."""
        return parent.task == self.name and read_labels(parent) == list(data.labels)

    def examine(self, recipe: ClassificationRecipe, on_progress: OnProgress) -> Examined:
        on_progress("reading the labelled text", 0, None)
        split, text = read_split(recipe.data), recipe.text
        values: dict[str, Any] = {"data": split.values, "text": {}}
        if text.word_dropout is None:
            values["text"]["word_dropout"] = _WORD_DROPOUT if recipe.start_from is None else 0.0
        if text.vocabulary is None and text.kind in ("bpe", "unigram"):
            # twice that of a translator with as many lines: whole words are easier to tell apart
            values["text"]["vocabulary"] = 2 * default_vocab_size(2 * len(split.train))
        return Examined(values, split.reports)

    def prepare(
        self, recipe: ClassificationRecipe, parent: Description | None, cache: Path, on_progress: OnProgress
    ) -> ClassificationData:
        split, text = read_split(recipe.data), recipe.text
        if parent is None:
            tokenizers = make_tokenizer(cache / "tokenizer", split.key, split.training_lines, text, on_progress)
        else:
            tokenizers = parent.tokenizers
        tokenizer = tokenizers.source
        on_progress("encoding the text", 0, None)
        train, n_cut = encode(split.train, split.labels, tokenizer, text.max_length)
        validation, _ = encode(split.validation, split.labels, tokenizer, text.max_length)
        counts = Counter(label for label, _ in split.train)
        return ClassificationData(
            train=train,
            validation=validation,
            tokenizers=tokenizers,
            labels=tuple(split.labels),
            samples=_samples(split.validation),
            collate=_collator(train, tokenizer, text.word_dropout or 0.0),
            collate_validation=_collator(validation, tokenizer, 0.0),
            n_targets=len(train),
            sizes=_sizes(tokenizer, len(split.labels), split.n_texts, parent),
            assets=tokenizers.files() | {LABELS_FILE: json.dumps(split.labels, ensure_ascii=False).encode()},
            facts={
                "max_length": text.max_length,
                "n_texts": split.n_texts,
                "columns": split.values["columns"],
                "label_counts": {label: counts[label] for label in split.labels},
            },
            counts={"n_classes": len(split.labels), "n_cut": n_cut, "vocabulary": tokenizer.size},
        )

    def describe_data(self, recipe: ClassificationRecipe, data: ClassificationData) -> str:
        files = ", ".join(path.name for config in recipe.data.train for path in config.file().files)
        return f"{files} ({len(data.train):,} texts, {len(data.labels)} labels)"

    def validate(
        self, model: ClassificationModel, data: ClassificationData, config: TrainingConfig, device: torch.device
    ) -> Validation:
        logits, classes = _logits(model, data, config, device)
        predicted = logits.argmax(-1)
        loss = float(torch.nn.functional.cross_entropy(logits, classes))
        confusion = Confusion.of(data.labels, classes.tolist(), predicted.tolist())
        samples = tuple(sample | {"predicted": data.labels[predicted[i]]} for i, sample in data.samples.items())
        return Validation({"loss": loss} | confusion.measures, samples)

    def finish(
        self, loaded: LoadedModel, data: ClassificationData, config: TrainingConfig, device: torch.device
    ) -> dict[str, Any]:
        """The temperature that calibrates the probabilities."""
        with evaluation_mode(loaded.model):
            return {"temperature": fit_temperature(*_logits(loaded.model, data, config, device))}

    def predictor(self, described: Description) -> Classifier:
        return Classifier.load(described)

    def evaluate(self, predictor: Classifier, files: Sequence[Path]) -> Evaluation:
        """Files: TSV files, or files of labels, each followed by the file of its texts."""
        gold, predictions = [], []
        for file in _labelled_files(files):
            lines = read_labelled(file, columns=predictor.columns, known=predictor.labels)
            if lines.layout.n_texts != predictor.n_texts:
                raise DataError(
                    f"{file.name} has {lines.layout.n_texts} texts per line, and the model was trained on "
                    f"{predictor.n_texts}",
                    hint="evaluate on a file of the same kind as the training file",
                )
            gold += [predictor.labels.index(label) for label in lines.labels]
            inputs = (list(texts) if predictor.n_texts > 1 else texts[0] for texts in lines.texts)
            predictions += predictor.predict(list(inputs))
        predicted = [predictor.labels.index(prediction.label) for prediction in predictions]
        confusion = Confusion.of(predictor.labels, gold, predicted)
        is_right = [a == b for a, b in zip(gold, predicted, strict=True)]
        error = calibration_error([prediction.probability for prediction in predictions], is_right)
        return Evaluation(
            metrics=confusion.measures | {"calibration_error": error},
            n_examples=len(gold),
            intervals=confusion.intervals(),
            details={"labels": list(predictor.labels), "confusion": confusion.counts.tolist()},
            text=confusion.to_text(),
            draw=partial(_draw, confusion, ", ".join(file.name for file in files)),
        )

    def look(self, described: Description, value: Any) -> Any:
        from regard.tasks.classification.look import look_at_text

        return look_at_text(self.predictor(described), value)


def _samples(examples: Sequence[Example]) -> dict[int, dict[str, str]]:
    """Evenly spaced, because files are often sorted by label."""
    n = min(_N_SAMPLES, len(examples))
    numbers = [(2 * i + 1) * len(examples) // (2 * n) for i in range(n)]
    chosen = {i: examples[i] for i in numbers}
    return {i: {"text": " ⇥ ".join(texts)[:_SAMPLE_CHARACTERS], "label": label} for i, (label, texts) in chosen.items()}


def _collator(texts: LabelledTexts, tokenizer: Tokenizer, word_dropout: float) -> TextCollator:
    ids = {
        "pad_id": tokenizer.pad_id,
        "unk_id": tokenizer.unk_id,
        "bos_id": tokenizer.bos_id,
        "eos_id": tokenizer.eos_id,
    }
    return TextCollator(texts=texts, word_dropout=word_dropout, **ids)


def _sizes(tokenizer: Tokenizer, n_classes: int, n_texts: int, parent: Description | None) -> dict[str, int]:
    """Of a new model; of one to start from all but the number of classes."""
    sizes = {"n_symbols": tokenizer.size, "n_segments": n_texts, "pad_id": tokenizer.pad_id}
    if parent is not None:
        sizes |= {name: size for name, size in parent.sizes.items() if name in sizes}
        if sizes["n_segments"] < n_texts:
            raise RecipeError(f"{parent.directory} reads one text, and the data has pairs of texts", hint="drop --from")
    return sizes | {"n_classes": n_classes}


def _logits(
    model: ClassificationModel, data: ClassificationData, config: TrainingConfig, device: torch.device
) -> tuple[Tensor, Tensor]:
    """(N, C) logits of the validation examples, and their classes (N,), in the order of the file."""
    logits, classes = torch.empty(len(data.validation), len(data.labels)), torch.from_numpy(data.validation.classes)
    with evaluation_mode(model):
        for batch in data.validation_batches(config.max_tokens):
            logits[torch.from_numpy(batch.indices)] = model(*batch.to(device).inputs).float().cpu()
    return logits, classes


def _labelled_files(paths: Sequence[Path]) -> list[LabelledFile]:
    """A file without a tab in its first line has labels, and the next file their texts."""
    files, rest = [], list(paths)
    while rest:
        first = rest.pop(0)
        cells = next(iter(LabelledFile(first).rows("raise")), (0, []))[1]
        files.append(LabelledFile(first, rest.pop(0) if len(cells) == 1 and rest else None))
    return files


def _draw(confusion: Confusion, files: str) -> Any:
    from regard.lens.plots.confusion import draw_confusion

    sentence = f"{files}: {confusion.counts.sum():,} texts, accuracy {confusion.measures['accuracy']:.1%}"
    return draw_confusion(confusion.classes, confusion.counts, "Confusion matrix", sentence)
