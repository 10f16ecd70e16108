"""Builds the parts of a run from its recipe: tokenizers and token stores, then the model and its training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.artifact import Description, describe, load_described
from regard.data import LoaderSettings, TokenStore, random_key
from regard.errors import RunError
from regard.models import MODELS, load_weights, named_weights
from regard.run.callbacks import Callbacks
from regard.run.prepare import Corpora, LanguageFacts, language_facts, make_stores, make_tokenizers
from regard.run.recipe import Recipe
from regard.run.validation_scores import translation_scorer
from regard.text import Tokenizer, TokenizerPair
from regard.training import Checkpoints, Training


@dataclass(frozen=True)
class PreparedRun:
    """Everything that a training is built from."""

    recipe: Recipe
    parent: Description | None  # fine-tuning: the model to start from, verified once per run
    tokenizers: TokenizerPair
    languages: LanguageFacts
    train: TokenStore
    validation: TokenStore


def describe_parent(recipe: Recipe) -> Description | None:
    """Verifies the model that fine-tuning starts from; it must not change once a run has begun."""
    if recipe.start_from is None:
        return None
    parent = describe(recipe.start_from)
    if recipe.start_fingerprint is not None and parent.digest != recipe.start_fingerprint:
        raise RunError(
            f"{recipe.start_from} has changed since this run began",
            hint="restore the original model, or train in another directory",
        )
    return parent


def prepare_run(recipe: Recipe, parent: Description | None, out: Path, callbacks: Callbacks) -> PreparedRun:
    """Tokenizers and token stores; built where they are missing or belong to other text."""
    corpora = Corpora.of(recipe.data, recipe.training.seed)
    if parent is not None:
        tokenizers = parent.tokenizers
    else:
        tokenizers = make_tokenizers(out / "data" / "tokenizer", corpora, recipe.text, callbacks.on_progress)
    train, validation = make_stores(out / "data", corpora, tokenizers, recipe.text.max_length, callbacks.on_progress)
    return PreparedRun(recipe, parent, tokenizers, language_facts(corpora, recipe.text, parent), train, validation)


def loader_settings(prepared: PreparedRun) -> LoaderSettings:
    """How training batches are formed."""
    recipe, tokenizers = prepared.recipe, prepared.tokenizers
    strength = recipe.text.sampling

    def resampler(tokenizer: Tokenizer) -> Any:
        return (lambda ids, seed: tokenizer.sample_many(ids, strength, seed)) if strength else None

    return LoaderSettings(
        max_tokens=recipe.training.max_tokens,
        seed=recipe.training.seed,
        pad_id=tokenizers.target.pad_id,
        bos_id=tokenizers.target.bos_id,
        eos_id=tokenizers.target.eos_id,
        accumulate=recipe.training.accumulate,
        corpus_weights=tuple(corpus.weight for corpus in recipe.data.train),
        resample_source=resampler(tokenizers.source),
        resample_target=resampler(tokenizers.target),
    )


def build_training(prepared: PreparedRun, out: Path, device: torch.device) -> Training:
    """The model, initialised from its seed or from its parent's weights, with optimizer and checkpoints."""
    recipe, config = prepared.recipe, prepared.recipe.training
    torch.manual_seed(random_key(config.seed, "weights"))
    model_type, _ = MODELS[recipe.model.architecture]
    sizes = prepared.tokenizers.source.size, prepared.tokenizers.target.size
    model = model_type(recipe.model.config(), *sizes, prepared.tokenizers.target.pad_id)
    if prepared.parent is not None:
        load_weights(model, named_weights(load_described(prepared.parent).model))
    checkpoints = Checkpoints(
        out / "checkpoints",
        keep_last=max(2, config.average if config.average_of == "last" else 0),
        keep_best=config.average if config.average_of == "best" else 1,
    )
    return Training.build(
        config,
        model,
        prepared.train,
        loader_settings(prepared),
        prepared.validation,
        device,
        checkpoints,
        {"recipe": recipe.digest()},
        translation_scorer(prepared.validation, prepared.tokenizers, recipe.model, config.translated),
    )
