"""Default values: they grow with the text and the time, and always make a valid recipe."""

from itertools import pairwise
from typing import Any

import pytest

from regard.models import ARCHITECTURES, PRESETS, Defaults, Situation
from regard.run import Recipe, merge
from regard.run.defaults import default_intervals, default_length, drop_step_counts

SIZES = [2, 50, 3_000, 29_000, 99_999, 100_000, 900_000, 5_000_000, 40_000_000]


def test_time_left_decides_the_number_of_steps() -> None:
    assert default_length(30, 50, 0.1, seconds_left=60.0)["training"]["steps"] == 600
    steps = [default_length(30, 50, 0.1, left)["training"]["steps"] for left in (-5.0, 1.0, 10.0, 1e3, 1e9)]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (20, 10**10)


def test_cooldown_is_shorter_with_few_epochs() -> None:
    values = [default_length(30, 100, 0.1, left)["training"]["cooldown"] for left in (20.0, 120.0, 130.0, 1e4)]
    assert values == [0.3, 0.3, 0.6, 0.6]


def test_budget_overrides_the_steps_of_a_recipe() -> None:
    timed = {"budget_seconds": 60.0, "steps": 9000, "warmup": 400, "save_every": 500, "rate": 0.1}
    remaining = {"training": {"budget_seconds": 60.0, "rate": 0.1}, "seed": 1}
    assert drop_step_counts({"training": timed, "seed": 1}) == (remaining, ["steps", "warmup", "save_every"])
    own_warmup = {"training": {"budget_seconds": 60.0, "warmup": 7}}
    for unchanged in ({"training": {"steps": 9000}}, {}, {"training": 3}, own_warmup):
        assert drop_step_counts(unchanged) == (unchanged, [])


def test_best_checkpoints_are_saved_as_often_as_validated() -> None:
    for name in ("save_every", "validate_every"):
        given = {"training": {"average_of": "best", name: 200}}
        assert default_intervals(given) == {"training": {"save_every": 200, "validate_every": 200}}
    both = {"average_of": "best", "save_every": 400, "validate_every": 200}
    for unchanged in (both, {"average_of": "best"}, {"validate_every": 200}, {}):
        assert default_intervals({"training": unchanged}) == {}


def test_without_budget_larger_corpora_have_more_steps_but_fewer_epochs() -> None:
    epochs = [Defaults().epochs(Situation(n, 20 * n, None, fine_tunes=False)) for n in SIZES]
    lengths = [default_length(e, n // 50 + 1, 0.1, None) for e, n in zip(epochs, SIZES, strict=True)]
    steps = [length["training"]["steps"] for length in lengths]
    assert steps == sorted(steps)
    for (n, n_steps), (larger, more_steps) in pairwise(zip(SIZES, steps, strict=True)):
        if n >= 3_000 and more_steps < 100_000:
            assert more_steps / (larger // 50 + 1) <= n_steps / (n // 50 + 1) + 1


def test_given_steps_decide_warmup_and_intervals() -> None:
    slow, fast = (default_length(30, 5_000, s, None, given_steps=300)["training"] for s in (10.0, 0.1))
    assert slow.items() >= {"steps": 300, "warmup": 15, "save_every": 15, "validate_every": 15}.items()
    assert fast["validate_every"] == 75  # there is a minimum time between validations


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("budget", [None, 5.0, 1200.0])
def test_defaults_make_a_valid_recipe(size: int, budget: float | None) -> None:
    defaults = ARCHITECTURES["transformer"].defaults
    situation = Situation(size, 20 * size, None if budget is None else budget / 0.2, fine_tunes=False)
    model = defaults.model(PRESETS, situation)
    batch = defaults.training(PRESETS[model["preset"]], situation)
    raw: dict[str, Any] = {"data": {"train": [{"tsv": "x"}]}, "model": model | defaults.regularisation(30.0, situation)}
    batch["budget_seconds"] = budget
    length = default_length(defaults.epochs(situation), size // 50 + 1, 0.2, budget)
    training = Recipe.build(merge(raw, {"training": batch}, length)).training
    assert training.warmup < training.steps
    assert training.save_every < training.steps
    assert training.save_every % training.validate_every == 0
    assert training.budget_seconds == budget
