"""From the last step to the final model: average checkpoints, validate, write the model directory and its card."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import torch

from regard import __version__
from regard.artifact import LoadedModel, save_model
from regard.data import Batch
from regard.engines.alignment_head import alignment_facts
from regard.engines.ctranslate2.convert import SUBDIRECTORY, convert, unsupported_reason
from regard.models import TransformerConfig, load_weights, named_weights
from regard.run.build import PreparedRun
from regard.run.recipe import Recipe
from regard.run.validation_scores import best_length_penalty
from regard.training import Progress, Training, Validation, average
from regard.training.loop import held_out_batches, validate_training, validation_fields

ALIGNED_PAIRS = 2_000  # alignment scores are stable from about a thousand pairs
ALIGNED_CELLS = 2_000_000  # (source token, target token) pairs, which are all in memory at once
ALIGNED_TOKENS_PER_BATCH = 2_048  # all attention weights of a batch are in memory at once


def export_model(training: Training, prepared: PreparedRun, progress: Progress, out: Path) -> dict[str, Any]:
    """Writes the model directory `out`, and returns the facts that describe the model."""
    recipe, tokenizers, languages = prepared.recipe, prepared.tokenizers, prepared.languages
    model, n_pairs = training.model, len(training.store)
    load_weights(model, final_weights(training))
    validation = validate_training(training, use_ema=False)
    facts: dict[str, Any] = {
        "recipe": recipe.digest(),
        "steps": progress.step,
        "n_pairs": n_pairs,
        "max_length": recipe.text.max_length,
        "languages": languages.languages.to_facts(),
        "n_parameters": model.n_parameters,
        **alignment_facts(model, (batch.to(training.device) for batch in alignment_batches(training))),
        **{name: value for name, value in validation_fields(validation).items() if name != "samples"},
    }
    loaded = LoadedModel(recipe.model.architecture, model.config, model.to("cpu").eval(), tokenizers, facts)
    facts["length_penalty"] = best_length_penalty(loaded, training.validation, training.config.translated)

    def add_ctranslate2(directory: Path) -> None:
        if unsupported_reason(model.config) is None:
            convert(loaded, directory / SUBDIRECTORY, "float32")

    save_model(
        out,
        architecture=recipe.model.architecture,
        config=model.config,
        weights=named_weights(model),
        tokenizers=tokenizers,
        facts=facts | {"profiles": languages.profiles},
        card=model_card(recipe, model.config, model.n_parameters, n_pairs, progress, validation),
        write_more=add_ctranslate2,
    )
    return facts


def final_weights(training: Training) -> dict[str, torch.Tensor]:
    """Section 6.1: the average of the last (or best) checkpoints; with EMA, its running average."""
    config, checkpoints = training.config, training.checkpoints
    if training.ema is not None:
        return training.ema.weights()
    n = config.average
    averaged = checkpoints.last(n) if config.average_of == "last" else checkpoints.best(n)
    return average(checkpoint.tensors("model") for checkpoint in averaged)


def alignment_batches(training: Training) -> Iterator[Batch]:
    """Validation batches of all lengths to measure attention heads on; a sample, if the validation set is large."""
    store = training.validation
    n_src, n_tgt = store.lengths
    n_cells = float((n_src + 1.0) @ (n_tgt + 1.0))
    every = ceil(max(1, len(store) / ALIGNED_PAIRS, n_cells / ALIGNED_CELLS))
    return islice(held_out_batches(training, ALIGNED_TOKENS_PER_BATCH), 0, None, every)  # they are sorted by length


def model_card(
    recipe: Recipe,
    config: TransformerConfig,
    n_parameters: int,
    n_pairs: int,
    progress: Progress,
    validation: Validation,
) -> str:
    """The README.md of the model directory: data, size, training and quality. It names files and quotes none."""
    files = ", ".join(path.name for corpus in recipe.data.train for path in corpus.corpus().files)
    parent = f"\n- fine-tuned from: {recipe.start_from.name}" if recipe.start_from is not None else ""
    scores = validation.translation
    bleu = "" if scores is None else f", BLEU {scores.bleu:.1f}, chrF++ {scores.chrf:.1f} (greedy, first sentences)"
    return f"""# A translation model

A Transformer ("Attention Is All You Need"), trained from parallel text with regard {__version__}.

- text: {files} ({n_pairs:,} pairs){parent}
- size: {config.n_encoder_layers}+{config.n_decoder_layers} layers, d_model {config.d_model}, d_ff {config.d_ff}, \
{config.n_heads} heads, {n_parameters / 1e6:.1f}M parameters
- training: {progress.step:,} steps, {progress.elapsed_seconds / 60:.1f} minutes
- validation: perplexity {validation.perplexity:.2f} per sub-word, {validation.accuracy:.1%} of the sub-words right\
{bleu}

`config.json` has the architecture, `model.safetensors` the weights, `*.model` the vocabulary (SentencePiece), and
`manifest.json` a checksum of every file. Nothing here is executable.

    echo "A sentence." | regard translate this/folder
"""
