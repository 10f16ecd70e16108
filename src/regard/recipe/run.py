"""One run: a recipe and a directory in, a model out. Everything is kept, so that the same call again goes on."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from regard.artifact import LoadedModel, describe, load_model
from regard.data import StreamSettings, TokenStore, epoch_order, random_key
from regard.durable import check_writable, lock_directory, remove_debris, write_file
from regard.errors import ArtifactError, RecipeError, RunError
from regard.models import MODELS, PRESETS, Transformer, TransformerConfig, load_weights, named_weights
from regard.recipe.choose import FEWEST_STEPS, by_the_clock, choose_batch, choose_length, choose_rhythm, choose_shape
from regard.recipe.finish import finish
from regard.recipe.judge import judge
from regard.recipe.languages import LanguageFacts, language_facts
from regard.recipe.prepare import Corpora, examine_all, make_stores, make_tokenizers, settle_data
from regard.recipe.schema import Raw, Recipe, differences, merge, read_recipe
from regard.recipe.watch import Remembering, Watcher
from regard.report import LiveReport, is_out_of_date
from regard.text import Tokenizer, TokenizerPair
from regard.training import (
    Checkpoints,
    Journal,
    Report,
    Stop,
    Training,
    check_precision,
    choose_device,
    fit,
    keep_freed_memory,
    set_up,
    time_steps,
)
from regard.training.loop import BUDGET_RESERVE_SECONDS

TRIAL_STEPS = 8


@dataclass(frozen=True)
class _Prepared:
    """What a run's loop is made from."""

    recipe: Recipe
    tokenizers: TokenizerPair
    spoken: LanguageFacts
    train: TokenStore
    validation: TokenStore


def train(
    recipe: Recipe | Raw,
    out: str | Path,
    *,
    choose: bool = False,
    device: str | None = None,
    watcher: Watcher | None = None,
    stop: Stop | None = None,
    spent_seconds: float = 0.0,
    live_report: bool = False,
) -> Path:
    """Train what the recipe says into the run directory `out`, and give the model directory.

    `choose` fills in what the recipe does not say from the corpus, the machine's speed and the budget; otherwise the
    paper's values stand. Called again with the same values it goes on where it was, bit for bit. `spent_seconds` went
    before this call, and count into the budget. `report.html` is written at the end; with `live_report`, all along.
    """
    started_at = perf_counter() - spent_seconds
    out, watcher = Path(out), watcher or Watcher()
    asked = recipe.asked() if isinstance(recipe, Recipe) else recipe
    if choose:
        asked = by_the_clock(merge(choose_rhythm(asked), asked))
    on = choose_device(device)
    keep_freed_memory()
    with lock_directory(out):
        remove_debris(out)
        stored = _stored_recipe(out, asked)
        if stored is not None and (done := _finished(out, stored)) is not None:
            if is_out_of_date(out):  # its trainer was killed after the last step
                _page(out, watcher).close()
            watcher.event("already-finished", path=str(out), **done.facts)
            return out / "model"
        early = Remembering(watcher)
        if stored is None:
            check_writable(out, 0)
            prepared = _prepare(asked, out, choose, on, early, started_at)
        else:
            prepared = _encode(stored, out, watcher)
        with Journal(out / "journal.jsonl") as journal, closing(_page(out, watcher, live_report)) as page:

            def record(event: str, flush: bool = False, **fields: Any) -> None:
                journal.record(event, flush=flush, **fields)
                page.event(event, **fields)

            def report(event: str, flush: bool = False, **fields: Any) -> None:
                record(event, flush, **fields)
                watcher.event(event, **fields)

            for event, fields in early.events:
                record(event, **fields)
            if live_report:
                page.begin()
                watcher.event("report", path=str(page.path))
            return _run(prepared, out, on, report, stop or Stop(), started_at)


def _page(out: Path, watcher: Watcher, live: bool = False) -> LiveReport:
    return LiveReport(out, live=live, warn=lambda message: watcher.event("warning", message=message))


def require_run_directory(out: Path) -> None:
    """Refuse a directory that has things in it and is not a run: a training writes into its own place only."""
    if out.is_dir() and not (out / "recipe.toml").exists():
        strangers = sorted(entry.name for entry in out.iterdir() if entry.name not in {".lock", "data"})
        if strangers:
            raise RunError(f"{out} is not empty and not a run: it has {strangers[0]}", hint="choose another directory")


def _stored_recipe(out: Path, asked: Raw) -> Recipe | None:
    """The recipe that this directory is a run of, if it is one; what was asked must agree with it."""
    require_run_directory(out)
    if not (out / "recipe.toml").exists():
        return None
    stored = Recipe.build(read_recipe(out / "recipe.toml"))
    changed = differences(stored.raw(), Recipe.build(merge(stored.raw(), asked)).raw())
    if changed:
        raise RunError(
            f"{out} was begun with another recipe: {'; '.join(changed[:3])}",
            hint="go on with the values as before, or train in another directory",
        )
    return stored


def _finished(out: Path, recipe: Recipe) -> LoadedModel | None:
    try:
        loaded = load_model(out / "model")
    except ArtifactError:
        return None
    return loaded if loaded.facts.get("recipe") == recipe.digest() else None


def _prepare(
    asked: Raw, out: Path, choose: bool, device: torch.device, watcher: Watcher, started_at: float
) -> _Prepared:
    """Examine and encode the text, settle every value, and write them down."""
    first = Recipe.build(asked)  # what is wrong with it is said before anything is read
    check_precision(first.training.precision, device)
    of_start = _of_start(first, asked)
    seen = examine_all(first.data, watcher.progress)
    for report in seen.reports:
        watcher.event("examined", report=report.to_dict())
    budget = first.training.budget_seconds
    settled = merge(asked, {"data": settle_data(first.data, seen.n_pairs, first.training.seed)}, of_start)
    if choose and first.start_from is None:
        settled = merge(choose_shape(seen.n_pairs, budget), settled)
    prepared = _encode(Recipe.build(settled), out, watcher)
    if choose:
        n_tokens, d_model = prepared.train.meta.n_target_tokens, prepared.recipe.model.d_model
        batch = choose_batch(n_tokens, d_model, budget, tunes=first.start_from is not None)
        settled = merge(batch, settled)
        prepared = replace(prepared, recipe=Recipe.build(settled))
    seconds_a_step = _trial(prepared, out, device, watcher)
    if choose:
        left = None if budget is None else _time_left(budget, perf_counter() - started_at, seconds_a_step)
        steps = prepared.recipe.training.steps if "steps" in asked.get("training", {}) else None
        length = choose_length(len(prepared.train), _steps_an_epoch(prepared), seconds_a_step, left, steps)
        prepared = replace(prepared, recipe=Recipe.build(merge(length, settled)))
    _announce(prepared, seconds_a_step, device, watcher)
    write_file(out / "recipe.toml", prepared.recipe.to_toml().encode())
    return prepared


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


def _encode(recipe: Recipe, out: Path, watcher: Watcher) -> _Prepared:
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
    return _Prepared(recipe, tokenizers, language_facts(corpora, recipe), train, validation)


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


def _stream(prepared: _Prepared) -> StreamSettings:
    recipe, tokenizers = prepared.recipe, prepared.tokenizers
    strength = recipe.text.sampling

    def sampled(tokenizer: Tokenizer) -> Any:
        return (lambda ids, seed: tokenizer.sample_many(ids, strength, seed)) if strength else None

    return StreamSettings(
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


def _set_up(prepared: _Prepared, out: Path, device: torch.device) -> Training:
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
        _stream(prepared),
        prepared.validation,
        device,
        checkpoints,
        {"recipe": recipe.digest()},
        judge(prepared.validation, prepared.tokenizers, recipe.model, config.translated),
    )


def _trial(prepared: _Prepared, out: Path, device: torch.device, watcher: Watcher) -> float:
    """How long a step takes on this machine."""
    watcher.progress("measuring the speed", 0, None)
    with closing(_set_up(prepared, out, device)) as training:
        check_writable(out, training.checkpoints.bytes_needed(training.model, 3 + (training.ema is not None)))
        return time_steps(training, TRIAL_STEPS)


def _steps_an_epoch(prepared: _Prepared) -> int:
    n_batches = len(epoch_order(prepared.train, _stream(prepared), 0))
    return max(1, n_batches // prepared.recipe.training.accumulate)


def _announce(prepared: _Prepared, seconds_a_step: float, device: torch.device, watcher: Watcher) -> None:
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
    )


def _sizes(config: TransformerConfig) -> dict[str, int]:
    """What tells one preset from another."""
    return config.model_dump(include={"n_encoder_layers", "n_decoder_layers", "d_model", "d_ff", "n_heads"})


def _size_in_words(config: TransformerConfig) -> str:
    """A preset's name, where it is one."""
    known = (name for name, preset in PRESETS.items() if _sizes(preset) == _sizes(config))
    return next(known, f"{config.n_encoder_layers}+{config.n_decoder_layers} layers of {config.d_model}")


def _run(prepared: _Prepared, out: Path, device: torch.device, report: Report, stop: Stop, started_at: float) -> Path:
    with closing(_set_up(prepared, out, device)) as training:
        check_writable(out, training.checkpoints.bytes_needed(training.model, 3 + (training.ema is not None)))
        with stop:
            progress = fit(training, report, stop, perf_counter() - started_at)
        facts = finish(training, prepared.recipe, prepared.tokenizers, prepared.spoken, progress, out / "model")
    report("finished", flush=True, path=str(out), elapsed_seconds=progress.elapsed_seconds, **facts)
    return out / "model"
