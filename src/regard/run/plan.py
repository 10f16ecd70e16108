"""Every value of a run: what a person said, and for the rest what suits the text, the machine and the time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from math import ceil
from pathlib import Path
from time import perf_counter

import torch

from regard.artifact import describe, load_model
from regard.data import epoch_order
from regard.durable import check_writable, write_file
from regard.errors import RecipeError, RunError
from regard.models import PRESETS, Transformer, TransformerConfig
from regard.run.build import Prepared, encode, set_up_run, stream
from regard.run.callbacks import Watcher
from regard.run.defaults import FEWEST_STEPS, choose_batch, choose_length, choose_precision, choose_shape
from regard.run.prepare import examine_all, settle_data
from regard.run.recipe import Raw, Recipe, merge
from regard.training import check_precision, has_fast_bfloat16, time_steps
from regard.training.loop import BUDGET_RESERVE_SECONDS

TRIAL_STEPS = 8


def settle(asked: Raw, out: Path, choose: bool, device: torch.device, watcher: Watcher, started_at: float) -> Prepared:
    """Examine and encode the text, settle every value, and write them down."""
    first = Recipe.build(asked)  # what is wrong with it is said before anything is read
    check_precision(first.training.precision, device)
    of_start = _of_start(first, asked)
    seen = examine_all(first.data, watcher.progress)
    for report in seen.reports:
        watcher.event("examined", report=report.to_dict())
    budget = first.training.budget_seconds
    settled = merge(asked, {"data": settle_data(first.data, seen.n_pairs, first.training.seed)}, of_start)
    prepared = encode(Recipe.build(settled), out, watcher)

    def left(seconds_a_step: float) -> float | None:
        return None if budget is None else _time_left(budget, perf_counter() - started_at, seconds_a_step)

    def timed(trial: Prepared) -> float:
        return _seconds_a_step(trial, out, device, watcher)

    if choose:
        prepared, seconds_a_step = _chosen(prepared, settled, timed, left, has_fast_bfloat16(device))
    else:
        seconds_a_step = timed(prepared)
    _announce(prepared, seconds_a_step, device, watcher)
    write_file(out / "recipe.toml", prepared.recipe.to_toml().encode())
    return prepared


def _chosen(
    prepared: Prepared,
    said: Raw,
    timed: Callable[[Prepared], float],
    left: Callable[[float], float | None],
    fast_bfloat16: bool,
) -> tuple[Prepared, float]:
    """With all that was not said, and the seconds of a step.

    With a budget the smallest model is timed first, which tells what there is time for.
    """
    n_pairs, tunes = len(prepared.train), prepared.recipe.start_from is not None
    budget = prepared.recipe.training.budget_seconds

    def shaped(n_tiny_steps: float | None) -> Raw:
        shape = said if tunes else merge(choose_shape(n_pairs, n_tiny_steps), said)
        d_model, n_tokens = Recipe.build(shape).model.d_model, prepared.train.meta.n_target_tokens
        return merge(choose_batch(n_tokens, d_model, budget, tunes), choose_precision(fast_bfloat16), shape)

    settled = shaped(None if budget is None else 0)
    seconds_a_step = timed(_with_recipe(prepared, settled))
    if (seconds := left(seconds_a_step)) is not None and settled != (larger := shaped(seconds / seconds_a_step)):
        settled, seconds_a_step = larger, timed(_with_recipe(prepared, larger))
    steps_an_epoch = _steps_an_epoch(_with_recipe(prepared, settled))
    asked_steps = said.get("training", {}).get("steps")
    length = choose_length(n_pairs, steps_an_epoch, seconds_a_step, left(seconds_a_step), asked_steps)
    return _with_recipe(prepared, merge(length, settled)), seconds_a_step


def _with_recipe(prepared: Prepared, raw: Raw) -> Prepared:
    """The same text, with these values."""
    return replace(prepared, recipe=Recipe.build(raw))


def _time_left(budget: float, spent: float, seconds_a_step: float) -> float:
    """For the steps; a RunError where nothing could be learned in it."""
    left = budget - BUDGET_RESERVE_SECONDS - spent
    if left < FEWEST_STEPS * seconds_a_step:
        needed = spent + BUDGET_RESERVE_SECONDS + 10 * FEWEST_STEPS * seconds_a_step
        raise RunError(
            f"preparing took {spent:.0f} s of a budget of {budget:.0f}, and a step takes {seconds_a_step:.2g} s: "
            "there is no time to learn anything",
            hint=f"give it --budget {ceil(needed / 60)}m or more; what is prepared is kept",
        )
    return left


def _of_start(recipe: Recipe, asked: Raw) -> Raw:
    """Fine-tuning: shape and vocabulary are those of the model to start from; only its dropout may be another."""
    if recipe.start_from is None:
        return {}
    start = load_model(recipe.start_from)
    source, target = start.tokenizers.source, start.tokenizers.target
    same: Raw = {
        "model": start.config.model_dump(exclude={"dropout"}) | {"architecture": start.architecture},
        "text": {"joint": start.tokenizers.joint, "kind": target.kind},
    }
    preset = asked.get("model", {}).get("preset")
    sizes = _sizes(PRESETS[preset]) if preset in PRESETS else {}
    _refuse_another(
        merge(same, {"text": {"vocabulary": max(source.size, target.size)}}), merge({"model": sizes}, asked)
    )
    return merge(same, {"start_fingerprint": describe(recipe.start_from).digest})


def _refuse_another(of_start: Raw, asked: Raw) -> None:
    """A RecipeError for a value that the model to start from has otherwise."""
    for section, values in of_start.items():
        for key, value in values.items():
            if (given := asked.get(section, {}).get(key, value)) != value:
                raise RecipeError(
                    f"{section}.{key} can not be {given!r}: it is {value!r} in the model to start from",
                    hint="leave it out, or train without --from",
                )


def _seconds_a_step(prepared: Prepared, out: Path, device: torch.device, watcher: Watcher) -> float:
    """How long one takes on this machine."""
    watcher.progress("measuring the speed", 0, None)
    with closing(set_up_run(prepared, out, device)) as training:
        check_writable(out, training.checkpoints.bytes_needed(training.model, 3 + (training.ema is not None)))
        return time_steps(training, TRIAL_STEPS)


def _steps_an_epoch(prepared: Prepared) -> int:
    n_batches = len(epoch_order(prepared.train, stream(prepared), 0))
    return max(1, n_batches // prepared.recipe.training.accumulate)


def _announce(prepared: Prepared, seconds_a_step: float, device: torch.device, watcher: Watcher) -> None:
    recipe, meta = prepared.recipe, prepared.train.meta
    with torch.device("meta"):
        model = Transformer(recipe.model.config(), prepared.tokenizers.source.size, prepared.tokenizers.target.size)
    watcher.event(
        "plan",
        preset=_size_in_words(recipe.model),
        n_parameters=model.n_parameters,
        n_pairs=len(prepared.train),
        n_validation=len(prepared.validation),
        n_blank=meta.n_blank,
        n_too_long=meta.n_too_long,
        vocabulary=prepared.tokenizers.target.size,
        steps=recipe.training.steps,
        steps_an_epoch=_steps_an_epoch(prepared),
        seconds_a_step=seconds_a_step,
        device=device.type,
        precision=recipe.training.precision,
        budget_seconds=recipe.training.budget_seconds,
    )


def _sizes(config: TransformerConfig) -> dict[str, int]:
    """What tells one preset from another."""
    return config.model_dump(include={"n_encoder_layers", "n_decoder_layers", "d_model", "d_ff", "n_heads"})


def _size_in_words(config: TransformerConfig) -> str:
    """A preset's name, where it is one."""
    known = (name for name, preset in PRESETS.items() if _sizes(preset) == _sizes(config))
    return next(known, f"{config.n_encoder_layers}+{config.n_decoder_layers} layers of {config.d_model}")
