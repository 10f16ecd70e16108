"""The task "language"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Protocol

import numpy as np
import torch

from regard.artifact import Description
from regard.data import StretchCollator, Stretches, TokenStream, make_stream
from regard.data.stream import StreamMeta
from regard.errors import DataError
from regard.metrics import Measure
from regard.models import LanguageModel, ModelConfig
from regard.models.defaults import LanguageDefaults
from regard.tasks.language.predictor import Continuer
from regard.tasks.language.scoring import (
    STRETCH,
    ContextLoss,
    context_table,
    loss_by_context,
    perplexity_interval,
    scores,
    stretch_losses,
    token_losses,
)
from regard.tasks.language.sections import LanguageTextConfig
from regard.tasks.running_text import RunningTextConfig, read_split
from regard.tasks.task import Data, Evaluation, Examined, Inherited, OnProgress, Task, sample_places
from regard.tasks.vocabulary import digest, inherit_vocabulary, make_tokenizer
from regard.text import Tokenizer, TokenizerPair
from regard.text.running_text import RunningText
from regard.text.vocabulary import SPACE, default_vocab_size
from regard.training import TrainingConfig, Validation
from regard.training.validation import evaluation_mode

_VALIDATED = 32  # stretches of validation text
_EVALUATED = 64  # stretches of a test text, for the loss by length of context
_SAMPLE_TOKENS = 24
_NOTE = "on at most 32,768 tokens of the validation text, in stretches of 1,024"


class LanguageRecipe(Protocol):
    """A recipe with the sections of this task."""

    data: RunningTextConfig
    text: LanguageTextConfig
    training: TrainingConfig
    task: str
    start_from: Path | None

    @property
    def config(self) -> ModelConfig: ...

    @property
    def architecture(self) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class LanguageData(Data):
    """Two texts as streams of tokens."""

    train: Stretches
    validation: Stretches
    tokenizers: TokenizerPair

    @property
    def n_shown(self) -> tuple[int, int]:
        return len(self.train.stream), len(self.validation.stream)


class LanguageTask(Task[LanguageData]):
    """A text in, a model of what comes next out."""

    name = "language"
    title = "A language model"
    usage = 'regard predict this/folder "The beginning of a sentence"'
    sections: ClassVar = {"data": RunningTextConfig, "text": LanguageTextConfig}
    architecture = "language"
    defaults = LanguageDefaults()
    measures = (
        Measure("loss", "loss", 4, higher_is_better=False, note=_NOTE),
        Measure("perplexity", "perplexity per word", 2, higher_is_better=False, note=_NOTE),
        Measure("bits_per_character", "bits per character", 3, higher_is_better=False, note=_NOTE),
    )
    examples = "tokens"
    stand_in: ClassVar = {"train": ["stated"]}
    evaluated_with = frozenset({"memory", "on_progress"})

    def inherit(self, parent: Description) -> Inherited:
        return inherit_vocabulary(parent, segment=parent.sizes["segment"])

    def examine(self, recipe: LanguageRecipe, on_progress: OnProgress) -> Examined:
        on_progress("reading the text", 0, None)
        split, text = read_split(recipe.data), recipe.text
        segment, n_segments = recipe.architecture.models[recipe.task].usual_segments
        values: dict[str, Any] = {}
        if text.segment is None:
            values["segment"] = segment * (2 if text.kind == "char" else 1)
        if text.n_segments is None:
            values["n_segments"] = n_segments
        if text.vocabulary is None and text.kind in ("bpe", "unigram"):
            values["vocabulary"] = default_vocab_size(split.counts.n_words // 12)  # that many sentences
        return Examined({"data": split.values, "text": values}, split.reports)

    def prepare(
        self, recipe: LanguageRecipe, parent: Description | None, cache: Path, on_progress: OnProgress
    ) -> LanguageData:
        split, text = read_split(recipe.data), recipe.text
        tokenizers = make_tokenizer(parent, cache / "tokenizer", split.key, split.training_lines, text, on_progress)
        tokenizer, segment = tokenizers.source, text.segment or 1
        key = digest(split.key, tokenizer.to_bytes())
        streams = [
            _stream(cache / name, lines(), tokenizer, key, partial(on_progress, f"encoding the {name} text"))
            for name, lines in (("training", split.training_lines), ("validation", split.validation_lines))
        ]
        split.require_unchanged()
        train, validation = (Stretches(stream, segment * (text.n_segments or 1)) for stream in streams)
        collators = [StretchCollator(stretches=each, pad_id=tokenizer.pad_id) for each in (train, validation)]
        meta = train.stream.meta
        return LanguageData(
            train=train,
            validation=validation,
            tokenizers=tokenizers,
            collate=collators[0],
            collate_validation=collators[1],
            n_targets=meta.n_tokens,
            sizes={"n_symbols": tokenizer.size, "segment": segment, "pad_id": tokenizer.pad_id},
            assets=tokenizers.files(),
            facts={"n_tokens": meta.n_tokens, "n_words": meta.n_words, "n_lines": meta.n_lines},
            counts={"vocabulary": tokenizer.size},
        )

    def stated(self, recipe: LanguageRecipe, n_examples: int, lengths: Sequence[int]) -> LanguageData:
        """`n_examples`: tokens. The length of an example is that of the recipe."""
        usual = recipe.architecture.models[recipe.task].usual_segments
        segment, n_segments = recipe.text.segment or usual[0], recipe.text.n_segments or usual[1]
        size = recipe.text.vocabulary or default_vocab_size(n_examples // 12)
        ids = np.random.default_rng(0).integers(min(4, size - 1), size, n_examples, dtype=np.uint32)
        meta = StreamMeta("", n_examples, 0, 0, 0, 0, vocab_size=size, eos_id=3)
        stretches = Stretches(TokenStream(meta, ids), segment * n_segments)
        collate = StretchCollator(stretches=stretches, pad_id=0)
        return LanguageData(
            train=stretches,
            validation=stretches,
            tokenizers=None,  # type: ignore[arg-type]  # nothing is predicted
            collate=collate,
            collate_validation=collate,
            n_targets=n_examples,
            sizes={"n_symbols": size, "segment": segment, "pad_id": 0},
            assets={},
            facts={},
            counts={"vocabulary": size},
        )

    def describe_data(self, recipe: LanguageRecipe, data: LanguageData) -> str:
        files, meta = ", ".join(path.name for path in recipe.data.train), data.train.stream.meta
        return f"{files} ({meta.n_words:,} words, {meta.n_tokens:,} tokens)"

    def validate(
        self, model: LanguageModel, data: LanguageData, config: TrainingConfig, device: torch.device
    ) -> Validation:
        stream = data.validation.stream
        with evaluation_mode(model):
            n = min(_VALIDATED, ceil(len(stream) / STRETCH))
            losses = stretch_losses(model, stream, n, device=device)
            samples = _samples(model.to("cpu"), data) if device.type == "cpu" else ()
        return Validation(scores(float(losses.mean(dtype=np.float64)), stream.meta), samples)

    def predictor(self, described: Description) -> Continuer:
        return Continuer.load(described)

    def evaluate(self, predictor: Continuer, files: Sequence[Path]) -> Evaluation:
        """Files: one text, in parts. What the model remembers is carried through the whole of it."""
        names, tokenizer, model = ", ".join(file.name for file in files), predictor.tokenizer, predictor.model
        with TemporaryDirectory(prefix="regard-") as directory:
            stream = _stream(Path(directory) / "text", RunningText(tuple(files)).lines(), tokenizer, "", None)
        if not stream.meta.n_words:
            raise DataError(f"{names}: there is no text in it", hint="name a file of text")
        meta, n_read = stream.meta, 0

        def advance(n: int) -> None:
            nonlocal n_read
            n_read += n
            predictor.on_progress("reading the text", n_read, len(stream) + _EVALUATED * STRETCH)

        losses = token_losses(model, stream, predictor.memory, advance)
        rows = loss_by_context(stretch_losses(model, stream, _EVALUATED, predictor.memory, on_tokens=advance))
        counts = {"n_tokens": meta.n_tokens, "n_words": meta.n_words, "n_lines": meta.n_lines}
        return Evaluation(
            metrics=scores(float(losses.mean(dtype=np.float64)), meta),
            n_examples=meta.n_tokens,
            unit="tokens",
            intervals={"perplexity": perplexity_interval(losses, stream)},
            details=counts | {"n_unknown": meta.n_unknown, "by_context": [row._asdict() for row in rows]},
            text=f"{meta.n_words:,} words, {meta.n_lines:,} ends of lines, {meta.n_unknown:,} unknown tokens\n\n"
            + context_table(rows),
            draw=partial(_draw, rows, names),
        )

    def look(self, described: Description, value: Any) -> Any:
        from regard.tasks.language.look import look_at_text

        return look_at_text(self.predictor(described), value)


def _stream(
    directory: Path, lines: Any, tokenizer: Tokenizer, key: str, on_progress: Callable[[int, int | None], None] | None
) -> TokenStream:
    return make_stream(
        directory,
        lines,
        tokenizer.encode_many,
        key=key,
        vocab_size=tokenizer.size,
        eos_id=tokenizer.eos_id,
        unk_id=tokenizer.unk_id,
        progress=None if on_progress is None else lambda done: on_progress(done, None),
    )


def _samples(model: LanguageModel, data: LanguageData) -> tuple[dict[str, str], ...]:
    """Beginnings of validation text, what comes after them, and what the model writes."""
    stream, tokenizer = data.validation.stream, data.tokenizers.source
    continuer, samples = Continuer(model, tokenizer), []
    for start in sample_places(len(stream)):
        ids = [int(token) for token in stream.ids[start : start + 3 * _SAMPLE_TOKENS]]
        starts = [i for i, token in enumerate(ids[:_SAMPLE_TOKENS]) if tokenizer.piece(token).startswith(SPACE)]
        ids = ids[starts[0] if starts else 0 :][: 2 * _SAMPLE_TOKENS]  # from the beginning of a word
        text, real = tokenizer.decode(ids[:_SAMPLE_TOKENS]), tokenizer.decode(ids[_SAMPLE_TOKENS:])
        written = continuer.predict([{"text": text, "length": _SAMPLE_TOKENS}])[0].continuation
        samples.append({"text": text, "continues": real, "predicted": written.strip() or "(end of the line)"})
    return tuple(samples)


def _draw(rows: Sequence[ContextLoss], names: str) -> Any:
    from regard.lens.plots.context import draw_context

    labels, losses = [row.label for row in rows], [row.loss for row in rows]
    return draw_context(labels, losses, "Loss by length of context", names)
