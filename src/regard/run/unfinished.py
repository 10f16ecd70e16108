"""The model of a run that has not finished: its newest checkpoint, as a model directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.artifact import LoadedModel, describe, save_model
from regard.errors import ArtifactError
from regard.models import load_weights, named_weights
from regard.run.build import describe_parent, prepare_run
from regard.run.callbacks import Callbacks
from regard.run.recipe import Recipe, read_recipe
from regard.training import Checkpoints
from regard.training.checkpoints import Checkpoint

DIRECTORY = "checkpoint-model"


def newest_model(run: Path) -> tuple[Path, int] | None:
    """A model directory with the weights of the newest good checkpoint, and its step; None if there is no checkpoint.

    It is written into the run where it is missing or older. Search options are the defaults: they are set at the end.
    """
    checkpoint = _newest(Checkpoints(run / "checkpoints", keep_last=1, keep_best=0))
    if checkpoint is None:
        return None
    directory = run / DIRECTORY
    try:
        is_current = describe(directory).facts.get("checkpoint") == _name(checkpoint)
    except ArtifactError:
        is_current = False
    if not is_current:
        _export(run, checkpoint, directory)
    return directory, checkpoint.step


def _newest(checkpoints: Checkpoints) -> Checkpoint | None:
    for step in reversed(checkpoints.steps()):
        try:
            return checkpoints.open(step)
        except ArtifactError:  # damaged, or removed since by a training that goes on
            continue
    return None


def _name(checkpoint: Checkpoint) -> list[Any]:
    """Changes when the run is trained again from the start, too."""
    return [checkpoint.step, checkpoint.state["progress"]["elapsed_seconds"]]


def _export(run: Path, checkpoint: Checkpoint, directory: Path) -> None:
    recipe = Recipe.build(read_recipe(run / "recipe.toml"))
    prepared = prepare_run(recipe, describe_parent(recipe), run, Callbacks())
    spec, data, task = prepared.spec, prepared.data, prepared.task
    weights = checkpoint.tensors("model")
    if recipe.training.ema is not None:
        weights |= checkpoint.tensors("ema")
    model = spec.build()
    load_weights(model, weights)
    facts = {"checkpoint": _name(checkpoint), "steps": checkpoint.step, "n_pairs": data.n_shown[0], **data.facts}
    loaded = LoadedModel(spec.architecture, spec.config, model.eval(), data.tokenizers, facts, spec.task)
    save_model(
        directory,
        spec=spec,
        weights=named_weights(model),
        assets=data.assets,
        facts=facts,
        card=f"# {task.title}\n\nThe checkpoint after step {checkpoint.step:,} of a run that has not finished.\n",
        write_more=lambda path: task.export(loaded, path),
    )
