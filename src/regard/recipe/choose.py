"""What a person did not say: size, vocabulary, batch, rate and length of a training, from the corpus and the time."""

from __future__ import annotations

from math import log2

from regard.recipe.schema import Raw

MAX_WARMUP = 4000  # the paper's
SECONDS_BETWEEN_VALIDATIONS = 40
FEWEST_STEPS = 20


def choose_shape(n_pairs: int, budget_seconds: float | None) -> Raw:
    """Which model."""
    small_corpus = n_pairs < 100_000
    if budget_seconds is not None:
        preset = "tiny" if budget_seconds < 1800 or small_corpus else "small"
    else:
        preset = "tiny" if small_corpus else "small" if n_pairs < 1_000_000 else "base"
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


def by_the_clock(asked: Raw) -> Raw:
    """With a budget the time says how many steps there are, whatever a recipe for another machine says."""
    training = asked.get("training")
    if not isinstance(training, dict) or training.get("budget_seconds") is None:
        return asked
    return {**asked, "training": {name: value for name, value in training.items() if name != "steps"}}


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
    return {"model": {"dropout": _dropout(steps / steps_an_epoch)}, "training": _every_part(steps, seconds_a_step)}


def _dropout(epochs: float) -> float:
    """The more often a sentence is seen, the more has to be hidden of it: 0.1 up to 8 passes, 0.3 from 80 on."""
    return round(max(0.1, min(0.3, 0.1 + 0.06 * log2(max(1.0, epochs) / 8))), 2)


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
