"""Plans a run: completes the recipe from the text, the speed of the machine and the budget, and writes it down."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from time import perf_counter

import torch

from regard.artifact import Description, load_described
from regard.data import epoch_order
from regard.durable import check_writable, write_file
from regard.errors import RecipeError, RunError
from regard.models import PRESETS, Transformer, TransformerConfig
from regard.run.build import PreparedRun, build_training, describe_parent, loader_settings, prepare_run
from regard.run.callbacks import Callbacks
from regard.run.defaults import MIN_STEPS, default_length, default_model, default_precision, default_training
from regard.run.prepare import data_values, examine_corpora
from regard.run.recipe import Raw, Recipe, merge
from regard.training import check_precision, has_fast_bfloat16, measure_seconds_per_step
from regard.training.budget import RESERVED_SECONDS

TRIAL_STEPS = 8


def plan_run(
    given: Raw, out: Path, fill_defaults: bool, device: torch.device, callbacks: Callbacks, started_at: float
) -> PreparedRun:
    """Examines and encodes the text, sets every value of the recipe, and writes it to `recipe.toml`."""
    first = Recipe.build(given)  # reports mistakes in the recipe before any file is read
    check_precision(first.training.precision, device)
    parent = describe_parent(first)
    from_parent = {} if parent is None else _values_from_parent(parent, given)
    examined = examine_corpora(first.data, callbacks.on_progress)
    for report in examined.reports:
        callbacks.on_event("examined", report=report.to_dict())
    values = merge(given, {"data": data_values(first.data, examined.n_pairs, first.training.seed)}, from_parent)
    prepared = prepare_run(Recipe.build(values), parent, out, callbacks)
    measure = partial(_measure_speed, out, device, callbacks)
    if fill_defaults:
        prepared, seconds_per_step = _with_defaults(prepared, values, measure, has_fast_bfloat16(device), started_at)
    else:
        seconds_per_step = measure(prepared)
    _announce(prepared, seconds_per_step, device, callbacks)
    write_file(out / "recipe.toml", prepared.recipe.to_toml().encode())
    return prepared


def _with_defaults(
    prepared: PreparedRun, given: Raw, measure: Callable[[PreparedRun], float], fast_bfloat16: bool, started_at: float
) -> tuple[PreparedRun, float]:
    """The run with all missing values filled in, and its seconds per step.

    With a budget the smallest model is timed first; its speed decides whether there is time for a larger one.
    """
    n_pairs, fine_tunes = len(prepared.train), prepared.parent is not None
    budget = prepared.recipe.training.budget_seconds

    def seconds_left(seconds_per_step: float) -> float | None:
        return None if budget is None else _seconds_left(budget, perf_counter() - started_at, seconds_per_step)

    def with_size(n_tiny_steps: float | None) -> Raw:
        sized = given if fine_tunes else merge(default_model(n_pairs, n_tiny_steps), given)
        d_model, n_tokens = Recipe.build(sized).model.d_model, prepared.train.meta.n_target_tokens
        return merge(default_training(n_tokens, d_model, budget, fine_tunes), default_precision(fast_bfloat16), sized)

    values = with_size(None if budget is None else 0)
    seconds_per_step = measure(_with_recipe(prepared, values))
    left = seconds_left(seconds_per_step)
    if left is not None and values != (larger := with_size(left / seconds_per_step)):
        values, seconds_per_step = larger, measure(_with_recipe(prepared, larger))
    steps_per_epoch = _steps_per_epoch(_with_recipe(prepared, values))
    given_steps = given.get("training", {}).get("steps")
    length = default_length(n_pairs, steps_per_epoch, seconds_per_step, seconds_left(seconds_per_step), given_steps)
    return _with_recipe(prepared, merge(length, values)), seconds_per_step


def _with_recipe(prepared: PreparedRun, values: Raw) -> PreparedRun:
    return replace(prepared, recipe=Recipe.build(values))


def _measure_speed(out: Path, device: torch.device, callbacks: Callbacks, prepared: PreparedRun) -> float:
    """Seconds per step on this machine, from a few trial steps."""
    callbacks.on_progress("measuring the training speed", 0, None)
    with closing(build_training(prepared, out, device)) as training:
        check_writable(out, training.checkpoints.bytes_needed(training.model, 3 + (training.ema is not None)))
        return measure_seconds_per_step(training, TRIAL_STEPS)


def _seconds_left(budget: float, spent: float, seconds_per_step: float) -> float:
    """Time for training steps; raises RunError if it is too short to learn anything."""
    left = budget - RESERVED_SECONDS - spent
    if left < MIN_STEPS * seconds_per_step:
        needed = spent + RESERVED_SECONDS + 10 * MIN_STEPS * seconds_per_step
        raise RunError(
            f"the budget of {budget:.0f} s is too short: preparation took {spent:.0f} s, and a training step takes "
            f"{seconds_per_step:.2g} s",
            hint=f"use --budget {ceil(needed / 60)}m or more; the prepared data is kept",
        )
    return left


def _values_from_parent(parent: Description, given: Raw) -> Raw:
    """Fine-tuning: architecture and vocabulary are the parent's; only dropout may differ."""
    loaded = load_described(parent)
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    inherited: Raw = {
        "model": loaded.config.model_dump(exclude={"dropout"}) | {"architecture": loaded.architecture},
        "text": {"joint": loaded.tokenizers.joint, "kind": target.kind},
    }
    preset = given.get("model", {}).get("preset")
    sizes = _sizes(PRESETS[preset]) if preset in PRESETS else {}
    fixed = merge(inherited, {"text": {"vocabulary": max(source.size, target.size)}})
    _require_equal(fixed, merge({"model": sizes}, given))
    return merge(inherited, {"start_fingerprint": parent.digest})


def _require_equal(fixed: Raw, given: Raw) -> None:
    """Raises RecipeError for a given value that differs from the parent model's."""
    for section, values in fixed.items():
        for key, value in values.items():
            if (given_value := given.get(section, {}).get(key, value)) != value:
                raise RecipeError(
                    f"{section}.{key} cannot be {given_value!r}: it is {value!r} in the model to start from",
                    hint="leave it out, or train without --from",
                )


def _steps_per_epoch(prepared: PreparedRun) -> int:
    n_batches = len(epoch_order(prepared.train, loader_settings(prepared), 0))
    return max(1, n_batches // prepared.recipe.training.accumulate)


def _announce(prepared: PreparedRun, seconds_per_step: float, device: torch.device, callbacks: Callbacks) -> None:
    recipe, meta = prepared.recipe, prepared.train.meta
    with torch.device("meta"):
        model = Transformer(recipe.model.config(), prepared.tokenizers.source.size, prepared.tokenizers.target.size)
    callbacks.on_event(
        "plan",
        preset=_size_name(recipe.model),
        n_parameters=model.n_parameters,
        n_pairs=len(prepared.train),
        n_validation=len(prepared.validation),
        n_blank=meta.n_blank,
        n_too_long=meta.n_too_long,
        vocabulary=prepared.tokenizers.target.size,
        steps=recipe.training.steps,
        steps_an_epoch=_steps_per_epoch(prepared),
        seconds_a_step=seconds_per_step,
        device=device.type,
        precision=recipe.training.precision,
        budget_seconds=recipe.training.budget_seconds,
    )


def _sizes(config: TransformerConfig) -> dict[str, int]:
    """The values that distinguish the presets."""
    return config.model_dump(include={"n_encoder_layers", "n_decoder_layers", "d_model", "d_ff", "n_heads"})


def _size_name(config: TransformerConfig) -> str:
    """The name of the preset with these sizes, or the sizes themselves."""
    matching = (name for name, preset in PRESETS.items() if _sizes(preset) == _sizes(config))
    return next(matching, f"{config.n_encoder_layers}+{config.n_decoder_layers} layers of {config.d_model}")
