"""From the last step to the final model: average checkpoints, validate, write the model directory and its card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard import __version__
from regard.artifact import LoadedModel, save_model
from regard.durable import scratch_directory
from regard.metrics import shown
from regard.models import load_weights, named_weights
from regard.report import fine_tuning_sentences, int8_sentence
from regard.run.build import PreparedRun
from regard.training import Progress, Training, Validation, average
from regard.training.loop import validate_training


def export_model(training: Training, prepared: PreparedRun, progress: Progress, out: Path) -> dict[str, Any]:
    """Writes the model directory `out`, and returns the facts that describe the model."""
    recipe, spec, data, task = prepared.recipe, prepared.spec, prepared.data, prepared.task
    model = training.model
    load_weights(model, final_weights(training))
    validation = validate_training(training, use_ema=False)
    facts: dict[str, Any] = {
        "recipe": prepared.identity,
        "steps": progress.step,
        "budget_seconds": training.config.budget_seconds,
        "n_pairs": data.n_shown[0],
        "n_parameters": model.n_parameters,
        "measures": [measure._asdict() for measure in recipe.measures],
        **validation.metrics,
    }
    loaded = LoadedModel(spec.architecture, spec.config, model.eval(), data.tokenizers, facts, spec.task)
    facts |= task.finish(loaded, data, training.config, training.device)
    model.to("cpu")
    with scratch_directory(out) as exported:
        task.export(loaded, exported)
        facts |= task.measure_export(loaded, exported, data, training.config, prepared.parent)

        def add_exported(directory: Path) -> None:
            for path in exported.iterdir():
                path.rename(directory / path.name)

        save_model(
            out,
            spec=spec,
            weights=named_weights(model),
            assets=data.assets,
            facts=facts | dict(data.facts),
            card=model_card(prepared, facts, progress, validation),
            write_more=add_exported,
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


def model_card(prepared: PreparedRun, facts: dict[str, Any], progress: Progress, validation: Validation) -> str:
    """The README.md of the model directory: data, size, training and quality."""
    recipe, task = prepared.recipe, prepared.task
    sentences = [*fine_tuning_sentences(facts), int8_sentence(facts)]
    notes = "".join(f"\n- {sentence}" for sentence in sentences if sentence)
    parent = f"\n- fine-tuned from: {recipe.start_from.name}" if recipe.start_from is not None else ""
    return f"""# {task.title}

Architecture "{recipe.model.architecture}", trained with regard {__version__}.

- data: {task.describe_data(recipe, prepared.data)}{parent}
- size: {recipe.config.describe()}, {facts["n_parameters"] / 1e6:.1f}M parameters
- training: {progress.step:,} steps, {progress.elapsed_seconds / 60:.1f} minutes
- validation: {", ".join(shown(recipe.measures, validation.metrics))}{notes}

`config.json` has the architecture and its sizes, `model.safetensors` the weights, and `manifest.json` a checksum of
every file. Nothing here is executable.

    {task.usage}
"""
