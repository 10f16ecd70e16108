"""Plans a run: completes the recipe from the text, the speed of the machine and the budget, and writes it down."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import torch

from regard.artifact import Description, model_spec
from regard.durable import write_file
from regard.errors import RecipeError, RunError
from regard.models import ARCHITECTURES, Situation
from regard.run.build import PreparedRun, build_training, describe_parent, prepare_run, require_processes
from regard.run.callbacks import Callbacks
from regard.run.defaults import MIN_STEPS, default_intervals, default_length
from regard.run.forecast.storage import directory_bytes, disk_bytes, process_bytes
from regard.run.forecast.work import measure_work
from regard.run.recipe import Recipe, identity, merge
from regard.tasks import TASKS, Raw
from regard.training import Workers, check_precision, has_fast_bfloat16, measure_seconds_per_step
from regard.training.budget import RESERVED_SECONDS

TRIAL_STEPS = 8


def plan_run(
    given: Raw,
    out: Path,
    fill_defaults: bool,
    device: torch.device,
    workers: Workers,
    callbacks: Callbacks,
    started_at: float,
) -> PreparedRun:
    """Examines and prepares the data, sets every value of the recipe, and writes it to `recipe.toml`."""
    first = Recipe.build(given)  # reports mistakes in the recipe before any file is read
    require_processes(first, workers, device)
    check_precision(first.training.precision, device)
    prepared, values = examine_and_prepare(given, out, callbacks)
    measure = partial(_measure_speed, out, device, workers, callbacks)
    prepared, speed = complete(prepared, values, fill_defaults, measure, has_fast_bfloat16(device), started_at)
    two_processes = "on" if speed.n_processes == 2 else "off"  # a resumed run does the same
    prepared = with_recipe(prepared, merge(prepared.recipe.raw(), {"training": {"two_processes": two_processes}}))
    _announce(prepared, speed, device, workers.world_size, out, callbacks)
    file = prepared.recipe.to_toml().encode()
    write_file(out / "recipe.toml", file)
    return replace(prepared, identity=identity(file))


def examine_and_prepare(given: Raw, out: Path, callbacks: Callbacks) -> tuple[PreparedRun, Raw]:
    """The data of a new run, and the values that follow from the text and from the model to start from."""
    first = Recipe.build(given)
    parent = describe_parent(first)
    from_parent = {} if parent is None else _values_from_parent(first.task, parent, given)
    examined = TASKS[first.task].examine(first, callbacks.on_progress)
    for report in examined.reports:
        callbacks.on_event("examined", report=report)
    values = merge(given, examined.values, from_parent)
    return prepare_run(Recipe.build(values), parent, out, callbacks), values


class Speed(NamedTuple):
    """Measured by trial steps."""

    seconds_per_step: float
    n_processes: int
    memory: int = 0  # bytes, of all processes


def complete(
    prepared: PreparedRun,
    given: Raw,
    fill_defaults: bool,
    measure: Callable[[PreparedRun], Speed],
    fast_bfloat16: bool,
    started_at: float,
    scale: float = 1.0,
) -> tuple[PreparedRun, Speed]:
    """The run with all missing values filled in, and its speed.

    With a budget the smallest model is timed first; its speed decides whether there is time for a larger one.
    `scale`: the number of examples of the whole text, divided by that of the prepared ones.
    """
    if not fill_defaults:
        return prepared, measure(prepared)
    recipe, data, fine_tunes = prepared.recipe, prepared.data, prepared.parent is not None
    architecture, budget = recipe.architecture, recipe.training.budget_seconds
    defaults = prepared.task.defaults or architecture.defaults

    situation = Situation(round(scale * len(data.train)), round(scale * data.n_targets), None, fine_tunes)

    def with_size(n_steps: float | None) -> Raw:
        timed = situation._replace(n_steps=n_steps)
        sized = given if fine_tunes else merge({"model": defaults.model(architecture.presets, timed)}, given)
        training = defaults.training(Recipe.build(sized).config, timed)
        # bfloat16 where the hardware supports it: faster, same quality per step (docs/experiments.md)
        precision = "bfloat16" if fast_bfloat16 else "float32"
        if "max_tokens" in training:  # tuned for an update of one batch
            training["max_tokens"] = max(defaults.min_batch, training["max_tokens"] // recipe.training.processes)
        intervals = default_intervals(merge({"training": training}, sized))
        return merge({"training": {"precision": precision} | training}, intervals, sized)

    values = with_size(None if budget is None else 0)
    speed = measure(with_recipe(prepared, values))
    left = _seconds_left(budget, started_at, speed)
    if left is not None and values != (larger := with_size(left / speed.seconds_per_step)):
        values, speed = larger, measure(with_recipe(prepared, larger))
    left = _seconds_left(budget, started_at, speed)
    steps_per_epoch = _steps_per_epoch(with_recipe(prepared, values), scale)
    given_steps = given.get("training", {}).get("steps")
    epochs, interval = defaults.epochs(situation), defaults.seconds_between_validations
    length = default_length(epochs, steps_per_epoch, speed.seconds_per_step, left, given_steps, interval)
    regularisation = defaults.regularisation(length["training"]["steps"] / steps_per_epoch, situation)
    return with_recipe(prepared, merge(length, {"model": regularisation}, values)), speed


def with_recipe(prepared: PreparedRun, values: Raw) -> PreparedRun:
    """The same data with another recipe."""
    return replace(prepared, recipe=Recipe.build(values))


def _measure_speed(
    out: Path, device: torch.device, workers: Workers, callbacks: Callbacks, prepared: PreparedRun
) -> Speed:
    """The speed of this machine, from a few trial steps."""
    callbacks.on_progress("measuring the training speed", 0, None)
    with closing(build_training(prepared, out, device, workers)) as training:
        seconds = measure_seconds_per_step(training, TRIAL_STEPS)
        return Speed(seconds, training.gradients.n_processes, process_bytes())


def _seconds_left(budget: float | None, started_at: float, speed: Speed) -> float | None:
    """Time for training steps, with a budget; raises RunError if it is too short to learn anything."""
    if budget is None:
        return None
    spent, seconds_per_step = perf_counter() - started_at, speed.seconds_per_step
    left = budget - RESERVED_SECONDS - spent
    if left < MIN_STEPS * seconds_per_step:
        needed = spent + RESERVED_SECONDS + 10 * MIN_STEPS * seconds_per_step
        raise RunError(
            f"the budget of {budget:.0f} s is too short: preparation took {spent:.0f} s, and a training step takes "
            f"{seconds_per_step:.2g} s",
            hint=f"use --budget {ceil(needed / 60)}m or more; the prepared data is kept",
        )
    return left


def _values_from_parent(task: str, parent: Description, given: Raw) -> Raw:
    """Fine-tuning: the model and, for example, its vocabulary are the parent's; only dropout may differ."""
    spec = model_spec(parent)
    architecture = ARCHITECTURES[spec.architecture]
    if spec.task not in (TASKS[task].starts_from or (task,)) or task not in architecture.models:
        raise RecipeError(f"{parent.directory} is a model for {spec.task}, not for {task}", hint="drop --from")
    model = spec.config.model_dump(exclude={"dropout"}) | {"architecture": spec.architecture}
    inherited = TASKS[task].inherit(parent)
    preset = architecture.presets.get(given.get("model", {}).get("preset"))
    sizes = {} if preset is None else architecture.sizes_of(preset)
    _require_equal(merge({"model": model}, inherited.fixed), merge({"model": sizes}, given))
    return merge({"model": model}, inherited.values, {"start_fingerprint": parent.digest})


def _require_equal(fixed: Raw, given: Raw) -> None:
    """Raises RecipeError for a given value that differs from the parent model's."""
    for section, values in fixed.items():
        for key, value in values.items():
            if (given_value := given.get(section, {}).get(key, value)) != value:
                raise RecipeError(
                    f"{section}.{key} cannot be {given_value!r}: it is {value!r} in the model to start from",
                    hint="leave it out, or train without --from",
                )


def _steps_per_epoch(prepared: PreparedRun, scale: float = 1.0) -> int:
    n_batches = round(scale * prepared.loader.batches_per_epoch())
    return max(1, n_batches // prepared.recipe.training.n_batches)


def _flops(prepared: PreparedRun) -> dict[str, float]:
    """Of the whole training, and the share of padding; nothing for a model that does not state its cost."""
    try:
        work = measure_work(prepared)
    except NotImplementedError:
        return {}
    flops = prepared.recipe.training.steps * work.computed_flops
    return {"flops": flops, "padding": 1 - work.flops / max(1.0, work.padded_flops)}


def _announce(
    prepared: PreparedRun, speed: Speed, device: torch.device, n_processes: int, out: Path, callbacks: Callbacks
) -> None:
    recipe, data, config = prepared.recipe, prepared.data, prepared.recipe.config
    model = prepared.spec.outline()
    steps = recipe.training.steps
    callbacks.on_event(
        "plan",
        task=recipe.task,
        architecture=recipe.model.architecture,
        preset=recipe.architecture.preset_of(config) or config.describe(),
        size=config.describe(),
        measures=[measure._asdict() for measure in recipe.measures],
        examples=prepared.task.examples,
        unit=prepared.task.unit,
        n_parameters=model.n_parameters,
        n_pairs=data.n_shown[0],
        n_validation=data.n_shown[1],
        **data.counts,
        steps=steps,
        steps_an_epoch=_steps_per_epoch(prepared),
        seconds_a_step=speed.seconds_per_step,
        **_flops(prepared),
        memory_bytes=speed.memory,
        disk_bytes=sum(disk_bytes(prepared, model, directory_bytes(out / "data")).values()),
        device=device.type,
        n_processes=n_processes,
        precision=recipe.training.precision,
        budget_seconds=recipe.training.budget_seconds,
    )
