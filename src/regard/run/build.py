"""A run's parts, made from its recipe: vocabulary and token stores, then the model and all that trains it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.artifact import describe, load_model
from regard.data import LoaderSettings, TokenStore, random_key
from regard.errors import RunError
from regard.models import MODELS, load_weights, named_weights
from regard.run.callbacks import Watcher
from regard.run.language_facts import LanguageFacts, language_facts
from regard.run.prepare import Corpora, make_stores, make_tokenizers
from regard.run.recipe import Recipe
from regard.run.validation_scores import judge
from regard.text import Tokenizer, TokenizerPair
from regard.training import Checkpoints, Training, set_up


@dataclass(frozen=True)
class Prepared:
    """What a run's loop is made from."""

    recipe: Recipe
    tokenizers: TokenizerPair
    spoken: LanguageFacts
    train: TokenStore
    validation: TokenStore


def encode(recipe: Recipe, out: Path, watcher: Watcher) -> Prepared:
    """Vocabulary and token stores; made when they are not there, or are not of this text."""
    corpora = Corpora.of(recipe.data, recipe.training.seed)
    if recipe.start_from is not None:
        start = describe(recipe.start_from)
        if recipe.start_fingerprint is not None and start.digest != recipe.start_fingerprint:
            raise RunError(
                f"{recipe.start_from} is not the model that this run began with",
                hint="bring it back as it was, or train in another directory",
            )
        tokenizers = start.tokenizers
    else:
        tokenizers = make_tokenizers(out / "data" / "tokenizer", corpora, recipe.text, watcher.progress)
    train, validation = make_stores(out / "data", corpora, tokenizers, recipe.text.max_length, watcher.progress)
    return Prepared(recipe, tokenizers, language_facts(corpora, recipe), train, validation)


def stream(prepared: Prepared) -> LoaderSettings:
    """How its batches are made."""
    recipe, tokenizers = prepared.recipe, prepared.tokenizers
    strength = recipe.text.sampling

    def sampled(tokenizer: Tokenizer) -> Any:
        return (lambda ids, seed: tokenizer.sample_many(ids, strength, seed)) if strength else None

    return LoaderSettings(
        max_tokens=recipe.training.max_tokens,
        seed=recipe.training.seed,
        pad_id=tokenizers.target.pad_id,
        bos_id=tokenizers.target.bos_id,
        eos_id=tokenizers.target.eos_id,
        accumulate=recipe.training.accumulate,
        corpus_weights=tuple(one.weight for one in recipe.data.train),
        resample_source=sampled(tokenizers.source),
        resample_target=sampled(tokenizers.target),
    )


def set_up_run(prepared: Prepared, out: Path, device: torch.device) -> Training:
    """The model, with the weights that its seed gives or those it starts from, and all that trains it."""
    recipe, config = prepared.recipe, prepared.recipe.training
    torch.manual_seed(random_key(config.seed, "weights"))
    model_type, _ = MODELS[recipe.model.architecture]
    sizes = prepared.tokenizers.source.size, prepared.tokenizers.target.size
    model = model_type(recipe.model.config(), *sizes, prepared.tokenizers.target.pad_id)
    if recipe.start_from is not None:
        load_weights(model, named_weights(load_model(recipe.start_from).model))
    checkpoints = Checkpoints(
        out / "checkpoints",
        keep_last=max(2, config.average if config.average_of == "last" else 0),
        keep_best=config.average if config.average_of == "best" else 1,
    )
    return set_up(
        config,
        model,
        prepared.train,
        stream(prepared),
        prepared.validation,
        device,
        checkpoints,
        {"recipe": recipe.digest()},
        judge(prepared.validation, prepared.tokenizers, recipe.model, config.translated),
    )
