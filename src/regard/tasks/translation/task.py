"""The task "translation"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, exp
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from regard.artifact import Description, LoadedModel, search_options
from regard.data import Batch, PairCollator, TokenStore
from regard.data.shards import ShardedStore, ShardIndex
from regard.data.store import random_store
from regard.engines.alignment_head import alignment_facts
from regard.engines.ctranslate2.convert import SUBDIRECTORY, convert, unsupported_reason
from regard.engines.torch_engine import TorchEngine
from regard.errors import DataError, UserError
from regard.evaluate import read_test_set, score
from regard.metrics import TRANSLATION_MEASURES, Measure
from regard.models import ModelConfig, TranslationModel
from regard.tasks.task import Data, Evaluation, Examined, Inherited, OnProgress, Task
from regard.tasks.translation.prepare import (
    Corpora,
    corpus_weights,
    data_values,
    examine_corpora,
    file_states,
    language_facts,
    make_stores,
    make_tokenizers,
    open_shards,
    store_values,
    text_facts,
)
from regard.tasks.translation.scores import best_length_penalty, score_translations
from regard.tasks.translation.sections import DataConfig, TextConfig
from regard.tasks.translation.shipped import fine_tuning_facts, precision_facts
from regard.text import Tokenizer, TokenizerPair
from regard.text.vocabulary import default_vocab_size
from regard.training import TrainingConfig, Validation
from regard.training.validation import evaluation_mode, score_terms
from regard.translator import Translator
from regard.translator.warning_signs import warning_facts

SAMPLED_LINES = 20_000  # of the training text, to see what it is like
WARNED_LINES = 3  # as many times the lines that validation translates, to fit the thresholds of warnings
ALIGNED_PAIRS = 2_000  # alignment scores are stable from about a thousand pairs
ALIGNED_CELLS = 2_000_000  # (source token, target token) pairs, which are all in memory at once
ALIGNED_TOKENS_PER_BATCH = 2_048  # all attention weights of a batch are in memory at once


class TranslationRecipe(Protocol):
    """A recipe with the sections of this task."""

    start_from: Path | None
    data: DataConfig
    text: TextConfig
    training: TrainingConfig

    @property
    def config(self) -> ModelConfig: ...


@dataclass(frozen=True, kw_only=True)
class TranslationData(Data):
    """Token stores and their tokenizers."""

    train: TokenStore | ShardedStore
    validation: TokenStore
    tokenizers: TokenizerPair
    general: TokenStore | None = None  # held-out general text, if a model is fine-tuned with some

    @property
    def cost_lengths(self) -> tuple[NDArray[np.integer], ...]:
        """Of all examples; of a store of shards, their mean."""
        if not isinstance(self.train, ShardedStore):
            return super().cost_lengths
        meta, n = self.train.meta, len(self.train)
        return np.array([1 + meta.n_source_tokens // n]), np.array([1 + meta.n_target_tokens // n])


class Translation(Task[TranslationData]):
    """Two text files in, a translator out."""

    name = Translator.task
    title = "A translation model"
    usage = 'echo "A sentence." | regard translate this/folder'
    sections: ClassVar = {"data": DataConfig, "text": TextConfig}
    architecture = "transformer"
    examples = "pairs"
    stand_in: ClassVar = {"train": [{"tsv": "stated"}]}
    measures = TRANSLATION_MEASURES
    test_measures = (Measure("exact", "exact", 1, higher_is_better=True, is_share=True),)

    def check(self, recipe: TranslationRecipe) -> None:
        recipe.config.check_vocabulary(joint=recipe.text.joint, max_length=recipe.text.max_length + 1)
        best_by = recipe.training.best_by
        if best_by in ("bleu", "chrf") and not recipe.training.translated:
            raise ValueError(f"best_by = '{best_by}' needs translated to be above 0")
        data = recipe.data
        if (data.store is None) == (not data.train):
            raise ValueError("data.train is missing" if data.store is None else "give either data.train or data.store")
        if data.store is not None and (data.validation or data.keep):
            raise ValueError("data.store has its own validation set, and no general text")
        if recipe.data.keep and recipe.start_from is None:
            raise ValueError("data.keep is general text for fine-tuning: it needs start_from")

    def inherit(self, parent: Description) -> Inherited:
        """The vocabulary is the parent's."""
        tokenizers = parent.tokenizers
        values = {"joint": tokenizers.joint, "kind": tokenizers.target.kind}
        size = max(tokenizers.source.size, tokenizers.target.size)
        return Inherited({"text": values}, {"text": values | {"vocabulary": size}})

    def examine(self, recipe: TranslationRecipe, on_progress: OnProgress) -> Examined:
        if recipe.data.store is not None:
            return Examined(store_values(recipe.data.store, recipe.text))
        states = file_states(recipe.data)
        n_pairs, reports = examine_corpora(recipe.data, on_progress)
        values = data_values(recipe.data, n_pairs, recipe.training.seed)
        if file_states(recipe.data) != states:
            raise DataError("the training text was changed while it was being examined", hint="run the command again")
        return Examined({"data": values}, [report.to_dict() for report in reports])

    def prepare(
        self, recipe: TranslationRecipe, parent: Description | None, cache: Path, on_progress: OnProgress
    ) -> TranslationData:
        """Tokenizers and token stores."""
        if recipe.data.store is not None:
            return _prepare_store(recipe, parent)
        corpora = Corpora.of(recipe.data, recipe.training.seed)
        if parent is not None:
            tokenizers = parent.tokenizers
            if recipe.text.sampling and not tokenizers.target.has_bytes:
                hint = "set text.sampling to 0"
                raise DataError("the vocabulary of this model has no bytes, so it cannot be sampled", hint=hint)
        else:
            tokenizers = make_tokenizers(cache / "tokenizer", corpora, recipe.text, on_progress)
        train, validation, general = make_stores(cache, corpora, tokenizers, recipe.text.max_length, on_progress)
        languages = language_facts(corpora, recipe.text, parent)
        corpora.require_unchanged()
        return TranslationData(
            train=train,
            validation=validation,
            tokenizers=tokenizers,
            collate=_collator(train, tokenizers, recipe.text.sampling),
            collate_validation=_collator(validation, tokenizers, 0.0),
            n_targets=train.meta.n_target_tokens,
            sizes=tokenizers.sizes,
            assets=tokenizers.files(),
            facts={
                "max_length": recipe.text.max_length,
                **languages,
                **text_facts(_sampled_pairs(train, SAMPLED_LINES), tokenizers, languages),
            },
            weights=corpus_weights(recipe.data, train),
            general=general,
            counts={
                "n_blank": train.meta.n_blank,
                "n_too_long": train.meta.n_too_long,
                "vocabulary": tokenizers.target.size,
            },
        )

    def stated(self, recipe: TranslationRecipe, n_examples: int, lengths: Sequence[int]) -> TranslationData:
        """`lengths`: tokens of a source and of its target."""
        text = recipe.text
        if len(lengths) != 2:
            raise UserError("a translator has a source and a target", hint="write their lengths as --lengths 25,27")
        size = text.vocabulary or default_vocab_size(n_examples * (2 if text.joint else 1))
        n_source, n_target = (min(length, text.max_length) for length in lengths)
        store = random_store(n_examples, n_source, n_target, size)
        collate = PairCollator(store=store, pad_id=0, bos_id=2, eos_id=3)
        return TranslationData(
            train=store,
            validation=store,
            tokenizers=None,  # type: ignore[arg-type]  # nothing is translated
            collate=collate,
            collate_validation=collate,
            n_targets=store.meta.n_target_tokens,
            sizes={"n_src_symbols": size, "n_tgt_symbols": size, "pad_id": 0},
            assets={},
            facts={},
            counts={"vocabulary": size},
        )

    def describe_data(self, recipe: TranslationRecipe, data: TranslationData) -> str:
        names = [path.name for corpus in recipe.data.learned for path in corpus.corpus().files]
        files = ", ".join(names if recipe.data.store is None else ShardIndex.read(recipe.data.store).files)
        return f"{files} ({len(data.train):,} pairs)"

    def validate(
        self, model: TranslationModel, data: TranslationData, config: TrainingConfig, device: torch.device
    ) -> Validation:
        """Loss with teacher forcing on all pairs; BLEU and chrF++ of greedy translations of the first ones."""
        tokens = score_terms(model, data.validation_batches(config.max_tokens), device)["tokens"]
        metrics = {"loss": tokens.loss, "perplexity": exp(min(tokens.loss, 700.0)), "accuracy": tokens.accuracy}
        if not config.translated:
            return Validation(metrics)
        with evaluation_mode(model):
            loaded = LoadedModel("", model.config, model, data.tokenizers, {})
            translated = score_translations(loaded, data.validation, config.translated, device)
        return Validation(metrics | dict(translated.metrics), translated.samples)

    def finish(
        self, loaded: LoadedModel, data: TranslationData, config: TrainingConfig, device: torch.device
    ) -> dict[str, Any]:
        """The attention head that aligns best, the best length penalty, and the thresholds of warnings."""
        batches = (batch.to(device) for batch in alignment_batches(data, config.max_tokens))
        facts = alignment_facts(loaded.model, batches)
        facts["length_penalty"] = best_length_penalty(loaded, data.validation, config.translated, device)
        sources = [source for source, _ in _sampled_pairs(data.validation, WARNED_LINES * config.translated)]
        known = replace(loaded, facts=loaded.facts | facts)
        engine, options = TorchEngine(known, device), search_options(facts)
        return facts | warning_facts(engine, data.tokenizers, data.facts, sources, options)

    def export(self, loaded: LoadedModel, directory: Path) -> None:
        """The same weights for CTranslate2, if it has this architecture."""
        if unsupported_reason(loaded.model) is None:
            convert(loaded, directory / SUBDIRECTORY, "float32")

    def measure_export(
        self,
        loaded: LoadedModel,
        directory: Path,
        data: TranslationData,
        config: TrainingConfig,
        parent: Description | None,
    ) -> dict[str, Any]:
        """Whether int8 translates as well as the weights, and BLEU before and after fine-tuning."""
        if not config.translated:
            return {}
        facts = precision_facts(loaded, directory, data.validation, config.translated)
        if parent is None:
            return facts
        stores = {"own": data.validation, "general": data.general}
        return facts | fine_tuning_facts(replace(loaded, facts=loaded.facts | facts), directory, parent, stores)

    def predictor(self, described: Description) -> Translator:
        return Translator.load(described)

    def evaluate(self, predictor: Translator, files: Sequence[Path]) -> Evaluation:
        """Files: the source, then one or more references."""
        source, *references = files
        if not references:
            raise UserError("a translator needs a source and at least one reference", hint=f"add a file after {source}")
        test_set = read_test_set(references, source)
        outputs = [prediction.text for prediction in predictor.predict(test_set.sources or [])]
        scores = score(outputs, test_set.references)
        n_exact = sum(output in references for output, *references in zip(outputs, *test_set.references, strict=True))
        metrics = {"bleu": scores.bleu.value, "chrf": scores.chrf.value, "exact": n_exact / len(outputs)}
        return Evaluation(metrics, len(outputs), {"bleu": scores.bleu.interval, "chrf": scores.chrf.interval})

    def look(self, described: Description, value: Any) -> Any:
        from regard.lens import Lens

        return Lens.load(described.directory).look(str(value))


def _prepare_store(recipe: TranslationRecipe, parent: Description | None) -> TranslationData:
    """The data of a token store that `regard encode` has built."""
    assert recipe.data.store is not None
    train, validation, tokenizers = open_shards(recipe.data.store, recipe.data.fingerprint)
    if parent is not None and parent.tokenizers.files() != tokenizers.files():
        message = f"{recipe.data.store} was encoded with another vocabulary than that of {parent.directory}"
        raise DataError(message, hint="encode the text with --from that model")
    return TranslationData(
        train=train,
        validation=validation,
        tokenizers=tokenizers,
        collate=_collator(train, tokenizers, recipe.text.sampling),
        collate_validation=_collator(validation, tokenizers, 0.0),
        n_targets=train.meta.n_target_tokens,
        sizes=tokenizers.sizes,
        assets=tokenizers.files(),
        facts={"max_length": recipe.text.max_length, **train.index.facts},
        counts={
            "n_blank": train.meta.n_blank,
            "n_too_long": train.meta.n_too_long,
            "vocabulary": tokenizers.target.size,
        },
    )


def _collator(store: TokenStore | ShardedStore, tokenizers: TokenizerPair, sampling: float) -> PairCollator:
    def resampler(tokenizer: Tokenizer) -> Any:
        return (lambda ids, seed: tokenizer.sample_many(ids, sampling, seed)) if sampling else None

    target = tokenizers.target
    return PairCollator(
        store=store,
        pad_id=target.pad_id,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
        resample_source=resampler(tokenizers.source),
        resample_target=resampler(target),
    )


def _sampled_pairs(store: TokenStore, n: int) -> list[tuple[list[int], list[int]]]:
    """The ids of up to n pairs from everywhere in the store."""
    step = max(1, ceil(len(store) / max(1, n)))
    pairs = (store.pair(number) for number in range(0, len(store), step))
    return [(source.tolist(), target.tolist()) for source, target in islice(pairs, n)]


def alignment_batches(data: TranslationData, max_tokens: int) -> Iterator[Batch]:
    """Validation batches of all lengths to measure attention heads on; a sample, if the validation set is large."""
    n_src, n_tgt = data.validation.lengths
    n_cells = float((n_src + 1.0) @ (n_tgt + 1.0))
    every = ceil(max(1, len(data.validation) / ALIGNED_PAIRS, n_cells / ALIGNED_CELLS))
    batches = data.validation_batches(min(max_tokens, ALIGNED_TOKENS_PER_BATCH))
    return islice(batches, 0, None, every)  # they are sorted by length
