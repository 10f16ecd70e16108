"""A budget: the last step is settled when the rate begins to fall, by the clock."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from regard.errors import TrainingStopped
from regard.training import Progress, Stop, Training, fit, loop
from regard.training.loop import BUDGET_RESERVE_SECONDS, ENOUGH_STEPS, VALIDATIONS_AT_THE_END

Maker = Callable[..., Training]


class Clock:
    """A second passes with every step, or more when told."""

    def __init__(self) -> None:
        self.now, self.seconds_a_step = 1000.0, 1.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loop, "perf_counter", clock)

    def take_step(*_: Any) -> dict[str, Any]:
        clock.now += clock.seconds_a_step
        return {"loss": 1.0, "nll": 1.0}

    monkeypatch.setattr(loop, "take_step", take_step)
    return clock


def train(training: Training, spent_seconds: float = 0.0, stop_at: int | None = None) -> tuple[Progress, list[Any]]:
    seen, stop = [], Stop()

    def report(event: str, **fields: Any) -> None:
        seen.append((event, fields))
        if event == "step" and fields["step"] == stop_at:
            stop.signal_number = 15

    return fit(training, report, stop, spent_seconds), seen


def budgeted(make_training: Maker, steps: int, seconds: float, **more: Any) -> Training:
    values = {"schedule": "cooldown", "cooldown": 0.5, "save_every": 1000, "validate_every": 1000} | more
    return make_training("a", steps=steps, budget_seconds=seconds, **values)


@pytest.mark.parametrize("seconds_a_step", [0.5, 1.0, 3.0])
def test_a_run_ends_with_its_budget_whatever_a_step_takes(
    make_training: Maker, clock: Clock, seconds_a_step: float
) -> None:
    clock.seconds_a_step = seconds_a_step
    progress, seen = train(budgeted(make_training, steps=100, seconds=100), spent_seconds=10)
    used = 10 + progress.step * seconds_a_step
    assert 100 - BUDGET_RESERVE_SECONDS - seconds_a_step <= used <= 100
    refits = [fields for event, fields in seen if event == "refit"]
    assert (refits[0]["was"], refits[-1]["steps"]) == (100, progress.steps)
    assert not [one for one in seen if one[0] == "warning"]


def test_a_machine_that_is_quicker_than_thought_lets_the_rate_fall_later(make_training: Maker, clock: Clock) -> None:
    """Planned for 100 steps; 380 fit, and the rate is to fall over half of them all the same."""
    clock.seconds_a_step = 0.25
    progress, seen = train(budgeted(make_training, steps=100, seconds=100))
    assert progress.step == pytest.approx(380, abs=2)
    rates = [fields["rate"] for event, fields in seen if event == "step"]
    assert rates[180] == 0.01  # the warm-up is long over
    assert rates[200] < 0.0099
    assert rates[-1] == pytest.approx(0.01 / 190, rel=0.05)
    assert [fields["was"] for event, fields in seen if event == "refit"] == [100]


def test_the_rate_falls_to_nothing_at_the_new_end(make_training: Maker, clock: Clock) -> None:
    clock.seconds_a_step = 3.0
    progress, seen = train(budgeted(make_training, steps=1000, seconds=100))
    rates = [fields["rate"] for event, fields in seen if event == "step"]
    falls_from = int(progress.cooldown_from)
    assert rates[falls_from - 1] == 0.01
    assert rates[-1] == pytest.approx(0.01 / (progress.steps - falls_from + 1))
    assert rates[falls_from:] == sorted(rates[falls_from:], reverse=True)


def test_steps_that_become_slow_in_the_fall_end_the_run_soon_after_the_budget(
    make_training: Maker, clock: Clock
) -> None:
    training = budgeted(make_training, steps=100, seconds=100)

    def slower(event: str, **fields: Any) -> None:
        seen.append(event)
        clock.seconds_a_step = 5.0 if fields.get("step", 0) > 60 else 1.0

    seen: list[str] = []
    fit(training, slower, Stop())
    assert 1100 < clock.now <= 1000 + 100 * 1.05 + 5
    assert seen.count("warning") == 1


def test_a_resumed_run_counts_the_seconds_of_before(make_training: Maker, clock: Clock) -> None:
    with pytest.raises(TrainingStopped):
        train(budgeted(make_training, steps=100, seconds=100), stop_at=30)
    clock.now += 5000  # the night between
    progress, _ = train(budgeted(make_training, steps=100, seconds=100), spent_seconds=7)
    assert progress.step == pytest.approx(100 - BUDGET_RESERVE_SECONDS, abs=1)


def test_without_a_budget_the_clock_changes_nothing(make_training: Maker, clock: Clock) -> None:
    clock.seconds_a_step = 1e6
    assert train(make_training("a", schedule="cooldown"))[0].step == 20


def test_a_long_preparation_and_a_slow_first_step_do_not_settle_the_length(make_training: Maker, clock: Clock) -> None:
    """60 of 100 seconds are gone, the first step takes ten times as long as the others."""

    def report(event: str, **fields: Any) -> None:
        seen.append((event, fields))
        clock.seconds_a_step = 0.25 if fields.get("step", 0) >= 1 else 2.5

    seen: list[Any] = []
    clock.seconds_a_step = 2.5
    progress = fit(budgeted(make_training, steps=140, seconds=100), report, Stop(), 60.0)
    assert 100 - BUDGET_RESERVE_SECONDS - 5 <= clock.now - 1000 + 60 <= 100
    refit = next(fields for event, fields in seen if event == "refit")
    assert refit["step"] == 62  # half of the 35 seconds: the rate has stayed high until then
    assert progress.steps > 120


def test_a_run_that_goes_on_just_before_the_fall_remembers_how_long_steps_took(
    make_training: Maker, clock: Clock
) -> None:
    with pytest.raises(TrainingStopped):
        train(budgeted(make_training, steps=100, seconds=100), stop_at=48)
    clock.seconds_a_step = 6.0  # the first steps of a new process

    def report(event: str, **fields: Any) -> None:
        seen.append((event, fields))
        clock.seconds_a_step = 1.0 if fields.get("step", 0) >= 50 else 6.0

    seen: list[Any] = []
    progress = fit(budgeted(make_training, steps=100, seconds=100), report, Stop())
    assert progress.step >= 75  # by these two alone it would have been 55
    assert not [one for one in seen if one[0] == "warning"]


def test_a_fall_from_the_first_step_on_is_not_fitted_to_that_step(make_training: Maker, clock: Clock) -> None:
    _, seen = train(budgeted(make_training, steps=100, seconds=100, cooldown=1.0))
    [(_, refit)] = [one for one in seen if one[0] == "refit"]
    assert refit["step"] == ENOUGH_STEPS


def test_a_machine_that_becomes_slow_in_the_fall_still_ends_in_time_and_at_a_low_rate(
    make_training: Maker, clock: Clock
) -> None:
    def slower(event: str, **fields: Any) -> None:
        seen.append((event, fields))
        clock.seconds_a_step = 0.4 if fields.get("step", 0) > 250 else 0.2

    seen: list[Any] = []
    clock.seconds_a_step = 0.2
    fit(budgeted(make_training, steps=475, seconds=100), slower, Stop())
    assert 1100 - BUDGET_RESERVE_SECONDS - 3 <= clock.now <= 1101
    rates = [fields["rate"] for event, fields in seen if event == "step"]
    assert rates[-1] < 0.0005  # of 0.01
    assert max(before - after for before, after in pairwise(rates[250:])) < 0.0005  # no jump down
    assert rates[250:] == sorted(rates[250:], reverse=True)
    assert not [one for one in seen if one[0] == "warning"]


def test_time_is_kept_for_the_validations_at_the_end(
    make_training: Maker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*args: Any, of: Any = loop.validate_all, **more: Any) -> Any:
        clock.now += 3.0
        return of(*args, **more)

    monkeypatch.setattr(loop, "validate_all", slowly)
    _, seen = train(budgeted(make_training, steps=100, seconds=100, validate_every=20))
    rates = [fields["rate"] for event, fields in seen if event == "step"]
    n_falling = sum(rate < max(rates) for rate in rates[rates.index(max(rates)) :])
    assert n_falling == pytest.approx(0.5 * len(rates), rel=0.1)  # as long a fall as without them
    still_to_come = 3.0 * (VALIDATIONS_AT_THE_END - 1)  # the loop's own is done
    assert 100 - BUDGET_RESERVE_SECONDS - still_to_come - 5 <= clock.now - 1000 <= 100 - still_to_come


def test_one_slow_validation_does_not_take_the_time_from_the_training(
    make_training: Maker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of a new model: it has not learned to end a sentence, and translates to the last symbol allowed."""

    def slow_at_first(*args: Any, of: Any = loop.validate_all, **more: Any) -> Any:
        clock.now += 20.0 if clock.now < 1040 else 1.0
        return of(*args, **more)

    monkeypatch.setattr(loop, "validate_all", slow_at_first)
    progress, _ = train(budgeted(make_training, steps=100, seconds=100, validate_every=20))
    assert progress.step >= 50  # of the 75 or so that fit
    assert 70 <= clock.now - 1000 <= 100
