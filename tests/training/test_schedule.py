"""Learning rates: the paper's formula (section 5.3), and the newer schedules."""

from itertools import pairwise
from math import cos, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.training.config import TrainingConfig
from regard.training.schedule import constant, cooldown, cosine, halving, learning_rate, noam

STEPS, COOLDOWN_FROM = 1000, 601


def rates(**values: object) -> list[float]:
    """Learning rates of steps 1 … STEPS, for a width of 512."""
    config = TrainingConfig.model_validate({"halve_every": 200, **values})
    return [learning_rate(config, step, STEPS, COOLDOWN_FROM, 512) for step in range(1, STEPS + 1)]


@given(st.integers(1, 1_000_000), st.sampled_from([128, 512, 1024]), st.integers(1, 50_000))
def test_noam_equals_the_formula(step: int, width: int, warmup: int) -> None:
    expected = 1 / width**0.5 * min(1 / step**0.5, step / warmup**1.5)
    assert noam(step, width, warmup) == pytest.approx(expected)
    config = TrainingConfig(warmup=warmup)
    assert learning_rate(config, step, 10**6, 1, width) == pytest.approx(expected)


def test_noam_values_at_the_first_step_the_peak_and_the_end() -> None:
    config = TrainingConfig()
    assert config.warmup == 4000
    assert learning_rate(config, 1, 100_000, 1, 512) == pytest.approx(1.7469e-7, rel=1e-4)
    assert learning_rate(config, 4000, 100_000, 1, 512) == pytest.approx(6.9877e-4, rel=1e-4)
    assert learning_rate(config, 100_000, 100_000, 1, 512) == pytest.approx(1.3975e-4, rel=1e-4)


@pytest.mark.parametrize("schedule", ["noam", "constant", "cosine", "cooldown", "halving"])
def test_warmup_is_linear_for_every_schedule(schedule: str) -> None:
    values = rates(schedule=schedule, warmup=100, rate=0.01)
    assert max(values) == values[99] == pytest.approx(0.01)
    for step in (1, 10, 50, 100):
        assert values[step - 1] == pytest.approx(0.01 * step / 100)
    assert all(value > 0 for value in values[:-1])


@pytest.mark.parametrize("schedule", ["noam", "constant", "cosine", "cooldown", "halving"])
def test_default_peak_is_the_papers(schedule: str) -> None:
    assert max(rates(schedule=schedule, warmup=100)) == pytest.approx(512**-0.5 * 100**-0.5)
    assert max(rates(schedule=schedule, warmup=100, rate=0.5)) == pytest.approx(0.5)


def test_noam_falls_with_the_square_root_of_the_step() -> None:
    values = rates(schedule="noam", warmup=100, rate=0.01)
    assert values[399] == pytest.approx(0.005)
    assert values[899] == pytest.approx(0.01 / 3)


def test_constant_stays_at_its_peak() -> None:
    assert rates(schedule="constant", warmup=100, rate=0.01)[99:] == [0.01] * 901


def test_halving_stays_and_halves_every_so_many_steps() -> None:
    values = rates(schedule="halving", warmup=100, rate=0.01)
    assert values[99:299] == [0.01] * 200  # steps 100 … 299
    assert values[299:499] == [0.005] * 200
    assert values[499:699] == [0.0025] * 200
    assert values[-1] == 0.000625
    assert halving(10**12, 100, 1) == 0


def test_halving_needs_the_number_of_steps() -> None:
    with pytest.raises(ValidationError, match="halve_every"):
        TrainingConfig(schedule="halving")
    with pytest.raises(ValidationError, match="halve_every"):
        TrainingConfig(schedule="halving", halve_every=0)


def test_cosine_falls_to_zero_along_half_a_cosine() -> None:
    values = rates(schedule="cosine", warmup=100, rate=1.0)
    for step in (100, 325, 550, 775, 1000):
        assert values[step - 1] == pytest.approx(0.5 * (1 + cos(pi * (step - 100) / 900)), abs=1e-12)
    assert values[549] == pytest.approx(0.5)
    assert values[-1] == pytest.approx(0, abs=1e-12)


def test_cooldown_stays_then_falls_linearly_to_zero_after_the_last_step() -> None:
    values = rates(schedule="cooldown", warmup=100, rate=1.0)
    assert values[99:COOLDOWN_FROM] == [1.0] * 502  # steps 100 … 601
    assert values[800] == pytest.approx(0.5)
    assert values[-1] == pytest.approx(1 / 400)
    falls = [a - b for a, b in pairwise(values[COOLDOWN_FROM - 1 :])]
    assert falls == pytest.approx([1 / 400] * 399)


def test_rate_after_the_last_step_is_not_negative() -> None:
    assert cooldown(1200, 100, 1000, 601) == 0
    assert cosine(1200, 100, 1000) == 0
    assert constant(1200, 100) == 1


def test_budget_without_cooldown_and_unknown_keys_are_rejected() -> None:
    with pytest.raises(ValidationError, match="cooldown"):
        TrainingConfig(budget_seconds=60.0)
    with pytest.raises(ValidationError, match="warm_up"):
        TrainingConfig(warm_up=4000)  # type: ignore[call-arg]


def test_defaults_are_the_papers() -> None:
    config = TrainingConfig()
    assert (config.steps, config.max_tokens, config.accumulate) == (100_000, 25_000, 1)
    assert (config.beta1, config.beta2, config.epsilon) == (0.9, 0.98, 1e-9)
    assert (config.schedule, config.rate, config.smoothing) == ("noam", None, 0.1)
    assert (config.average, config.average_of, config.clip, config.r_drop, config.ema) == (5, "last", None, 0.0, None)
