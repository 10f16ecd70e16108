"""What is chosen for a person: never less model, text or time for more of them; always a valid recipe."""

from itertools import pairwise
from typing import Any

import pytest

from regard.models import PRESETS
from regard.run import Recipe, merge
from regard.run.defaults import by_the_clock, choose_batch, choose_length, choose_rhythm, choose_shape

SIZES = [2, 50, 3_000, 29_000, 99_999, 100_000, 900_000, 5_000_000, 40_000_000]
ORDER = list(PRESETS)


def test_more_text_never_gets_a_smaller_model() -> None:
    for n_tiny_steps in (None, 0.0, 3000.0, 1e6):
        chosen = [ORDER.index(choose_shape(size, n_tiny_steps)["model"]["preset"]) for size in SIZES]
        assert chosen == sorted(chosen)
    assert choose_shape(2, None)["model"]["preset"] == "tiny"
    assert choose_shape(5_000_000, None)["model"]["preset"] == "base"


def test_more_time_never_gets_a_smaller_model() -> None:
    for size in SIZES:
        chosen = [ORDER.index(choose_shape(size, steps)["model"]["preset"]) for steps in (0.0, 100.0, 1e4, 1e6)]
        assert chosen == sorted(chosen)


def test_batches_grow_with_the_text_within_bounds() -> None:
    chosen = [choose_batch(30 * size, 128, None)["training"]["max_tokens"] for size in SIZES]
    assert chosen == sorted(chosen)
    assert (chosen[0], chosen[-1]) == (256, 2048)


def test_a_wider_model_gets_a_lower_rate() -> None:
    rates = [choose_batch(10**6, width, None)["training"]["rate"] for width in (128, 256, 512, 1024)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(0.005)


def test_the_time_that_is_left_decides_the_steps() -> None:
    assert choose_length(10_000, 50, 0.1, left_seconds=60.0)["training"]["steps"] == 600
    steps = [choose_length(10_000, 50, 0.1, left)["training"]["steps"] for left in (-5.0, 1.0, 10.0, 1e3, 1e9)]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (20, 10**10)


def test_a_text_that_is_read_more_often_gets_more_dropout() -> None:
    found = [
        choose_length(10_000, 100, 0.1, left)["model"]["dropout"] for left in (20.0, 40.0, 80.0, 160.0, 800.0, 1e4)
    ]
    assert found == [0.0, 0.04, 0.1, 0.16, 0.3, 0.3]


def test_a_text_that_is_read_less_often_keeps_a_high_rate_for_longer() -> None:
    found = [choose_length(10_000, 100, 0.1, left)["training"]["cooldown"] for left in (20.0, 120.0, 130.0, 1e4)]
    assert found == [0.3, 0.3, 0.6, 0.6]


def test_a_budget_comes_before_the_steps_of_a_recipe() -> None:
    timed = {"budget_seconds": 60.0, "steps": 9000, "warmup": 400, "save_every": 500, "rate": 0.1}
    stays = {"training": {"budget_seconds": 60.0, "rate": 0.1}, "seed": 1}
    assert by_the_clock({"training": timed, "seed": 1}) == (stays, ["steps", "warmup", "save_every"])
    own_warmup = {"training": {"budget_seconds": 60.0, "warmup": 7}}
    for left_alone in ({"training": {"steps": 9000}}, {}, {"training": 3}, own_warmup):
        assert by_the_clock(left_alone) == (left_alone, [])


def test_the_best_checkpoints_are_saved_as_often_as_they_are_validated() -> None:
    for name in ("save_every", "validate_every"):
        asked = {"training": {"average_of": "best", name: 200}}
        assert choose_rhythm(asked) == {"training": {"save_every": 200, "validate_every": 200}}
    both = {"average_of": "best", "save_every": 400, "validate_every": 200}
    for left_alone in (both, {"average_of": "best"}, {"validate_every": 200}, {}):
        assert choose_rhythm({"training": left_alone}) == {}


def test_without_a_budget_more_text_gets_more_steps_but_fewer_passes() -> None:
    steps = [choose_length(n, n // 50 + 1, 0.1, None)["training"]["steps"] for n in SIZES]
    assert steps == sorted(steps)
    for (n, one), (more, two) in pairwise(zip(SIZES, steps, strict=True)):
        if n >= 3_000 and two < 100_000:
            assert two / (more // 50 + 1) <= one / (n // 50 + 1) + 1


def test_steps_that_were_asked_for_decide_warm_up_and_saves() -> None:
    slow, quick = (choose_length(1_000_000, 5_000, s, None, asked_steps=300)["training"] for s in (10.0, 0.1))
    assert slow.items() >= {"steps": 300, "warmup": 15, "save_every": 15, "validate_every": 15}.items()
    assert quick["validate_every"] == 75  # seconds, not only steps, part two validations


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("budget", [None, 5.0, 1200.0])
def test_whatever_is_chosen_is_a_valid_recipe(size: int, budget: float | None) -> None:
    raw: dict[str, Any] = {"data": {"train": [{"tsv": "x"}]}}
    shape = choose_shape(size, None if budget is None else budget / 0.2)
    batch = choose_batch(20 * size, PRESETS[shape["model"]["preset"]].d_model, budget)
    training = Recipe.build(merge(raw, shape, batch, choose_length(size, size // 50 + 1, 0.2, budget))).training
    assert training.warmup < training.steps
    assert training.save_every < training.steps
    assert training.save_every % training.validate_every == 0
    assert training.budget_seconds == budget
