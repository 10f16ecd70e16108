"""Default values: they grow with the text and the time, and always make a valid recipe."""

from itertools import pairwise
from typing import Any

import pytest

from regard.models import ARCHITECTURES, PRESETS, Situation
from regard.run import Recipe, merge
from regard.run.defaults import default_intervals, default_length, drop_step_counts

SIZES = [2, 50, 3_000, 29_000, 99_999, 100_000, 900_000, 5_000_000, 40_000_000]
ORDER = list(PRESETS)
DEFAULTS = ARCHITECTURES["transformer"].defaults


def default_model(n_pairs: int, n_steps: float | None) -> dict[str, Any]:
    return {"model": DEFAULTS.model(PRESETS, Situation(n_pairs, 0, n_steps, fine_tunes=False))}


def default_training(n_tokens: int, d_model: int, fine_tunes: bool = False) -> dict[str, Any]:
    config = PRESETS["base"].model_copy(update={"d_model": d_model})
    return {"training": DEFAULTS.training(config, Situation(0, n_tokens, None, fine_tunes))}


def test_model_size_grows_with_the_corpus() -> None:
    for n_tiny_steps in (None, 0.0, 3000.0, 1e6):
        values = [ORDER.index(default_model(size, n_tiny_steps)["model"]["preset"]) for size in SIZES]
        assert values == sorted(values)
    assert default_model(2, None)["model"]["preset"] == "tiny"
    assert default_model(5_000_000, None)["model"]["preset"] == "base"


def test_model_size_grows_with_the_budget() -> None:
    for size in SIZES:
        values = [ORDER.index(default_model(size, steps)["model"]["preset"]) for steps in (0.0, 100.0, 1e4, 1e6)]
        assert values == sorted(values)


def test_batch_size_grows_with_the_corpus_within_bounds() -> None:
    values = [default_training(30 * size, 128)["training"]["max_tokens"] for size in SIZES]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (256, 2048)


def test_wider_model_has_a_lower_learning_rate() -> None:
    rates = [default_training(10**6, width)["training"]["rate"] for width in (128, 256, 512, 1024)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(0.005)


def test_time_left_decides_the_number_of_steps() -> None:
    assert default_length(10_000, 50, 0.1, seconds_left=60.0)["training"]["steps"] == 600
    steps = [default_length(10_000, 50, 0.1, left)["training"]["steps"] for left in (-5.0, 1.0, 10.0, 1e3, 1e9)]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (20, 10**10)


def test_fine_tuning_has_a_tenth_of_the_learning_rate() -> None:
    new, tuned = (default_training(10**6, 128, fine_tunes)["training"]["rate"] for fine_tunes in (False, True))
    assert tuned == pytest.approx(new / 10)


def test_dropout_grows_with_the_number_of_epochs() -> None:
    values = [DEFAULTS.regularisation(epochs)["dropout"] for epochs in (2, 4, 8, 16, 80, 1000)]
    assert values == [0.0, 0.04, 0.1, 0.16, 0.3, 0.3]


def test_cooldown_is_shorter_with_few_epochs() -> None:
    values = [default_length(10_000, 100, 0.1, left)["training"]["cooldown"] for left in (20.0, 120.0, 130.0, 1e4)]
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
    steps = [default_length(n, n // 50 + 1, 0.1, None)["training"]["steps"] for n in SIZES]
    assert steps == sorted(steps)
    for (n, n_steps), (larger, more_steps) in pairwise(zip(SIZES, steps, strict=True)):
        if n >= 3_000 and more_steps < 100_000:
            assert more_steps / (larger // 50 + 1) <= n_steps / (n // 50 + 1) + 1


def test_given_steps_decide_warmup_and_intervals() -> None:
    slow, fast = (default_length(1_000_000, 5_000, s, None, given_steps=300)["training"] for s in (10.0, 0.1))
    assert slow.items() >= {"steps": 300, "warmup": 15, "save_every": 15, "validate_every": 15}.items()
    assert fast["validate_every"] == 75  # there is a minimum time between validations


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("budget", [None, 5.0, 1200.0])
def test_defaults_make_a_valid_recipe(size: int, budget: float | None) -> None:
    raw: dict[str, Any] = {"data": {"train": [{"tsv": "x"}]}}
    shape = default_model(size, None if budget is None else budget / 0.2)
    batch = default_training(20 * size, PRESETS[shape["model"]["preset"]].d_model)
    batch["training"]["budget_seconds"] = budget
    training = Recipe.build(merge(raw, shape, batch, default_length(size, size // 50 + 1, 0.2, budget))).training
    assert training.warmup < training.steps
    assert training.save_every < training.steps
    assert training.save_every % training.validate_every == 0
    assert training.budget_seconds == budget
