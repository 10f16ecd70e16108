"""The task "pretraining"."""

from __future__ import annotations

from collections.abc import Sequence
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
from regard.tasks.pretraining.prepare import documents_of, encode, hold_out, require_passages, text_key
from regard.tasks.pretraining.scores import score
from regard.tasks.pretraining.sections import PretrainingDataConfig, PretrainingTextConfig, TextFileConfig
from regard.tasks.task import Data, Evaluation, Examined, Inherited, OnProgress, Task
from regard.tasks.vocabulary import make_tokenizer
from regard.text import Tokenizer, TokenizerPair
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

    def check(self, recipe: PretrainingRecipe) -> None:
        config, length = recipe.config, recipe.text.max_length
        if config.max_length is not None and length + _N_OTHERS > config.max_length:
            raise ValueError(
                f"text.max_length = {length} needs {length + _N_OTHERS} positions, this model has {config.max_length}"
            )
        if recipe.training.r_drop and "replaced" in config.asks:
            raise ValueError("training.r_drop compares two passes, and this model replaces other words in each of them")

    def inherit(self, parent: Description) -> Inherited:
        """The vocabulary is the parent's."""
        values = {"kind": parent.tokenizers.source.kind, "vocabulary": parent.tokenizers.source.size}
        return Inherited({"text": values}, {"text": values})

    def examine(self, recipe: PretrainingRecipe, on_progress: OnProgress) -> Examined:
        on_progress("reading the text", 0, None)
        key, data = text_key(recipe.data), recipe.data
        lengths = [len(document) for document in documents_of((*data.train, *data.validation), data)]
        message = f"{len(lengths):,} documents with {sum(lengths):,} sentences"
        if recipe.data.document is None and len(lengths) > sum(lengths) / 2:
            message += "; if they are paragraphs, set data.document to a pattern of their titles"
        name = ", ".join(file.text.name for file in (*data.train, *data.validation))
        finding = {"severity": "found", "kind": "documents", "message": f"{name}: {message}"}
        report = {"name": name, "n_examples": sum(lengths), "findings": [finding]}
        return Examined({"data": {"fingerprint": key}}, [report])

    def prepare(
        self, recipe: PretrainingRecipe, parent: Description | None, cache: Path, on_progress: OnProgress
    ) -> PretrainingData:
        data, text, config = recipe.data, recipe.text, recipe.config
        key = f"{text_key(data)} {data.document} {data.on_bad}"
        if parent is None:
            tokenizers = make_tokenizer(
                cache / "tokenizer",
                key,
                lambda: (sentence for document in documents_of(data.train, data) for sentence in document),
                text,
                on_progress,
                mask=True,
            )
        else:
            tokenizers = parent.tokenizers
        tokenizer = tokenizers.source
        train = encode(data.train, data, tokenizer, text.max_length, on_progress)
        if data.validation:
            validation = encode(data.validation, data, tokenizer, text.max_length, on_progress)
        else:
            train, validation = hold_out(train, data.held_out)
        for name, passages in (("the training text", train), ("the validation text", validation)):
            require_passages(name, passages, pairs="next" in config.asks)
        return PretrainingData(
            train=train,
            validation=validation,
            tokenizers=tokenizers,
            collate=collator(train, tokenizer, config),
            collate_validation=collator(validation, tokenizer, config),
            n_targets=int(train.lengths[0].sum()),
            sizes={"n_symbols": tokenizer.size, "n_segments": 2, "pad_id": tokenizer.pad_id},
            assets=tokenizers.files(),
            facts={"max_length": text.max_length, "document": data.document},
            counts={"vocabulary": tokenizer.size},
        )

    def describe_data(self, recipe: PretrainingRecipe, data: PretrainingData) -> str:
        files = ", ".join(file.text.name for file in recipe.data.train)
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
        data = PretrainingDataConfig(
            train=tuple(TextFileConfig(text=file) for file in files), document=predictor.facts.get("document")
        )
        config: Any = predictor.model.config
        passages = encode(data.train, data, predictor.tokenizer, predictor.max_length, lambda *_: None)
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
    )


def _samples(model: PretrainingModel, data: PretrainingData, device: torch.device) -> tuple[dict[str, str], ...]:
    """Some validation passages with blanks, the words that belong there, and those of the model."""
    tokenizer, samples = data.tokenizers.source, []
    batch = next(iter(data.validation_batches(_TEST_TOKENS))).rows(slice(0, _N_SAMPLES)).to(device)
    ids, segments, _ = batch.inputs
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
