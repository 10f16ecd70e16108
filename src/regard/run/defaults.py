"""What a person did not say: size, vocabulary, batch, rate and length of a training, from the corpus and the time."""

from __future__ import annotations

from math import log2

from regard.run.recipe import Raw

MAX_WARMUP = 4000  # the paper's
SECONDS_BETWEEN_VALIDATIONS = 40
FEWEST_STEPS = 20
COUNTED_IN_STEPS = ("steps", "warmup", "save_every", "validate_every")
SMALL_CORPUS, LARGE_CORPUS = 100_000, 1_000_000  # pairs
STEPS_FOR_SMALL = 8_000  # of "tiny", in the time there is: a guess; at 3,000 "tiny" learned more, at 6,000 as much


def choose_shape(n_pairs: int, n_tiny_steps: float | None) -> Raw:
    """Which model. With a budget, `n_tiny_steps` of the smallest fit into it: a larger one needs time to pay."""
    if n_pairs < SMALL_CORPUS or (n_tiny_steps is not None and n_tiny_steps < STEPS_FOR_SMALL):
        preset = "tiny"
    else:
        preset = "small" if n_pairs < LARGE_CORPUS or n_tiny_steps is not None else "base"
    return {"model": {"preset": preset, "norm": "pre"}}


def choose_batch(n_target_tokens: int, d_model: int, budget_seconds: float | None, tunes: bool = False) -> Raw:
    """Batches small enough that even a small corpus gives many steps; the rate that went with them in our trials.

    `tunes`: a model that has learned already goes on with a tenth of the rate, so as not to forget.
    """
    training: Raw = {
        "max_tokens": max(256, min(2048, n_target_tokens // 20)),
        "optimizer": "muon",
        "schedule": "cooldown",
        "rate": (0.064 if tunes else 0.64) / d_model,  # 0.005 for a new "tiny"
        "clip": 1.0,
    }
    if budget_seconds is not None:
        training["budget_seconds"] = budget_seconds
    return {"training": training}


def choose_precision(fast_bfloat16: bool) -> Raw:
    """bfloat16 where the processor multiplies it: quicker, and a step teaches as much (docs/experiments.md)."""
    return {"training": {"precision": "bfloat16" if fast_bfloat16 else "float32"}}


def by_the_clock(asked: Raw) -> tuple[Raw, list[str]]:
    """With a budget the time says how many steps there are, whatever a recipe for another time says.

    What it counts in steps was meant for its own number of them, and is left out as well. Gives what stays, and the
    names of what does not.
    """
    training = asked.get("training")
    if not isinstance(training, dict) or training.get("budget_seconds") is None or "steps" not in training:
        return asked, []
    left_out = [name for name in training if name in COUNTED_IN_STEPS]
    return {**asked, "training": {name: training[name] for name in training if name not in left_out}}, left_out


def choose_rhythm(asked: Raw) -> Raw:
    """Where the best checkpoints are averaged, each has to be validated: the rhythm that was asked for is both's."""
    training = asked.get("training", {})
    if not isinstance(training, dict) or training.get("average_of") != "best":
        return {}
    given = [training[name] for name in ("save_every", "validate_every") if name in training]
    return {"training": {"save_every": given[0], "validate_every": given[0]}} if len(given) == 1 else {}


def choose_length(
    n_pairs: int,
    steps_an_epoch: int,
    seconds_a_step: float,
    left_seconds: float | None,
    asked_steps: int | None = None,
) -> Raw:
    """How many steps: what fits into the time that is left, or as many passes as a corpus of this size is worth.

    What follows from their number (warm-up, when to save) follows from the number that was asked for, if one was.
    """
    if asked_steps is not None:
        steps = asked_steps
    elif left_seconds is not None:
        steps = max(FEWEST_STEPS, int(left_seconds / seconds_a_step))
    else:
        epochs = max(5.0, min(60.0, 30 * (50_000 / n_pairs) ** 0.35))
        steps = max(FEWEST_STEPS, min(100_000, round(epochs * steps_an_epoch)))
    epochs = steps / steps_an_epoch
    training = {"cooldown": _cooldown(epochs), **_every_part(steps, seconds_a_step)}
    return {"model": {"dropout": _dropout(epochs)}, "training": training}


def _dropout(epochs: float) -> float:
    """The more often a sentence is seen, the more has to be hidden of it: nothing in 2 passes, 0.1 in 8, 0.3 in 80."""
    return round(max(0.0, min(0.3, 0.1 + 0.06 * log2(max(1.0, epochs) / 8))), 2)


def _cooldown(epochs: float) -> float:
    """A high rate for longer where there is still much to learn: at 10 passes little of what it gains is left."""
    return 0.3 if epochs <= 12 else 0.6


def _every_part(steps: int, seconds_a_step: float) -> Raw:
    # a validation takes seconds: not more often than the clock allows
    every = max(10, min(1500, steps // 20), min(steps // 4, round(SECONDS_BETWEEN_VALIDATIONS / seconds_a_step)))
    return {
        "steps": steps,
        "warmup": max(10, min(MAX_WARMUP, steps // 20)),
        "save_every": every,
        "validate_every": every,
        "average": 1,  # a rate that falls to zero has done the averaging
    }
