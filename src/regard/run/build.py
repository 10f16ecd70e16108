"""Builds the parts of a run from its recipe: the data, then the model and its training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.artifact import Description, describe, load_described
from regard.data import Loader, random_key
from regard.durable import check_writable
from regard.errors import RunError
from regard.models import ModelSpec, load_weights, named_weights
from regard.run.callbacks import Callbacks
from regard.run.memory import require_memory
from regard.run.recipe import Recipe, identity
from regard.tasks import TASKS, Data, Task
from regard.training import Checkpoints, Training, TrainingConfig, Workers


@dataclass(frozen=True)
class PreparedRun:
    """Everything that a training is built from."""

    recipe: Recipe
    parent: Description | None  # fine-tuning: the model to start from, verified once per run
    data: Data
    identity: str = ""  # of the run, when its recipe is complete
    budget_seconds: float | None = None  # more than the recipe's: the budget is no part of the identity of a run

    @property
    def task(self) -> Task[Any]:
        return TASKS[self.recipe.task]

    @property
    def spec(self) -> ModelSpec:
        return self.recipe.spec(self.data.sizes)

    @property
    def training_config(self) -> TrainingConfig:
        """That of the recipe, with the budget of now."""
        config, budget = self.recipe.training, self.budget_seconds
        return config if budget is None else config.model_copy(update={"budget_seconds": budget})

    @property
    def loader(self) -> Loader:
        """How training batches are formed."""
        config = self.recipe.training
        return Loader(
            examples=self.data.train,
            collate=self.data.collate,
            max_tokens=config.max_tokens,
            seed=config.seed,
            n_batches=config.n_batches,
            weights=self.data.weights,
            curriculum=config.curriculum,
        )


def require_processes(recipe: Recipe, workers: Workers, device: torch.device) -> None:
    """Raises RunError if the number of processes is not the one that the recipe is for."""
    config, n = recipe.training, workers.world_size
    if config.exact:
        if device.type != "cpu":
            raise RunError(f"training.exact works on CPUs, not on {device.type}", hint="add --device cpu")
        if config.accumulate < n:
            raise RunError(
                f"with training.exact, {n} processes share the {config.accumulate} batches of an update",
                hint=f"set training.accumulate = {n} or more, and divide training.max_tokens; or start fewer processes",
            )
    elif config.processes != n:
        raise RunError(
            f"training.processes is {config.processes}, and {n} would share this training",
            hint=f"use --processes {config.processes}, or train in another directory; "
            "a run with training.exact = true goes on with any number",
        )


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
    """The data of a run; built where it is missing or belongs to other files."""
    data = TASKS[recipe.task].prepare(recipe, parent, out / "data", callbacks.on_progress)
    file = out / "recipe.toml"
    return PreparedRun(recipe, parent, data, identity(file.read_bytes()) if file.exists() else "")


def checkpoint_limits(config: TrainingConfig) -> tuple[int, int, bool]:
    """How many of the last and of the best checkpoints are kept, and whether one is pinned.

    That of a budget is: more time can be given to a run before its learning rate falls.
    """
    last = max(2, config.average if config.average_of == "last" else 0)
    return last, config.average if config.average_of == "best" else 1, config.budget_seconds is not None


def build_training(
    prepared: PreparedRun, out: Path, device: torch.device, workers: Workers, *, reserve_disk: bool = True
) -> Training:
    """The model, initialised from its seed or from its parent's weights.

    With `reserve_disk`, raises RunError if its checkpoints do not fit on the disk.
    """
    config, spec = prepared.training_config, prepared.spec
    require_memory(spec, config, prepared.loader, device)
    torch.manual_seed(random_key(config.seed, "weights"))
    model = spec.build()
    if prepared.parent is not None:
        new = () if prepared.task.continues(prepared.parent, prepared.data) else model.own_parts
        load_weights(model, named_weights(load_described(prepared.parent).model), except_for=new)
    keep_last, keep_best, pins = checkpoint_limits(config)
    checkpoints = Checkpoints(out / "checkpoints", keep_last=keep_last, keep_best=keep_best, pins=pins)
    if reserve_disk:
        check_writable(out, checkpoints.bytes_needed(model, 3 + (config.ema is not None)))
    return Training(
        config=config,
        spec=spec,
        model=model,
        loader=prepared.loader,
        validate=lambda model: prepared.task.validate(model, prepared.data, config, device),
        measures=prepared.recipe.measures,
        device=device,
        workers=workers,
        checkpoints=checkpoints,
        identity={"recipe": prepared.identity},
        planned_seconds=prepared.recipe.training.budget_seconds,
    )
