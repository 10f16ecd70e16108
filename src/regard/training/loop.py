"""The training loop. Everything random is a function of a batch's place in the run, so that resuming is exact."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import islice
from math import isfinite
from statistics import median_high
from time import perf_counter
from typing import Any, Protocol

import torch

from regard.data import Batch, Cursor, Loader, prefetch
from regard.errors import RunError, TrainingStopped
from regard.metrics import Measure
from regard.models import Model, load_weights, named_weights
from regard.training.averaging import EMA
from regard.training.budget import MIN_STEPS_TO_MEASURE, extend, first_refit, fit_to_budget, has_cooled_down
from regard.training.checkpoints import Checkpoint, Checkpoints, load_optimizer_tensors, optimizer_tensors
from regard.training.learner import Learner, StepLoss, compute_gradient, update_weights
from regard.training.optimizers import set_rate
from regard.training.progress import Progress
from regard.training.schedule import learning_rate
from regard.training.stop import Stop
from regard.training.validation import Validation

_DIVERGED_HINT = "lower training.rate or set training.clip = 1.0, and train in another directory"
_DRIFT = "the weights of the processes differ: their CPUs or libraries round differently; all have those of rank 0 now"


class OnEvent(Protocol):
    """Called with every event of a run."""

    def __call__(self, event: str, **fields: Any) -> None: ...


@dataclass(kw_only=True)
class Training(Learner):
    """Everything that the loop works on."""

    loader: Loader
    validate: Callable[[Model], Validation]
    measures: tuple[Measure, ...]
    checkpoints: Checkpoints
    identity: dict[str, str]  # the digest of the recipe: checkpoints of another recipe are refused
    planned_seconds: float | None = None  # the budget that the run was begun with

    def __post_init__(self) -> None:
        """Adds the moving average of the weights; only the process that decides and writes has one."""
        super().__post_init__()
        self.ema = EMA(self.model, self.config.ema) if self.config.ema is not None else None


def fit(training: Training, on_event: OnEvent, stop: Stop, spent_seconds: float = 0.0) -> Progress:
    """Trains to the last step, from the newest good checkpoint if there is one.

    `spent_seconds` of the budget were used before the loop.
    """
    progress = _resume(training, on_event, spent_seconds)
    updates = training.loader.updates(progress.cursor, progress.step + 1)
    with training.workers.job(training, stop), closing(prefetch(training.workers.deal(updates))) as stream:
        started_at = perf_counter() - progress.elapsed_seconds  # with the time before an interruption
        while not progress.finished:
            update, cursor = next(stream)
            progress = replace(progress, step=progress.step + 1, cursor=cursor)
            rate = _set_learning_rate(training, progress)
            metrics = train_step(training, update, progress.step)
            progress = replace(progress, elapsed_seconds=perf_counter() - started_at)
            on_event("step", step=progress.step, steps=progress.steps, rate=rate, **metrics,
                     elapsed_seconds=progress.elapsed_seconds)  # fmt: skip
            progress, event = fit_to_budget(training.config, progress, perf_counter() - started_at)
            if event is not None:
                on_event(**event)
            progress = _validate_and_save(training, progress, started_at, on_event, stop)
    return progress


def train_step(training: Training, update: list[Batch], step: int) -> dict[str, Any]:
    """One optimizer step. Each term of the loss is the mean over its targets in all batches of the update."""
    started_at = perf_counter()
    counts = (sum(column) for column in zip(*(batch.n_targets for batch in update), strict=True))
    n_targets = tuple(counts)
    own = training.workers.begin_step(training, update, n_targets)
    result = compute_gradient(training, own, n_targets, len(update), update[0].place)
    if not result.is_finite:
        raise _divergence_error(training, step, result, update)
    update_weights(training)
    if training.ema is not None:
        training.ema.update(step)
    means = {name: nll / max(1, n) for (name, nll), n in zip(result.nll.items(), n_targets, strict=True)}
    seconds = perf_counter() - started_at
    n_tokens, nll = n_targets[0], next(iter(means.values()))
    losses = {"losses": means} if len(means) > 1 else {}
    speed = n_tokens / seconds
    return {"loss": result.loss, "nll": nll, **losses, "norm": result.norm, "n_tokens": n_tokens,
            "tokens_per_second": speed}  # fmt: skip


def measure_seconds_per_step(training: Training, n_steps: int) -> float:
    """The median duration of trial steps at learning rate 0: they change the optimizer state, but not the weights."""
    seconds = []
    loader = replace(training.loader, curriculum=0)  # whose first examples are short
    with training.workers.job(training):
        updates = training.workers.deal(islice(loader.updates(Cursor()), n_steps))
        for number, (update, _) in enumerate(updates, start=1):
            started_at = perf_counter()
            train_step(training, update, number)
            seconds.append(perf_counter() - started_at)
    return median_high(seconds[1:])  # without the first step, which warms up


def _resume(training: Training, on_event: OnEvent, spent_seconds: float) -> Progress:
    checkpoint, skipped = training.checkpoints.resume(training.identity)
    for name, reason in skipped.items():
        on_event("skipped", checkpoint=name, reason=reason)
    if checkpoint is None:
        steps = training.config.steps
        cooldown_from = round(steps * (1 - training.config.cooldown))
        return Progress(
            0,
            steps,
            cooldown_from,
            refit_at=first_refit(cooldown_from),
            elapsed_seconds=spent_seconds,
            prepared_seconds=spent_seconds,
            budget_seconds=training.config.budget_seconds,
        )
    progress = _with_more_time(training, _restore(training, checkpoint), on_event)
    on_event("resume", step=progress.step, steps=progress.steps, budget_seconds=training.config.budget_seconds,
             measures=[measure._asdict() for measure in training.measures], flush=True)  # fmt: skip
    return progress


def _with_more_time(training: Training, newest: Progress, on_event: OnEvent) -> Progress:
    """The progress of a run with a larger budget than before: from before its learning rate began to fall."""
    config, checkpoints = training.config, training.checkpoints
    planned = newest.budget_seconds or training.planned_seconds
    if config.budget_seconds is None or planned is None or newest.step < MIN_STEPS_TO_MEASURE:
        return newest
    if config.budget_seconds <= planned:  # also when the run was extended earlier, and is resumed without saying so
        training.config = config.model_copy(update={"budget_seconds": planned})
        return newest
    progress = newest
    if has_cooled_down(newest):
        if checkpoints.pinned is None:
            raise RunError(
                "the run cannot be given more time: it has no checkpoint from before its learning rate fell",
                hint="train in another directory, with --from and this run",
            )
        progress = _restore(training, checkpoints.rewind(checkpoints.pinned))
    extended = extend(config, progress, newest.elapsed_seconds)
    on_event("extended", step=progress.step, reached=newest.step, steps=extended.steps, flush=True)
    return extended


def _restore(training: Training, checkpoint: Checkpoint) -> Progress:
    load_weights(training.model, checkpoint.tensors("model"))
    load_optimizer_tensors(training.optimizer, training.model, checkpoint.tensors("optimizer"))
    if training.ema is not None:
        training.ema.load_tensors(checkpoint.tensors("ema"))
    saved = dict(checkpoint.state["progress"])
    return Progress(**saved | {"cursor": Cursor(**saved["cursor"])})


def _save(training: Training, progress: Progress, score: float | None, interrupted: bool) -> None:
    _require_finite_weights(training, progress.step)
    tensors = {
        "model": named_weights(training.model),
        "optimizer": optimizer_tensors(training.optimizer, training.model),
    }
    if training.ema is not None:
        tensors["ema"] = training.ema.tensors()
    state = {**training.identity, "progress": asdict(progress)}
    pin = training.checkpoints.pins and not has_cooled_down(progress)
    training.checkpoints.save(progress.step, tensors, state, score, interrupted, pin)


def _validate_and_save(
    training: Training, progress: Progress, started_at: float, on_event: OnEvent, stop: Stop
) -> Progress:
    config, score = training.config, None
    is_last = progress.step >= progress.steps
    if is_last or progress.step % config.validate_every == 0 or progress.step in config.validate_at:
        validation_started_at = perf_counter()
        validation = validate_training(training, use_ema=True)
        progress = replace(progress, validation_seconds=perf_counter() - validation_started_at)
        value = validation.metrics[config.best_by]
        [best_by] = (measure for measure in training.measures if measure.name == config.best_by)
        score = -value if best_by.higher_is_better else value
        if not isfinite(score):
            message = f"step {progress.step}: the validation {config.best_by} is {score}"
            raise RunError(message, hint=_diverged_hint(training))
        progress = _update_best(progress, score, config.patience)
        on_event("validation", step=progress.step, best=progress.n_worse == 0,
                 **validation.metrics, samples=[dict(sample) for sample in validation.samples])  # fmt: skip
    scheduled = progress.finished or progress.step % config.save_every == 0
    begins_to_cool = training.checkpoints.pins and progress.step == progress.cooldown_from
    if scheduled or begins_to_cool or stop.signal_number is not None:
        progress = replace(progress, elapsed_seconds=perf_counter() - started_at)
        if not training.workers.align(training):
            on_event("warning", step=progress.step, message=_DRIFT)
        _save(training, progress, score, interrupted=not scheduled)
        on_event("save", step=progress.step, flush=True)
    if stop.signal_number is not None and not progress.finished:
        raise TrainingStopped(progress.step, stop.signal_number)
    return progress


def validate_training(training: Training, use_ema: bool) -> Validation:
    """Scores on the whole validation set; with `use_ema`, of the averaged weights where there are any."""
    weights = training.ema.swapped_in() if use_ema and training.ema is not None else nullcontext()
    threads = nullcontext() if training.config.exact else training.workers.all_threads()
    with weights, threads:
        return training.validate(training.model)


def _update_best(progress: Progress, score: float, patience: int | None) -> Progress:
    if progress.best_score is None or score < progress.best_score:
        return replace(progress, best_score=score, n_worse=0)
    n_worse = progress.n_worse + 1
    return replace(progress, n_worse=n_worse, stopped_early=patience is not None and n_worse >= patience)


def _set_learning_rate(training: Training, progress: Progress) -> float:
    width = training.model.config.width
    rate = learning_rate(training.config, progress.step, progress.steps, progress.cooldown_from, width)
    set_rate(training.optimizer, rate)
    return rate


def _require_finite_weights(training: Training, step: int) -> None:
    """A high learning rate can turn a finite gradient into infinite weights: such a checkpoint would be useless."""
    for name, tensor in named_weights(training.model).items():
        if not bool(torch.isfinite(tensor).all()):
            raise RunError(
                f"step {step}: {name!r} has NaN or infinite values; this step was not saved",
                hint=_diverged_hint(training),
            )


def _diverged_hint(training: Training) -> str:
    return _DIVERGED_HINT + ("; the last checkpoint is good" if training.checkpoints.steps() else "")


def _divergence_error(training: Training, step: int, result: StepLoss, update: list[Batch]) -> RunError:
    indices = [int(index) for batch in update for index in batch.indices]
    first_few = ", ".join(map(str, indices[:5])) + (", …" if len(indices) > 5 else "")
    problem = f"the gradient norm is {result.norm}" if isfinite(result.loss) else f"the loss is {result.loss}"
    return RunError(
        f"step {step}: {problem} for a batch of {len(indices)} examples (numbers {first_few})",
        hint=_diverged_hint(training),
    )
