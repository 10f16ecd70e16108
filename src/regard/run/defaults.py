"""Default values of a run (model size, batch, learning rate, number of steps) from its corpus and its budget."""

from __future__ import annotations

from math import log2

from regard.run.recipe import Raw

MAX_WARMUP = 4000  # the paper's
SECONDS_BETWEEN_VALIDATIONS = 40
MIN_STEPS = 20
STEP_COUNTS = ("steps", "warmup", "save_every", "validate_every")
SMALL_CORPUS, LARGE_CORPUS = 100_000, 1_000_000  # pairs
MIN_TINY_STEPS_FOR_SMALL = 8_000  # a guess: with time for 3,000 steps "tiny" learned more, with 6,000 as much


def default_model(n_pairs: int, n_tiny_steps: float | None) -> Raw:
    """Model size. With a budget, `n_tiny_steps` of the smallest model fit into it: a larger one needs more time."""
    if n_pairs < SMALL_CORPUS or (n_tiny_steps is not None and n_tiny_steps < MIN_TINY_STEPS_FOR_SMALL):
        preset = "tiny"
    else:
        preset = "small" if n_pairs < LARGE_CORPUS or n_tiny_steps is not None else "base"
    return {"model": {"preset": preset, "norm": "pre"}}


def default_training(n_target_tokens: int, d_model: int, budget_seconds: float | None, fine_tunes: bool = False) -> Raw:
    """Batch size and optimizer: batches small enough for many steps per epoch, with the learning rate that suits them.

    `fine_tunes`: a trained model continues with a tenth of the learning rate, so that it does not forget.
    """
    training: Raw = {
        "max_tokens": max(256, min(2048, n_target_tokens // 20)),
        "optimizer": "muon",
        "schedule": "cooldown",
        "rate": (0.064 if fine_tunes else 0.64) / d_model,  # 0.005 for a new "tiny"
        "clip": 1.0,
    }
    if budget_seconds is not None:
        training["budget_seconds"] = budget_seconds
    return {"training": training}


def default_precision(fast_bfloat16: bool) -> Raw:
    """bfloat16 where the hardware supports it: faster, same quality per step (docs/experiments.md)."""
    return {"training": {"precision": "bfloat16" if fast_bfloat16 else "float32"}}


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
    n_pairs: int,
    steps_per_epoch: int,
    seconds_per_step: float,
    seconds_left: float | None,
    given_steps: int | None = None,
) -> Raw:
    """The number of steps: as many as fit into the time left, or a number of epochs that suits the size of the corpus.

    Warm-up, dropout and intervals follow from the number of steps, or from `given_steps` if the recipe has it.
    """
    if given_steps is not None:
        steps = given_steps
    elif seconds_left is not None:
        steps = max(MIN_STEPS, int(seconds_left / seconds_per_step))
    else:
        epochs = max(5.0, min(60.0, 30 * (50_000 / n_pairs) ** 0.35))
        steps = max(MIN_STEPS, min(100_000, round(epochs * steps_per_epoch)))
    epochs = steps / steps_per_epoch
    training = {"cooldown": _cooldown(epochs), **_step_counts(steps, seconds_per_step)}
    return {"model": {"dropout": _dropout(epochs)}, "training": training}


def _dropout(epochs: float) -> float:
    """More dropout the more often each sentence is seen: 0 for 2 epochs, 0.1 for 8, 0.3 for 80."""
    return round(max(0.0, min(0.3, 0.1 + 0.06 * log2(max(1.0, epochs) / 8))), 2)


def _cooldown(epochs: float) -> float:
    """With few epochs the learning rate stays high for longer; at 10 epochs little of that gain is left."""
    return 0.3 if epochs <= 12 else 0.6


def _step_counts(steps: int, seconds_per_step: float) -> Raw:
    # a validation takes seconds, so keep some time between two of them
    interval = max(10, min(1500, steps // 20), min(steps // 4, round(SECONDS_BETWEEN_VALIDATIONS / seconds_per_step)))
    return {
        "steps": steps,
        "warmup": max(10, min(MAX_WARMUP, steps // 20)),
        "save_every": interval,
        "validate_every": interval,
        "average": 1,  # averaging checkpoints gains nothing when the learning rate falls to zero
    }
