"""The training loop: policies come in from outside, what is random is a function of (seed, step)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from time import perf_counter
from typing import Any, Protocol

import torch
from torch import nn

from regard.data import Batch, Cursor, LoaderSettings, TokenStore, prefetch, random_key, updates, validation_batches
from regard.errors import RunError, TrainingStopped
from regard.models import Transformer, load_weights, named_weights
from regard.training.averaging import EMA
from regard.training.checkpoints import Checkpoint, Checkpoints, load_optimizer_tensors, optimizer_tensors
from regard.training.config import TrainingConfig
from regard.training.gradients.gradients import Gradients, make_gradients
from regard.training.optimizers import make_optimizer
from regard.training.schedule import rate
from regard.training.stop import Stop
from regard.training.validation import Translate, Validation, validate

BUDGET_RESERVE_SECONDS = 5.0  # for the last save, the average and the model directory
VALIDATIONS_AT_THE_END = 4  # in the loop, of the product, and the length penalty: as long as two where all is a CPU's
MOST_FOR_VALIDATIONS = 1 / 6  # of a budget: a first one, of a model that can not stop yet, takes longer than the last
BUDGET_TOLERANCE = 1.05
ENOUGH_STEPS = 8  # fewer do not tell how long one takes
CLOSE_ENOUGH = 0.01  # of the run: not worth another end

_LOWER = "lower training.rate, or set training.clip = 1.0, in another directory; the last checkpoint is good"


class Report(Protocol):
    """Is told every event of a run: writes the journal, moves the progress bar."""

    def __call__(self, event: str, **fields: Any) -> None: ...


@dataclass(frozen=True)
class Progress:
    """Where a run stands. All of it is in every checkpoint."""

    step: int  # the last one that was taken
    steps: int  # the last one that will be; a budget moves it, from when the rate begins to fall
    cooldown_from: float
    cursor: Cursor = field(default_factory=Cursor)
    elapsed_seconds: float = 0.0
    prepared_seconds: float = 0.0  # of these, what went before the first step
    best_score: float | None = None  # lower is better
    refit_at: int = 0  # the step at which a budget moves the last one next
    n_worse: int = 0  # validations since the best one
    validation_seconds: float = 0.0  # of the last one
    stopped_early: bool = False

    @property
    def finished(self) -> bool:
        return self.stopped_early or self.step >= self.steps


@dataclass(frozen=True, kw_only=True)
class Training:
    """Everything that a loop works on."""

    config: TrainingConfig
    model: Transformer
    store: TokenStore
    stream: LoaderSettings
    validation: TokenStore
    device: torch.device
    checkpoints: Checkpoints
    identity: dict[str, str]  # of the recipe, which knows the corpus's fingerprint: a checkpoint of another is refused
    optimizer: torch.optim.Optimizer
    ema: EMA | None
    gradients: Gradients
    translate: Translate | None  # some validation sentences, for BLEU and chrF

    def close(self) -> None:
        """Nothing of it is left running."""
        self.gradients.close()


def set_up(
    config: TrainingConfig,
    model: Transformer,
    store: TokenStore,
    stream: LoaderSettings,
    validation: TokenStore,
    device: torch.device,
    checkpoints: Checkpoints,
    identity: dict[str, str],
    translate: Translate | None = None,
) -> Training:
    """A loop's parts, made from its configuration."""
    model = model.to(device).train()
    return Training(
        config=config,
        model=model,
        store=store,
        stream=stream,
        validation=validation,
        device=device,
        checkpoints=checkpoints,
        identity=identity,
        optimizer=make_optimizer(config, model),
        ema=EMA(model, config.ema) if config.ema is not None else None,
        gradients=make_gradients(config, model, device),
        translate=translate,
    )


def fit(training: Training, report: Report, stop: Stop, spent_seconds: float = 0.0) -> Progress:
    """Train to the end, from the newest good checkpoint if there is one. `spent_seconds` went before the loop."""
    progress = _resume(training, report, spent_seconds)
    with closing(prefetch(updates(training.store, training.stream, progress.cursor))) as stream:
        clock = _Clock(progress)
        while not progress.finished:
            update, cursor = next(stream)
            progress = replace(progress, step=progress.step + 1, cursor=cursor)
            _set_rate(training, progress)
            measured = take_step(training, update, progress.step)
            progress = replace(progress, elapsed_seconds=clock.elapsed_seconds())
            report("step", step=progress.step, steps=progress.steps, rate=_rate(training, progress), **measured,
                   elapsed_seconds=progress.elapsed_seconds)  # fmt: skip
            progress = _fit_to_budget(training, progress, clock, report)
            progress = _validate_and_save(training, progress, clock, report, stop)
    return progress


def take_step(training: Training, update: list[Batch], step: int) -> dict[str, Any]:
    """One update; its loss is normalised over the real target symbols of all its batches."""
    torch.manual_seed(random_key(training.config.seed, "dropout", step, training.stream.rank))
    started_at = perf_counter()
    n_tokens = sum(batch.n_tokens for batch in update)
    loss = nll = 0.0
    for batch in update:
        sums = training.gradients(batch, n_tokens)
        loss, nll = loss + sums.loss / n_tokens, nll + sums.nll / n_tokens
    limit = training.config.clip if training.config.clip is not None else float("inf")
    norm = float(nn.utils.clip_grad_norm_(training.model.parameters(), limit))
    if not (isfinite(loss) and isfinite(norm)):
        raise _not_a_number(step, loss, norm, update)
    training.optimizer.step()
    training.optimizer.zero_grad(set_to_none=True)
    if training.ema is not None:
        training.ema.update(step)
    seconds = perf_counter() - started_at
    return {"loss": loss, "nll": nll, "norm": norm, "n_tokens": n_tokens, "tokens_per_second": n_tokens / seconds}


def time_steps(training: Training, n_steps: int) -> float:
    """Seconds a step takes here, the median of some trial steps; no rate is set, so the weights stay as they are.

    The optimiser's own state does change.
    """
    seconds = []
    for number, (update, _) in enumerate(updates(training.store, training.stream, Cursor()), start=1):
        started_at = perf_counter()
        take_step(training, update, number)
        seconds.append(perf_counter() - started_at)
        if number == n_steps:
            break
    return sorted(seconds[1:])[(n_steps - 1) // 2]  # the first step also warms up


class _Clock:
    """Seconds of the whole run, over all its interruptions."""

    def __init__(self, progress: Progress) -> None:
        self._before, self._started_at = progress.elapsed_seconds, perf_counter()

    def elapsed_seconds(self) -> float:
        return self._before + perf_counter() - self._started_at


def _resume(training: Training, report: Report, spent_seconds: float) -> Progress:
    found, skipped = training.checkpoints.resume(training.identity)
    for one in skipped:
        report("skipped", checkpoint=one.name, reason=one.reason)
    if found is None:
        steps = training.config.steps
        falls_from = round(steps * (1 - training.config.cooldown))
        return Progress(
            0,
            steps,
            falls_from,
            refit_at=max(ENOUGH_STEPS, falls_from),
            elapsed_seconds=spent_seconds,
            prepared_seconds=spent_seconds,
        )
    progress = _restore(training, found)
    report("resume", step=found.step, steps=progress.steps, budget_seconds=training.config.budget_seconds, flush=True)
    return progress


def _restore(training: Training, checkpoint: Checkpoint) -> Progress:
    load_weights(training.model, checkpoint.tensors("model"))
    load_optimizer_tensors(training.optimizer, training.model, checkpoint.tensors("optimizer"))
    if training.ema is not None:
        training.ema.load_tensors(checkpoint.tensors("ema"))
    saved = dict(checkpoint.state["progress"])
    return Progress(**saved | {"cursor": Cursor(**saved["cursor"])})


def _save(training: Training, progress: Progress, score: float | None, passing: bool) -> None:
    _require_numbers(training, progress.step)
    tensors = {
        "model": named_weights(training.model),
        "optimizer": optimizer_tensors(training.optimizer, training.model),
    }
    if training.ema is not None:
        tensors["ema"] = training.ema.tensors()
    state = {**training.identity, "progress": asdict(progress)}
    training.checkpoints.save(progress.step, tensors, state, score, passing)


def _validate_and_save(training: Training, progress: Progress, clock: _Clock, report: Report, stop: Stop) -> Progress:
    config, score = training.config, None
    last = progress.step >= progress.steps
    if last or progress.step % config.validate_every == 0:
        started_at = clock.elapsed_seconds()
        found = validate_all(training, averaged=True)
        progress = replace(progress, validation_seconds=clock.elapsed_seconds() - started_at)
        score = found.score(config.best_by)
        if not isfinite(score):
            raise RunError(f"step {progress.step}: the validation's {config.best_by} is {score}", hint=_LOWER)
        progress = _judge(progress, score, config.patience)
        report("validation", step=progress.step, best=progress.n_worse == 0, **described(found))
    scheduled = progress.finished or progress.step % config.save_every == 0
    if scheduled or stop.signal_number is not None:
        progress = replace(progress, elapsed_seconds=clock.elapsed_seconds())
        _save(training, progress, score, passing=not scheduled)
        report("save", step=progress.step, flush=True)
    if stop.signal_number is not None and not progress.finished:
        raise TrainingStopped(progress.step, stop.signal_number)
    return progress


def validate_all(training: Training, averaged: bool) -> Validation:
    """The whole validation set; `averaged` takes EMA's weights, where there are any, in place of the model's."""
    with training.ema.swapped_in() if averaged and training.ema is not None else nullcontext():
        found = validate(training.model, held_out(training), training.device)
        if training.translate is None:
            return found
        return replace(found, translated=training.translate(training.model))


def held_out(training: Training) -> Iterator[Batch]:
    """The validation set in batches, always the same ones."""
    stream = training.stream
    return validation_batches(
        training.validation,
        max_tokens=stream.max_tokens,
        pad_id=stream.pad_id,
        bos_id=stream.bos_id,
        eos_id=stream.eos_id,
    )


def described(found: Validation) -> dict[str, Any]:
    """For the journal."""
    fields: dict[str, Any] = {"loss": found.loss, "perplexity": found.perplexity, "accuracy": found.accuracy}
    if found.translated is not None:
        bleu, chrf, samples = found.translated
        fields |= {"bleu": bleu, "chrf": chrf, "samples": [sample._asdict() for sample in samples]}
    return fields


def _judge(progress: Progress, score: float, patience: int | None) -> Progress:
    if progress.best_score is None or score < progress.best_score:
        return replace(progress, best_score=score, n_worse=0)
    n_worse = progress.n_worse + 1
    return replace(progress, n_worse=n_worse, stopped_early=patience is not None and n_worse >= patience)


def _fit_to_budget(training: Training, progress: Progress, clock: _Clock, report: Report) -> Progress:
    """With a budget, fix the last step when the rate begins to fall: only then does the rate depend on it.

    A run that gets there too soon, being quicker than somebody thought, lets it fall later. And the last step is fixed
    again when half of what is left is done, and half of that: a machine that has become slow still ends in time.
    """
    budget = training.config.budget_seconds
    if budget is None:
        return progress
    elapsed = clock.elapsed_seconds()
    validations = min(VALIDATIONS_AT_THE_END * progress.validation_seconds, MOST_FOR_VALIDATIONS * budget)
    reserved = BUDGET_RESERVE_SECONDS + validations
    trained, of = elapsed - progress.prepared_seconds, budget - reserved - progress.prepared_seconds
    # the steps are slower than somebody thought
    late = progress.step < progress.cooldown_from and trained > (1 - training.config.cooldown) * of
    if progress.step == progress.refit_at or (late and progress.step >= ENOUGH_STEPS):
        n_left = max(1, int((of - trained) * progress.step / trained))
        falls_from = round((1 - training.config.cooldown) * (progress.step + n_left))
        if progress.step <= progress.cooldown_from < (1 - CLOSE_ENOUGH) * falls_from:
            return _postpone(progress, n_left, falls_from, report)
        return _refit(progress, n_left, report)
    if elapsed > BUDGET_TOLERANCE * budget and progress.step < progress.steps:
        report("warning", message="slower than measured: stopping at the end of the budget", step=progress.step)
        return replace(progress, steps=progress.step)
    return progress


def _postpone(progress: Progress, n_left: int, falls_from: int, report: Report) -> Progress:
    """So many steps more, of which some are still taken at the highest rate."""
    steps = progress.step + n_left
    report("refit", step=progress.step, steps=steps, was=progress.steps)
    return replace(progress, steps=steps, cooldown_from=falls_from, refit_at=falls_from)


def _refit(progress: Progress, n_left: int, report: Report) -> Progress:
    """So many steps more. The rate goes on from where it is, in a line to nothing behind the last of them."""
    step, was = progress.step, progress.steps
    again_at = step + n_left // 2 if n_left > 2 * ENOUGH_STEPS else 0
    if abs(step + n_left - was) <= CLOSE_ENOUGH * was and step > progress.cooldown_from:
        return replace(progress, refit_at=again_at)
    if step + n_left != was:
        report("refit", step=step, steps=step + n_left, was=was)
    share = min(1.0, (was - step + 1) / (was - progress.cooldown_from + 1))  # of the highest rate
    falls_from = step if share == 1 else step + n_left + 1 - (n_left + 1) / share
    return replace(progress, steps=step + n_left, cooldown_from=falls_from, refit_at=again_at)


def _rate(training: Training, progress: Progress) -> float:
    d_model = training.model.config.d_model
    return rate(training.config, progress.step, progress.steps, progress.cooldown_from, d_model)


def _set_rate(training: Training, progress: Progress) -> None:
    for group in training.optimizer.param_groups:
        group["lr"] = _rate(training, progress)


def _require_numbers(training: Training, step: int) -> None:
    """A rate can be so high that a good gradient makes bad weights: from these nobody could go on."""
    for name, tensor in named_weights(training.model).items():
        if not bool(torch.isfinite(tensor).all()):
            raise RunError(f"step {step}: {name!r} has values that are not numbers; it was not saved", hint=_LOWER)


def _not_a_number(step: int, loss: float, norm: float, update: list[Batch]) -> RunError:
    numbers = [int(index) for batch in update for index in batch.indices]
    some = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    what = f"the loss is {loss}" if not isfinite(loss) else f"the gradient's norm is {norm}"
    return RunError(
        f"step {step}: {what}, on {len(numbers)} pairs (numbers {some} of the token store); nothing was saved since",
        hint=_LOWER,
    )
