"""A time budget: sets the last step of a run from the speed so far. Pure functions of the progress and the clock.

The learning rate depends on the last step only once it falls. So the last step is set when the cooldown begins, and
again when half of the remaining steps are done, then half of those: if the machine slows down, the run ends in time.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from regard.training.config import TrainingConfig
from regard.training.progress import Progress

RESERVED_SECONDS = 5.0  # for the last checkpoint, averaging and the model directory
# in the loop, of the final model, of int8, and the length penalty, which takes as long as two on a CPU
VALIDATIONS_AT_END = 5
# Of the budget, because the first validation is the slowest: a model at that stage does not end its sentences.
MAX_VALIDATION_SHARE = 1 / 6
MAX_OVERRUN = 1.05
MIN_STEPS_TO_MEASURE = 8
MIN_CHANGE = 0.01  # of the number of steps; smaller corrections are ignored


class Adjustment(NamedTuple):
    """The progress with its new last step, and the fields of the event that reports the change, if there is one."""

    progress: Progress
    event: dict[str, Any] | None = None


def first_refit(cooldown_from: int) -> int:
    """The step after which the budget sets the last step for the first time."""
    return max(MIN_STEPS_TO_MEASURE, cooldown_from)


def fit_to_budget(config: TrainingConfig, progress: Progress, elapsed_seconds: float) -> Adjustment:
    """Sets the last step if it is time to; a run without a budget stays as it is.

    A run that is faster than planned begins its cooldown later, a slower one earlier.
    """
    budget = config.budget_seconds
    if budget is None:
        return Adjustment(progress)
    validations = min(VALIDATIONS_AT_END * progress.validation_seconds, MAX_VALIDATION_SHARE * budget)
    reserved = RESERVED_SECONDS + validations
    trained = elapsed_seconds - progress.prepared_seconds
    available = budget - reserved - progress.prepared_seconds
    too_slow = progress.step < progress.cooldown_from and trained > (1 - config.cooldown) * available
    if progress.step == progress.refit_at or (too_slow and progress.step >= MIN_STEPS_TO_MEASURE):
        n_left = max(1, int((available - trained) * progress.step / trained))
        cooldown_from = round((1 - config.cooldown) * (progress.step + n_left))
        if progress.step <= progress.cooldown_from < (1 - MIN_CHANGE) * cooldown_from:
            return _postpone_cooldown(progress, n_left, cooldown_from)
        return _set_last_step(progress, n_left)
    if elapsed_seconds > MAX_OVERRUN * budget and progress.step < progress.steps:
        message = "slower than measured: stopping at the end of the budget"
        event = {"event": "warning", "message": message, "step": progress.step}
        return Adjustment(replace(progress, steps=progress.step), event)
    return Adjustment(progress)


def has_cooled_down(progress: Progress) -> bool:
    """Whether the learning rate has begun to fall, so that the run cannot simply go on."""
    return progress.step > progress.cooldown_from


def extend(config: TrainingConfig, progress: Progress, elapsed_seconds: float) -> Progress:
    """A run that goes on at the peak learning rate, with the larger budget of `config`.

    `elapsed_seconds` is the time of the whole run, with the part of it that was given up to go back to `progress`.
    """
    budget = config.budget_seconds
    assert budget is not None
    lost = elapsed_seconds - progress.elapsed_seconds
    trained = progress.elapsed_seconds - progress.prepared_seconds
    validations = min(VALIDATIONS_AT_END * progress.validation_seconds, MAX_VALIDATION_SHARE * budget)
    left = budget - RESERVED_SECONDS - validations - elapsed_seconds
    n_left = max(1, int(left * progress.step / max(trained, 1e-9)))
    steps = progress.step + n_left
    cooldown_from = max(progress.step, round((1 - config.cooldown) * steps))
    return replace(
        progress,
        steps=steps,
        cooldown_from=cooldown_from,
        refit_at=max(cooldown_from, progress.step + 1),
        elapsed_seconds=elapsed_seconds,
        prepared_seconds=progress.prepared_seconds + lost,
        budget_seconds=budget,
        stopped_early=False,
    )


def _postpone_cooldown(progress: Progress, n_left: int, cooldown_from: int) -> Adjustment:
    """`n_left` more steps, the first of them still at the peak learning rate."""
    steps = progress.step + n_left
    changed = replace(progress, steps=steps, cooldown_from=cooldown_from, refit_at=cooldown_from)
    return Adjustment(changed, _refit_event(progress, steps))


def _set_last_step(progress: Progress, n_left: int) -> Adjustment:
    """`n_left` more steps. The learning rate continues from its current value, linearly to zero after the last one."""
    step, old_steps = progress.step, progress.steps
    refit_at = step + n_left // 2 if n_left > 2 * MIN_STEPS_TO_MEASURE else 0
    if abs(step + n_left - old_steps) <= MIN_CHANGE * old_steps and step > progress.cooldown_from:
        return Adjustment(replace(progress, refit_at=refit_at))
    share_of_peak = min(1.0, (old_steps - step + 1) / (old_steps - progress.cooldown_from + 1))
    cooldown_from = step if share_of_peak == 1 else step + n_left + 1 - (n_left + 1) / share_of_peak
    changed = replace(progress, steps=step + n_left, cooldown_from=cooldown_from, refit_at=refit_at)
    return Adjustment(changed, _refit_event(progress, changed.steps) if changed.steps != old_steps else None)


def _refit_event(progress: Progress, steps: int) -> dict[str, Any]:
    return {"event": "refit", "step": progress.step, "steps": steps, "was": progress.steps}
