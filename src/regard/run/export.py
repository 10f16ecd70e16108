"""From the last step to the product: average, measure, find the head that aligns, write the model directory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import torch

from regard.artifact import LoadedModel, save_model
from regard.data import Batch, validation_batches
from regard.engines.alignment_head import alignment_facts
from regard.engines.ctranslate2.convert import SUBDIRECTORY, convert, unsupported_reason
from regard.models import load_weights, named_weights
from regard.run.card import model_card
from regard.run.language_facts import LanguageFacts
from regard.run.penalty import choose_length_penalty
from regard.run.recipe import Recipe
from regard.text import TokenizerPair
from regard.training import Progress, Training, average
from regard.training.loop import described, validate_all

ALIGNED_PAIRS = 2_000  # a thousand or two are enough
ALIGNED_CELLS = 2_000_000  # pairs of a source and a target symbol, which are all in memory at once
ALIGNED_TOKENS_PER_BATCH = 2_048  # of a batch every weight is kept


def finish(
    training: Training,
    recipe: Recipe,
    tokenizers: TokenizerPair,
    spoken: LanguageFacts,
    progress: Progress,
    out: Path,
) -> dict[str, Any]:
    """Write `out`, a model directory, and give what there is to say of it."""
    model, n_pairs = training.model, len(training.store)
    load_weights(model, product(training))
    found = validate_all(training, averaged=False)
    facts: dict[str, Any] = {
        "recipe": recipe.digest(),
        "steps": progress.step,
        "n_pairs": n_pairs,
        "max_length": recipe.text.max_length,
        "languages": spoken.languages.to_facts(),
        "n_parameters": model.n_parameters,
        **alignment_facts(model, (batch.to(training.device) for batch in pairs_to_align(training))),
        **{name: value for name, value in described(found).items() if name != "samples"},
    }
    loaded = LoadedModel(recipe.model.architecture, model.config, model.to("cpu").eval(), tokenizers, facts)
    facts["length_penalty"] = choose_length_penalty(loaded, training.validation, training.config.translated)

    def add_ctranslate2(aside: Path) -> None:
        if unsupported_reason(model.config) is None:
            convert(loaded, aside / SUBDIRECTORY, "float32")

    save_model(
        out,
        architecture=recipe.model.architecture,
        config=model.config,
        weights=named_weights(model),
        tokenizers=tokenizers,
        facts=facts | {"profiles": spoken.profiles},
        card=model_card(recipe, model.config, model.n_parameters, n_pairs, progress, found),
        write_more=add_ctranslate2,
    )
    return facts


def pairs_to_align(training: Training) -> Iterator[Batch]:
    """Validation pairs to measure the heads on: of all lengths, and however many there are, never more than enough."""
    store, stream = training.validation, training.stream
    n_src, n_tgt = store.lengths
    n_cells = float((n_src + 1.0) @ (n_tgt + 1.0))
    every = ceil(max(1, len(store) / ALIGNED_PAIRS, n_cells / ALIGNED_CELLS))
    batches = validation_batches(
        store,
        max_tokens=min(stream.max_tokens, ALIGNED_TOKENS_PER_BATCH),
        pad_id=stream.pad_id,
        bos_id=stream.bos_id,
        eos_id=stream.eos_id,
    )
    return islice(batches, 0, None, every)  # they come by length


def product(training: Training) -> dict[str, torch.Tensor]:
    """Section 6.1: the average of the last (or best) checkpoints; with EMA, the average that it kept."""
    config, kept = training.config, training.checkpoints
    if training.ema is not None:
        return training.ema.weights()
    chosen = kept.last(config.average) if config.average_of == "last" else kept.best(config.average)
    return average(checkpoint.tensors("model") for checkpoint in chosen)
