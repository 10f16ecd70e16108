"""Default values of a run that do not depend on the architecture: intervals, and the number of steps."""

from __future__ import annotations

from regard.tasks import Raw

MAX_WARMUP = 4000  # the paper's
MIN_STEPS = 20
STEP_COUNTS = ("steps", "warmup", "curriculum", "save_every", "validate_every", "validate_at")


def drop_step_counts(given: Raw) -> tuple[Raw, list[str]]:
    """With a budget, removes `steps` and the values counted in steps: they were meant for another duration.

    Returns the remaining values, and the names of those that were removed.
    """
    training = given.get("training")
    if not isinstance(training, dict) or training.get("budget_seconds") is None or "steps" not in training:
        return given, []
    dropped = [name for name in training if name in STEP_COUNTS]
    return {**given, "training": {name: training[name] for name in training if name not in dropped}}, dropped


def default_intervals(given: Raw) -> Raw:
    """To average the best checkpoints, each one has to be validated: if only one interval is given, use it for both."""
    training = given.get("training", {})
    if not isinstance(training, dict) or training.get("average_of") != "best":
        return {}
    intervals = [training[name] for name in ("save_every", "validate_every") if name in training]
    return {"training": dict.fromkeys(("save_every", "validate_every"), intervals[0])} if len(intervals) == 1 else {}


def default_length(
    epochs: float,
    steps_per_epoch: int,
    seconds_per_step: float,
    seconds_left: float | None,
    given_steps: int | None = None,
    seconds_between_validations: float = 40,
) -> Raw:
    """The number of steps: as many as fit into the time left, or those of `epochs`.

    Warm-up, cooldown and intervals follow from the number of steps, or from `given_steps` if the recipe has it.
    """
    if given_steps is not None:
        steps = given_steps
    elif seconds_left is not None:
        steps = max(MIN_STEPS, int(seconds_left / seconds_per_step))
    else:
        steps = max(MIN_STEPS, min(100_000, round(epochs * steps_per_epoch)))
    # a validation takes seconds, so keep some time between two of them
    interval = max(10, min(1500, steps // 20), min(steps // 4, round(seconds_between_validations / seconds_per_step)))
    training = {
        "steps": steps,
        # with few epochs the learning rate stays high for longer; at 10 epochs little of that gain is left
        "cooldown": 0.3 if steps / steps_per_epoch <= 12 else 0.6,
        "warmup": max(10, min(MAX_WARMUP, steps // 20)),
        "save_every": interval,
        "validate_every": interval,
        "average": 1,  # averaging checkpoints gains nothing when the learning rate falls to zero
    }
    return {"training": training}
