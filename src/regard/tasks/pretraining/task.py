"""The task "pretraining"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch

from regard.artifact import Description
from regard.data import MaskedTexts, Passages, fixed_order
from regard.errors import RecipeError
from regard.metrics import Measure
from regard.models import PretrainedConfig, PretrainingModel
from regard.models.defaults import PretrainingDefaults
from regard.models.pretraining import is_asked
from regard.tasks.pretraining.predictor import Filler
from regard.tasks.pretraining.prepare import encode, require_passages
from regard.tasks.pretraining.scores import score
from regard.tasks.pretraining.sections import PretrainingDataConfig, PretrainingTextConfig
from regard.tasks.running_text import read_split
from regard.tasks.task import Data, Evaluation, Examined, Inherited, OnProgress, Task, finding
from regard.tasks.vocabulary import inherit_vocabulary, make_tokenizer
from regard.text import Tokenizer, TokenizerPair
from regard.text.documents import split_documents
from regard.text.running_text import RunningText
from regard.training import TrainingConfig, Validation
from regard.training.validation import evaluation_mode

_N_SAMPLES = 3
_SAMPLE_CHARACTERS = 300
_N_OTHERS = 3  # bos, and two eos
_TEST_TOKENS = 4_096  # of a batch


class PretrainingRecipe(Protocol):
    """A recipe with the sections of this task."""

    data: PretrainingDataConfig
    text: PretrainingTextConfig
    training: TrainingConfig

    @property
    def config(self) -> PretrainedConfig: ...


@dataclass(frozen=True, kw_only=True)
class PretrainingData(Data):
    """Passages as ids."""

    train: Passages
    validation: Passages
    tokenizers: TokenizerPair


class PretrainingTask(Task[PretrainingData]):
    """Text without labels in, an encoder out."""

    name = "pretraining"
    title = "An encoder of texts"
    usage = 'echo "A [MASK] sentence." | regard predict this/folder'
    sections: ClassVar = {"data": PretrainingDataConfig, "text": PretrainingTextConfig}
    architecture = "bert"
    defaults = PretrainingDefaults()
    measures = (
        Measure("loss", "loss", 4, higher_is_better=False),
        Measure("word_accuracy", "hidden words", 1, higher_is_better=True, is_share=True),
        Measure("next_accuracy", "next sentence", 1, higher_is_better=True, is_share=True),
        Measure("replaced_auc", "replaced words (AUC)", 3, higher_is_better=True),
    )
    examples = "passages"
    unit = "hidden words"

    def check(self, recipe: PretrainingRecipe) -> None:
        config, length = recipe.config, recipe.text.max_length
        if config.max_length is not None and length + _N_OTHERS > config.max_length:
            raise ValueError(
                f"text.max_length = {length} needs {length + _N_OTHERS} positions, this model has {config.max_length}"
            )
        if recipe.training.r_drop and "replaced" in config.asks:
            raise ValueError("training.r_drop compares two passes, and this model replaces other words in each of them")

    def inherit(self, parent: Description) -> Inherited:
        return inherit_vocabulary(parent)

    def examine(self, recipe: PretrainingRecipe, on_progress: OnProgress) -> Examined:
        on_progress("reading the text", 0, None)
        split, name = read_split(recipe.data), ", ".join(str(path) for path in recipe.data.train)
        lengths = [len(document) for document in split_documents(split.training_lines(), recipe.data.document)]
        message = f"{name}: {len(lengths):,} documents with {sum(lengths):,} sentences"
        findings = [finding("found", "documents", message)]
        if recipe.data.document is None and 2 * len(lengths) > sum(lengths):
            message = "most documents are one sentence; if blank lines are not between documents, set data.document"
            findings.append(finding("warning", "documents", message))
        return Examined({"data": split.values}, [*split.reports, {"name": name, "findings": findings}])

    def prepare(
        self, recipe: PretrainingRecipe, parent: Description | None, cache: Path, on_progress: OnProgress
    ) -> PretrainingData:
        split, text, config = read_split(recipe.data), recipe.text, recipe.config
        directory, lines = cache / "tokenizer", split.training_lines
        tokenizers = make_tokenizer(parent, directory, split.key, lines, text, on_progress, mask=True)
        tokenizer, asks_pairs = tokenizers.source, "next" in config.asks

        def passages(name: str, lines: Iterator[str]) -> Passages:
            documents = split_documents(lines, recipe.data.document)
            encoded = encode(documents, tokenizer, text.max_length, on_progress)
            require_passages(name, encoded, asks_pairs)
            return encoded

        train = passages("the training text", split.training_lines())
        validation = passages("the validation text", split.validation_lines())
        split.require_unchanged()
        return PretrainingData(
            train=train,
            validation=validation,
            tokenizers=tokenizers,
            collate=collator(train, tokenizer, config),
            collate_validation=collator(validation, tokenizer, config),
            n_targets=int(train.lengths[0].sum()),
            sizes={"n_symbols": tokenizer.size, "n_segments": 2, "pad_id": tokenizer.pad_id},
            assets=tokenizers.files(),
            facts={"max_length": text.max_length, "document": recipe.data.document},
            counts={"vocabulary": tokenizer.size},
        )

    def describe_data(self, recipe: PretrainingRecipe, data: PretrainingData) -> str:
        files = ", ".join(path.name for path in recipe.data.train)
        return f"{files} ({len(data.train):,} passages)"

    def validate(
        self, model: PretrainingModel, data: PretrainingData, config: TrainingConfig, device: torch.device
    ) -> Validation:
        scores = score(model, data.validation_batches(config.max_tokens), device)
        return Validation(scores.metrics, _samples(model, data, device))

    def predictor(self, described: Description) -> Filler:
        return Filler.load(described)

    def evaluate(self, predictor: Filler, files: Sequence[Path]) -> Evaluation:
        """Files: running text, with documents as in the training text."""
        config: Any = predictor.model.config
        documents = split_documents(RunningText(tuple(files)).lines(), predictor.facts.get("document"))
        passages = encode(documents, predictor.tokenizer, predictor.max_length, lambda *_: None)
        require_passages(", ".join(file.name for file in files), passages, pairs="next" in config.asks)
        collate = collator(passages, predictor.tokenizer, config)
        scores = score(predictor.model, fixed_order(passages, collate, _TEST_TOKENS), torch.device("cpu"))
        return Evaluation(metrics=scores.metrics, n_examples=len(passages), intervals=scores.intervals)

    def look(self, described: Description, value: Any) -> Any:
        from regard.tasks.pretraining.look import look_at_text

        return look_at_text(self.predictor(described), value)


def collator(passages: Passages, tokenizer: Tokenizer, config: PretrainedConfig) -> MaskedTexts:
    """Batches of passages with the questions that this model asks."""
    if tokenizer.mask_id is None:
        raise RecipeError("the vocabulary of the model to start from has no [MASK]", hint="train without --from")
    return MaskedTexts(
        passages=passages,
        masking=config.masking,
        asks=config.asks,
        n_symbols=tokenizer.size,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
        mask_id=tokenizer.mask_id,
        n_before=config.n_before,
    )


def _samples(model: PretrainingModel, data: PretrainingData, device: torch.device) -> tuple[dict[str, str], ...]:
    """Some validation passages with blanks, the words that belong there, and those of the model."""
    tokenizer, samples = data.tokenizers.source, []
    batch = next(iter(data.validation_batches(_TEST_TOKENS))).rows(slice(0, _N_SAMPLES)).to(device)
    ids, segments = batch.inputs[:2]
    asked = is_asked(batch.targets[0])
    with evaluation_mode(model):
        words = model.read(ids.masked_fill(asked, tokenizer.mask_id), segments, asked).words  # type: ignore[arg-type]
    predicted = iter([] if words is None else words.argmax(-1).tolist())
    for row, targets in zip(ids.masked_fill(asked, -1).tolist(), batch.targets[0].tolist(), strict=True):
        blanked = [tokenizer.piece(i) if i >= 0 else "▁[MASK]" for i in row if i not in tokenizer.special_ids]
        expected = [target for target, is_blank in zip(targets, [i < 0 for i in row], strict=True) if is_blank]
        samples.append(
            {
                "text": "".join(blanked).replace("▁", " ").strip()[:_SAMPLE_CHARACTERS],
                "hidden": " ".join(map(tokenizer.piece, expected)).replace("▁", "")[:_SAMPLE_CHARACTERS],
                "predicted": " ".join(map(tokenizer.piece, islice(predicted, len(expected)))).replace("▁", "")[
                    :_SAMPLE_CHARACTERS
                ],
            }
        )
    return tuple(samples)
