"""A budget sets the last step from the speed so far, when the learning rate begins to fall."""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from regard.errors import RunError, TrainingStopped
from regard.training import Progress, Stop, Training, TrainingConfig, fit, loop
from regard.training.budget import MIN_STEPS_TO_MEASURE, RESERVED_SECONDS, VALIDATIONS_AT_END, fit_to_budget

Maker = Callable[..., Training]


class Clock:
    """A fake clock: a step takes `seconds_per_step`."""

    def __init__(self) -> None:
        self.now, self.seconds_per_step = 1000.0, 1.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loop, "perf_counter", clock)

    def train_step(*_: Any) -> dict[str, Any]:
        clock.now += clock.seconds_per_step
        return {"loss": 1.0, "nll": 1.0}

    monkeypatch.setattr(loop, "train_step", train_step)
    return clock


def train(training: Training, spent_seconds: float = 0.0, stop_at: int | None = None) -> tuple[Progress, list[Any]]:
    seen, stop = [], Stop()

    def on_event(event: str, **fields: Any) -> None:
        seen.append((event, fields))
        if event == "step" and fields["step"] == stop_at:
            stop.signal_number = 15

    return fit(training, on_event, stop, spent_seconds), seen


def budgeted(make_training: Maker, steps: int, seconds: float, **more: Any) -> Training:
    values = {"schedule": "cooldown", "cooldown": 0.5, "save_every": 1000, "validate_every": 1000} | more
    return make_training("a", steps=steps, budget_seconds=seconds, **values)


@pytest.mark.parametrize("seconds_per_step", [0.5, 1.0, 3.0])
def test_run_ends_within_its_budget_at_any_speed(make_training: Maker, clock: Clock, seconds_per_step: float) -> None:
    clock.seconds_per_step = seconds_per_step
    progress, seen = train(budgeted(make_training, steps=100, seconds=100), spent_seconds=10)
    used = 10 + progress.step * seconds_per_step
    assert 100 - RESERVED_SECONDS - seconds_per_step <= used <= 100
    refits = [fields for event, fields in seen if event == "refit"]
    assert (refits[0]["was"], refits[-1]["steps"]) == (100, progress.steps)
    assert "warning" not in dict(seen)


def test_faster_machine_begins_the_cooldown_later(make_training: Maker, clock: Clock) -> None:
    """Planned for 100 steps; 380 fit, and the cooldown is still half of them."""
    clock.seconds_per_step = 0.25
    progress, seen = train(budgeted(make_training, steps=100, seconds=100))
    assert progress.step == pytest.approx(380, abs=2)
    rates = [fields["rate"] for event, fields in seen if event == "step"]
    assert rates[180] == 0.01  # after the warm-up
    assert rates[200] < 0.0099
    assert rates[-1] == pytest.approx(0.01 / 190, rel=0.05)
    assert [fields["was"] for event, fields in seen if event == "refit"] == [100]


def test_learning_rate_falls_to_zero_at_the_new_end(make_training: Maker, clock: Clock) -> None:
    clock.seconds_per_step = 3.0
    progress, seen = train(budgeted(make_training, steps=1000, seconds=100))
    rates = [fields["rate"] for event, fields in seen if event == "step"]
    cooldown_from = int(progress.cooldown_from)
    assert rates[cooldown_from - 1] == 0.01
    assert rates[-1] == pytest.approx(0.01 / (progress.steps - cooldown_from + 1))
    assert rates[cooldown_from:] == sorted(rates[cooldown_from:], reverse=True)


def test_run_that_slows_down_in_the_cooldown_stops_soon_after_the_budget(make_training: Maker, clock: Clock) -> None:
    training = budgeted(make_training, steps=100, seconds=100)

    def slower(event: str, **fields: Any) -> None:
        seen.append(event)
        clock.seconds_per_step = 5.0 if fields.get("step", 0) > 60 else 1.0

    seen: list[str] = []
    fit(training, slower, Stop())
    assert 1100 < clock.now <= 1000 + 100 * 1.05 + 5
    assert seen.count("warning") == 1


def test_resumed_run_counts_earlier_seconds(make_training: Maker, clock: Clock) -> None:
    with pytest.raises(TrainingStopped):
        train(budgeted(make_training, steps=100, seconds=100), stop_at=30)
    clock.now += 5000  # time between the two processes does not count
    progress, _ = train(budgeted(make_training, steps=100, seconds=100), spent_seconds=7)
    assert progress.step == pytest.approx(100 - RESERVED_SECONDS, abs=1)


def test_without_budget_time_has_no_effect(make_training: Maker, clock: Clock) -> None:
    clock.seconds_per_step = 1e6
    assert train(make_training("a", schedule="cooldown"))[0].step == 20


def test_long_preparation_and_slow_first_step_do_not_shorten_the_run(make_training: Maker, clock: Clock) -> None:
    """Preparation takes 60 of 100 seconds, and the first step ten times as long as the others."""

    def on_event(event: str, **fields: Any) -> None:
        seen.append((event, fields))
        clock.seconds_per_step = 0.25 if fields.get("step", 0) >= 1 else 2.5

    seen: list[Any] = []
    clock.seconds_per_step = 2.5
    progress = fit(budgeted(make_training, steps=140, seconds=100), on_event, Stop(), 60.0)
    assert 100 - RESERVED_SECONDS - 5 <= clock.now - 1000 + 60 <= 100
    refit = next(fields for event, fields in seen if event == "refit")
    assert refit["step"] == 62  # half of the 35 seconds, at the peak learning rate until then
    assert progress.steps > 120


def test_run_resumed_before_the_cooldown_uses_the_earlier_speed(make_training: Maker, clock: Clock) -> None:
    with pytest.raises(TrainingStopped):
        train(budgeted(make_training, steps=100, seconds=100), stop_at=48)
    clock.seconds_per_step = 6.0  # the first steps of a new process

    def on_event(event: str, **fields: Any) -> None:
        seen.append((event, fields))
        clock.seconds_per_step = 1.0 if fields.get("step", 0) >= 50 else 6.0

    seen: list[Any] = []
    progress = fit(budgeted(make_training, steps=100, seconds=100), on_event, Stop())
    assert progress.step >= 75  # from the two slow steps alone it would be 55
    assert "warning" not in dict(seen)


def test_cooldown_from_the_first_step_is_fitted_after_a_few_steps(make_training: Maker, clock: Clock) -> None:
    _, seen = train(budgeted(make_training, steps=100, seconds=100, cooldown=1.0))
    [refit] = [fields for event, fields in seen if event == "refit"]
    assert refit["step"] == MIN_STEPS_TO_MEASURE


def test_machine_that_slows_down_in_the_cooldown_ends_in_time_at_a_low_rate(make_training: Maker, clock: Clock) -> None:
    def slower(event: str, **fields: Any) -> None:
        seen.append((event, fields))
        clock.seconds_per_step = 0.4 if fields.get("step", 0) > 250 else 0.2

    seen: list[Any] = []
    clock.seconds_per_step = 0.2
    fit(budgeted(make_training, steps=475, seconds=100), slower, Stop())
    assert 1100 - RESERVED_SECONDS - 3 <= clock.now <= 1101
    rates = [fields["rate"] for event, fields in seen if event == "step"]
    assert rates[-1] < 0.0005  # of 0.01
    assert max(before - after for before, after in pairwise(rates[250:])) < 0.0005  # without a jump
    assert rates[250:] == sorted(rates[250:], reverse=True)
    assert "warning" not in dict(seen)


def test_time_is_reserved_for_the_validations_at_the_end(
    make_training: Maker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*args: Any, of: Any = loop.validate_training, **more: Any) -> Any:
        clock.now += 3.0
        return of(*args, **more)

    monkeypatch.setattr(loop, "validate_training", slowly)
    _, seen = train(budgeted(make_training, steps=100, seconds=100, validate_every=20))
    rates = [fields["rate"] for event, fields in seen if event == "step"]
    n_falling = sum(rate < max(rates) for rate in rates[rates.index(max(rates)) :])
    assert n_falling == pytest.approx(0.5 * len(rates), rel=0.1)  # the cooldown is as long as without them
    still_to_come = 3.0 * (VALIDATIONS_AT_END - 1)  # without the one in the loop
    assert 100 - RESERVED_SECONDS - still_to_come - 5 <= clock.now - 1000 <= 100 - still_to_come


def test_one_slow_validation_does_not_shorten_the_training(
    make_training: Maker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first validation is slow: the model has not learned to end a sentence, and translates up to the maximum."""

    def slow_at_first(*args: Any, of: Any = loop.validate_training, **more: Any) -> Any:
        clock.now += 20.0 if clock.now < 1040 else 1.0
        return of(*args, **more)

    monkeypatch.setattr(loop, "validate_training", slow_at_first)
    progress, _ = train(budgeted(make_training, steps=100, seconds=100, validate_every=20))
    assert progress.step >= 50  # of the 75 or so that fit
    assert 70 <= clock.now - 1000 <= 100


def test_budget_functions_are_pure() -> None:
    config = TrainingConfig(schedule="cooldown", cooldown=0.5, steps=100, budget_seconds=100.0)
    progress = Progress(step=50, steps=100, cooldown_from=50, refit_at=50)
    changed, event = fit_to_budget(config, progress, elapsed_seconds=25.0)
    assert event == {"event": "refit", "step": 50, "steps": 190, "was": 100}
    assert (changed.steps, changed.cooldown_from, changed.refit_at) == (190, 95, 95)
    assert fit_to_budget(config, progress, elapsed_seconds=25.0) == (changed, event)
    assert fit_to_budget(config.model_copy(update={"budget_seconds": None}), progress, 25.0) == (progress, None)


def saving(make_training: Maker, seconds: float) -> Training:
    return budgeted(make_training, steps=100, seconds=seconds, save_every=10, validate_every=10)


def rates_of(seen: list[Any]) -> dict[int, float]:
    return {fields["step"]: fields["rate"] for event, fields in seen if event == "step"}


@pytest.mark.parametrize("stop_at", [None, 80])
def test_more_time_goes_on_from_before_the_rate_fell_and_counts_all_time(
    make_training: Maker, clock: Clock, stop_at: int | None
) -> None:
    """100 s of 1 s steps: the rate falls after step 48. With 200 s, the run goes back to it."""
    started_at = clock.now
    with suppress(TrainingStopped):
        train(saving(make_training, 100), stop_at=stop_at)
    used = clock.now - started_at
    extended = saving(make_training, 200)
    progress, seen = train(extended)
    [event] = [fields for event, fields in seen if event == "extended"]
    assert event["step"] == 48 and event["reached"] == (stop_at or round(used))
    rates = rates_of(seen)
    assert min(rates) == 49 and rates[49] == rates[60] == 0.01
    assert 200 - RESERVED_SECONDS - 4 <= clock.now - started_at <= 200
    assert rates[progress.steps] == pytest.approx(min(rates.values())) and min(rates.values()) < 0.001
    assert progress.budget_seconds == 200 and extended.checkpoints.steps()[-1] == progress.step
    again, seen = train(saving(make_training, 200))
    assert again.step == progress.step and rates_of(seen) == {}


def test_more_time_before_the_rate_falls_gives_up_nothing(make_training: Maker, clock: Clock) -> None:
    with pytest.raises(TrainingStopped):
        train(saving(make_training, 100), stop_at=25)
    progress, seen = train(saving(make_training, 200))
    rates = rates_of(seen)
    assert min(rates) == 26 and progress.step == pytest.approx(195, abs=3)
    assert rates[26] == rates[90] == 0.01


def test_extended_run_keeps_its_time_if_it_is_resumed_without_saying_so(make_training: Maker, clock: Clock) -> None:
    train(saving(make_training, 100))
    with pytest.raises(TrainingStopped):
        train(saving(make_training, 200), stop_at=60)
    progress, _ = train(saving(make_training, 100))
    assert progress.budget_seconds == 200 and progress.step > 100


def test_checkpoint_is_saved_when_the_cooldown_begins_whatever_the_interval(make_training: Maker, clock: Clock) -> None:
    training = budgeted(make_training, steps=100, seconds=100, save_every=1000, average=3)
    progress, _ = train(training)
    assert training.checkpoints.steps() == [round(progress.cooldown_from), progress.step]
    assert [checkpoint.step for checkpoint in training.checkpoints.last(3)] == [progress.step]  # not for averages
    _, seen = train(budgeted(make_training, steps=100, seconds=200, save_every=1000, average=3))
    assert min(rates_of(seen)) == progress.cooldown_from + 1


def test_run_without_a_checkpoint_from_before_the_cooldown_says_so(make_training: Maker, clock: Clock) -> None:
    """As one that was begun by an older version."""
    older = budgeted(make_training, steps=100, seconds=100)
    older.checkpoints.pins = False
    train(older)
    with pytest.raises(RunError, match="cannot be given more time"):
        train(saving(make_training, 200))
    progress, _ = train(saving(make_training, 100))  # nothing was removed
    assert progress.finished


def test_pinned_checkpoint_is_kept_and_averages_stay_the_same(make_training: Maker, clock: Clock) -> None:
    training = budgeted(make_training, steps=100, seconds=100, save_every=10, validate_every=10, average=3)
    train(training)
    steps = training.checkpoints.steps()
    assert 48 in steps and 40 not in steps
    assert [checkpoint.step for checkpoint in training.checkpoints.last(3)] == steps[-3:]
