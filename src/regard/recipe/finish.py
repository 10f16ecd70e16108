"""From the last step to the product: average, measure, find the head that aligns, write the model directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard.artifact import LoadedModel, save_model
from regard.engines.alignment import describe_heads
from regard.engines.convert import SUBDIRECTORY, convert, supports
from regard.models import load_weights, named_weights
from regard.recipe.card import model_card
from regard.recipe.languages import LanguageFacts
from regard.recipe.schema import Recipe
from regard.text import TokenizerPair
from regard.training import Progress, Training, average
from regard.training.loop import described, held_out, validate_all


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
        **describe_heads(model, (batch.to(training.device) for batch in held_out(training))),
        **{name: value for name, value in described(found).items() if name != "samples"},
    }
    loaded = LoadedModel(recipe.model.architecture, model.config, model.to("cpu").eval(), tokenizers, facts)

    def add_ctranslate2(aside: Path) -> None:
        if supports(model.config) is None:
            convert(loaded, aside / SUBDIRECTORY, "float32")

    save_model(
        out,
        architecture=recipe.model.architecture,
        config=model.config,
        weights=named_weights(model),
        tokenizers=tokenizers,
        facts=facts | {"profiles": spoken.profiles},
        card=model_card(recipe, model.config, model.n_parameters, n_pairs, progress, found),
        more=add_ctranslate2,
    )
    return facts


def product(training: Training) -> dict[str, torch.Tensor]:
    """Section 6.1: the average of the last (or best) checkpoints; with EMA, the average that it kept."""
    config, kept = training.config, training.checkpoints
    if training.ema is not None:
        return training.ema.weights()
    chosen = kept.last(config.average) if config.average_of == "last" else kept.best(config.average)
    return average(checkpoint.tensors("model") for checkpoint in chosen)
