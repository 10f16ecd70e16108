"""The task "classification"."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from regard.artifact import Description, max_length
from regard.data import LabelledTexts, TextCollator
from regard.errors import DataError, RecipeError
from regard.models import ModelConfig
from regard.models.defaults import ClassificationDefaults
from regard.tasks.classes import LABELS_FILE, LabelledData, LabelTask, evaluation_of
from regard.tasks.classification.predictor import Classifier
from regard.tasks.classification.prepare import Example, encode, read_split
from regard.tasks.classification.sections import ClassificationDataConfig, ClassificationTextConfig
from regard.tasks.task import Evaluation, Examined, Inherited, OnProgress, sample_places
from regard.tasks.vocabulary import inherit_vocabulary, make_tokenizer
from regard.text import LabelledFile, Tokenizer, TokenizerPair, read_labelled
from regard.text.vocabulary import default_vocab_size
from regard.training import TrainingConfig

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
class ClassificationData(LabelledData):
    """Texts as ids, and their labels."""

    train: LabelledTexts
    validation: LabelledTexts
    tokenizers: TokenizerPair


class ClassificationTask(LabelTask[ClassificationData]):
    """Labelled text in, a classifier out."""

    name = "classification"
    title = "A classifier of texts"
    usage = 'echo "A sentence." | regard predict this/folder'
    sections: ClassVar = {"data": ClassificationDataConfig, "text": ClassificationTextConfig}
    architecture = "encoder"
    defaults = ClassificationDefaults()
    starts_from = ("classification", "pretraining", "language")
    examples = "texts"
    unit = "texts"

    def check(self, recipe: ClassificationRecipe) -> None:
        limit, length = recipe.config.max_length, recipe.text.max_length
        if recipe.start_from is None and limit is not None and length + _MAX_OTHERS > limit:
            raise ValueError(
                f"text.max_length = {length} needs {length + _MAX_OTHERS} positions, and this model has {limit}"
            )

    def inherit(self, parent: Description) -> Inherited:
        return inherit_vocabulary(parent)

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
        tokenizers = make_tokenizer(parent, cache / "tokenizer", split.key, split.training_lines, text, on_progress)
        tokenizer = tokenizers.source
        on_progress("encoding the text", 0, None)
        limit = text.max_length
        if parent is not None and parent.max_length is not None:  # only these positions were trained
            limit = min(limit, max_length(parent.facts, parent.max_length))
        train, n_cut = encode(split.train, split.labels, tokenizer, limit)
        validation, _ = encode(split.validation, split.labels, tokenizer, limit)
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
                "max_length": limit,
                "n_texts": split.n_texts,
                "columns": split.values["columns"],
                "label_counts": {label: counts[label] for label in split.labels},
            },
            counts={"n_classes": len(split.labels), "n_cut": n_cut, "vocabulary": tokenizer.size},
        )

    def describe_data(self, recipe: ClassificationRecipe, data: ClassificationData) -> str:
        files = ", ".join(path.name for config in recipe.data.train for path in config.file().files)
        return f"{files} ({len(data.train):,} texts, {len(data.labels)} labels)"

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
        names = ", ".join(file.name for file in files)
        return evaluation_of(predictor.labels, gold, predictions, names, self.examples)

    def look(self, described: Description, value: Any) -> Any:
        from regard.tasks.classification.look import look_at_text

        return look_at_text(self.predictor(described), value)


def _samples(examples: Sequence[Example]) -> dict[int, dict[str, str]]:
    chosen = {i: examples[i] for i in sample_places(len(examples))}
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


def _labelled_files(paths: Sequence[Path]) -> list[LabelledFile]:
    """A file without a tab in its first line has labels, and the next file their texts."""
    files, rest = [], list(paths)
    while rest:
        first = rest.pop(0)
        cells = next(iter(LabelledFile(first).rows("raise")), (0, []))[1]
        files.append(LabelledFile(first, rest.pop(0) if len(cells) == 1 and rest else None))
    return files
