"""The loop: interrupted runs are bit-identical to uninterrupted ones, and failed steps change nothing."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.data import NO_TARGET, Batch, Cursor
from regard.errors import RunError, TrainingStopped
from regard.models import named_weights
from regard.training import Stop, Training, Validation, average, fit
from regard.training.gradients.one_process import BatchLoss, OneProcess
from regard.training.loop import measure_seconds_per_step, train_step, validate_training
from regard.training.objectives import TermSums, term_sums
from regard.training.schedule import noam

Maker = Callable[..., Training]
EVERYTHING: dict[str, Any] = {
    "dropout": 0.2, "sampling": True, "steps": 24, "accumulate": 2, "ema": 0.9, "clip": 1.0, "average": 3,
}  # fmt: skip


class Events:
    """Records the events of the loop; can stop it at a step."""

    def __init__(self, stop: Stop | None = None, at: int | None = None) -> None:
        self.seen: list[dict[str, Any]] = []
        self._stop, self._at = stop, at

    def __call__(self, event: str, **fields: Any) -> None:
        self.seen.append({"event": event, **fields})
        if event == "step" and self._stop is not None and fields["step"] == self._at:
            self._stop.signal_number = 15

    def of(self, event: str) -> list[dict[str, Any]]:
        return [fields for fields in self.seen if fields["event"] == event]


def run(training: Training) -> Events:
    events = Events()
    fit(training, events, Stop())
    return events


def run_until(training: Training, step: int) -> Events:
    stop = Stop()
    events = Events(stop, step)
    with pytest.raises(TrainingStopped) as stopped:
        fit(training, events, stop)
    assert (stopped.value.step, stopped.value.signal_number) == (step, 15)
    return events


def full_state(training: Training) -> dict[str, Tensor]:
    """The weights, the optimizer state, the moving average, and the average of the checkpoints."""
    state = {f"weights/{name}": tensor.clone() for name, tensor in named_weights(training.model).items()}
    newest = training.checkpoints.open(training.checkpoints.steps()[-1])
    state |= {f"optimizer/{name}": tensor for name, tensor in newest.tensors("optimizer").items()}
    if training.ema is not None:
        state |= {f"ema/{name}": tensor for name, tensor in training.ema.tensors().items()}
    checkpoints = training.checkpoints.last(training.config.average)
    averaged = average(checkpoint.tensors("model") for checkpoint in checkpoints)
    return state | {f"average/{name}": tensor for name, tensor in averaged.items()}


def assert_bit_equal(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    assert [name for name in actual if not torch.equal(actual[name], expected[name])] == []


def first_update(training: Training) -> list[Batch]:
    return next(training.loader.updates(Cursor()))[0]


@pytest.mark.parametrize(
    ("optimizer", "two_processes"), [("adam", False), ("muon", False), ("sgd", False), ("adam", True)]
)
@pytest.mark.parametrize("stops", [(5,), (3, 7, 8, 21), (1, 2, 23)])
def test_an_interrupted_run_is_bit_equal_to_an_uninterrupted_one(
    make_training: Maker, stops: tuple[int, ...], optimizer: str, two_processes: bool
) -> None:
    values = {"optimizer": optimizer, "two_processes": two_processes} | EVERYTHING
    whole = make_training("whole", **values)
    uninterrupted = run(whole)
    for step in stops:
        run_until(make_training("parts", **values), step)
    parts = make_training("parts", **values)
    events = run(parts)
    assert events.of("resume")[0]["step"] == stops[-1]
    assert_bit_equal(full_state(parts), full_state(whole))
    assert any("momentum/" in name for name in full_state(parts)) == (optimizer == "muon")
    assert parts.checkpoints.steps() == whole.checkpoints.steps()
    assert events.of("validation")[-1] == uninterrupted.of("validation")[-1]


def test_weights_depend_on_the_seed_only(make_training: Maker) -> None:
    first, same, different = (
        make_training(name, seed=seed, **EVERYTHING) for name, seed in [("a", 1), ("b", 1), ("c", 2)]
    )
    for training in (first, same, different):
        run(training)
    assert_bit_equal(full_state(first), full_state(same))
    assert not torch.equal(first.model.output_weight, different.model.output_weight)


def test_dropout_differs_from_step_to_step(make_training: Maker) -> None:
    training = make_training("a", dropout=0.5)
    [batch] = first_update(training)
    updates = [[replace(batch, place=replace(batch.place, step=step))] for step in (1, 2, 1)]
    losses = [train_step(training, update, 1)["loss"] for update in updates]  # the learning rate is still 0
    assert losses[0] != losses[1]
    assert losses[0] == losses[2]


def test_accumulated_batches_equal_one_large_batch(make_training: Maker) -> None:
    """The parts are unequal, so a mean of their means would be wrong."""
    in_one, in_two = (with_plain_descent(make_training(name)) for name in ("one", "two"))
    [whole] = first_update(in_one)
    parts = [rows_of(whole, slice(0, 3)), rows_of(whole, slice(3, None))]
    assert 2 * parts[0].n_targets[0] < parts[1].n_targets[0]
    losses = [train_step(training, update, 1)["loss"] for training, update in ((in_one, [whole]), (in_two, parts))]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, tensor in named_weights(in_one.model).items():
        assert torch.allclose(tensor, named_weights(in_two.model)[name], atol=1e-6), name


def test_clipping_limits_the_size_of_a_step(make_training: Maker) -> None:
    moved = {}
    for clip in (None, 0.01):
        training = with_plain_descent(make_training(f"clip-{clip}", clip=clip))
        before = all_weights(training)
        norm = train_step(training, first_update(training), 1)["norm"]
        moved[clip] = float((all_weights(training) - before).norm())
        assert norm > 0.1  # the reported norm is before clipping
    assert moved[0.01] == pytest.approx(0.01, rel=1e-3)
    assert moved[None] > 0.1


@pytest.mark.parametrize("schedule", ["noam", "constant", "cosine", "cooldown"])
def test_every_step_uses_the_reported_learning_rate(make_training: Maker, schedule: str) -> None:
    training = make_training("a", schedule=schedule, rate=None, steps=8)
    used: list[float] = []
    training.optimizer.register_step_pre_hook(lambda optimizer, *_: used.append(optimizer.param_groups[0]["lr"]))
    events = run(training)
    assert used == [event["rate"] for event in events.of("step")]
    assert used[0] == pytest.approx(noam(1, 16, 4))  # the warm-up is the same for all of them
    if schedule == "noam":
        assert used == pytest.approx([noam(step, 16, 4) for step in range(1, 9)])


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_nan_loss_or_gradient_changes_nothing_and_names_the_examples(
    make_training: Maker, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    healthy = make_training("a", steps=7, save_every=7, validate_every=7)
    run(healthy)
    failing = make_training("b")
    monkeypatch.setattr("regard.training.gradients.one_process.term_sums", _failing(at_call=8, what=what))
    with pytest.raises(RunError, match=r"step 8: the (loss is nan|gradient norm is (nan|inf))") as raised:
        fit(failing, Events(), Stop())
    assert re.search(r"for a batch of \d+ examples \(numbers \d", str(raised.value))
    assert raised.value.hint.endswith("train in another directory; the last checkpoint is good")
    assert failing.checkpoints.steps() == [5]
    failing.checkpoints.open(5)
    for name, tensor in named_weights(healthy.model).items():  # as it was after step 7
        assert torch.equal(tensor, named_weights(failing.model)[name]), name


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_infinite_weights_are_never_saved(make_training: Maker, optimizer: str) -> None:
    training = make_training("a", optimizer=optimizer, rate=1e60, warmup=1, schedule="constant", save_every=1)
    with pytest.raises(
        RunError, match=r"step 1: '.*' has NaN or infinite values; this step was not saved; hint: lower"
    ) as raised:
        fit(training, Events(), Stop())
    assert training.checkpoints.steps() == [] and "checkpoint is good" not in str(raised.value)


def test_nan_validation_loss_raises_run_error(make_training: Maker) -> None:
    """Weights can be so large, and finite, that only the next forward pass overflows."""
    training = make_training("a", rate=1e30, warmup=1, schedule="constant", save_every=1, validate_every=1)
    with pytest.raises(RunError, match=r"step 1: the validation loss is (nan|inf); hint: lower training.rate"):
        fit(training, Events(), Stop())
    assert training.checkpoints.steps() == []


def _failing(at_call: int, what: str) -> Callable[..., list[TermSums]]:
    calls = iter(range(1, 1000))

    def objective(*arguments: Any) -> list[TermSums]:
        [sums] = term_sums(*arguments)
        if next(calls) != at_call:
            return [sums]
        if what == "gradient":  # the loss itself is still finite
            sums.loss.register_hook(lambda gradient: gradient * math.nan)
            return [sums]
        return [sums._replace(loss=sums.loss * math.nan)]

    return objective


def test_training_stops_early_when_validation_no_longer_improves(make_training: Maker) -> None:
    training = make_training("a", steps=60, patience=2, rate=1e-12, warmup=1, save_every=60, validate_every=3)
    calls = iter([3.0, 2.0, 2.5, 2.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.training.loop.validate_training", lambda *_, **__: _validation(next(calls)))
        progress = fit(training, Events(), Stop())
    assert (progress.step, progress.stopped_early, progress.best_score) == (12, True, 2.0)
    assert training.checkpoints.steps() == [12]  # saved although it is not on the schedule
    again = fit(make_training("a", steps=60, patience=2, rate=1e-12, warmup=1, save_every=60), Events(), Stop())
    assert again.step == 12  # it stays finished


def test_validation_also_runs_at_the_steps_that_are_listed(make_training: Maker) -> None:
    events = Events()
    fit(make_training("a", steps=10, save_every=10, validate_every=5, validate_at=(1, 2, 5, 99)), events, Stop())
    assert [event["step"] for event in events.of("validation")] == [1, 2, 5, 10]


def test_without_patience_training_never_stops_early(make_training: Maker) -> None:
    training = make_training("a", steps=10, validate_every=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.training.loop.validate_training", lambda *_, **__: _validation(next(rising)))
        rising = iter(range(1, 100))
        assert fit(training, Events(), Stop()).step == 10


def _validation(loss: float) -> Validation:
    return Validation({"loss": float(loss)})


def test_the_best_checkpoints_are_kept_for_the_average(make_training: Maker) -> None:
    training = make_training("a", steps=30, average=2, average_of="best")
    losses = iter([5.0, 1.0, 4.0, 2.0, 3.0, 6.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.training.loop.validate_training", lambda *_, **__: _validation(next(losses)))
        fit(training, Events(), Stop())
    assert [checkpoint.step for checkpoint in training.checkpoints.best(2)] == [10, 20]
    assert training.checkpoints.steps() == [10, 20, 25, 30]  # the best two, and the last two


def test_validation_uses_the_moving_average(make_training: Maker) -> None:
    training = make_training("a", ema=0.9, steps=6)
    run(training)
    live, averaged = (validate_training(training, use_ema=use_ema) for use_ema in (False, True))
    assert live.metrics["loss"] != averaged.metrics["loss"]
    assert training.ema is not None
    training.model.load_state_dict(training.ema.weights(), strict=False)
    assert validate_training(training, use_ema=False) == averaged


def test_training_lowers_the_loss(make_training: Maker) -> None:
    events = run(make_training("a", steps=60)).of("step")
    assert events[-1]["nll"] < 0.9 * events[0]["nll"]
    assert [event["step"] for event in events] == list(range(1, 61))


def test_r_drop_resumes_exactly(make_training: Maker) -> None:
    values = {"r_drop": 1.0, "dropout": 0.2, "steps": 10}
    whole = make_training("whole", **values)
    run(whole)
    run_until(make_training("parts", **values), 4)
    parts = make_training("parts", **values)
    run(parts)
    assert_bit_equal(full_state(parts), full_state(whole))
    plain = make_training("plain", dropout=0.2, steps=10)
    run(plain)
    assert not torch.equal(plain.model.output_weight, whole.model.output_weight)


def test_checkpoint_of_another_recipe_is_rejected(make_training: Maker) -> None:
    run_until(make_training("a"), 3)
    with pytest.raises(RunError, match="another recipe"):
        run(replace(make_training("a"), identity={"recipe": "another"}))


def test_damaged_checkpoint_is_skipped_and_reported(make_training: Maker) -> None:
    whole = make_training("whole")
    run(whole)
    run_until(make_training("parts"), 13)
    parts = make_training("parts")
    damaged = parts.checkpoints.directory / "step-00000013" / "optimizer.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    events = run(parts)
    assert [(event["checkpoint"], "optimizer" in event["reason"]) for event in events.of("skipped")] == [
        ("step-00000013", True)
    ]
    assert events.of("resume")[0]["step"] == 10
    assert_bit_equal(full_state(parts), full_state(whole))


def with_plain_descent(training: Training) -> Training:
    """Plain gradient descent, because Adam's first step does not depend on the size of the gradient."""
    training.optimizer = torch.optim.SGD(training.model.parameters(), lr=1.0)
    return training


def all_weights(training: Training) -> Tensor:
    return nn.utils.parameters_to_vector(training.model.parameters()).detach().clone()


def rows_of(batch: Batch, rows: slice) -> Batch:
    part = batch.rows(rows)
    return replace(part, n_targets=(int((part.targets[0] != NO_TARGET).sum()),))


def test_the_best_measure_may_be_one_where_higher_is_better(make_training: Maker) -> None:
    training = make_training("a", steps=15, best_by="accuracy")
    accuracies = iter([0.1, 0.9, 0.5])
    training.validate = lambda model: Validation({"loss": 1.0, "accuracy": next(accuracies)})
    events = Events()
    progress = fit(training, events, Stop())
    assert [event["best"] for event in events.of("validation")] == [True, True, False]
    assert progress.best_score == -0.9


def test_a_penalty_on_the_weights_is_added_once_per_update(
    make_training: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses, gradients = [], []
    for weight in (0.0, 1.0):
        training = make_training(f"penalty-{weight}", accumulate=2)
        penalty = lambda place, model=training.model, weight=weight: weight * model.output_weight.sum()  # noqa: E731
        monkeypatch.setattr(training.model, "penalty", penalty)
        training.optimizer.register_step_pre_hook(
            lambda *_, model=training.model: gradients.append(model.output_weight.grad.clone())
        )
        losses.append(train_step(training, first_update(training), 1)["loss"])
    torch.testing.assert_close(gradients[1] - gradients[0], torch.ones_like(gradients[0]))
    assert losses[1] - losses[0] == pytest.approx(float(training.model.output_weight.detach().sum()), rel=1e-3)


def gradient_of(training: Training, update: list[Batch], n_targets: tuple[int, ...]) -> Tensor:
    training.model.zero_grad()
    for batch in update:
        training.gradients(batch, n_targets)
    return torch.cat([p.grad.flatten() for p in training.model.parameters() if p.grad is not None])


def test_dropout_depends_on_the_place_in_the_update(make_training: Maker) -> None:
    training = make_training("a", dropout=0.5, accumulate=2)
    update = first_update(training)
    n_targets = (sum(batch.n_targets[0] for batch in update),)
    expected = gradient_of(training, update, n_targets)
    divided = [gradient_of(training, [batch], n_targets) for batch in update]
    torch.testing.assert_close(divided[0] + divided[1], expected, atol=1e-6, rtol=0)
    in_one_place = [replace(batch, place=update[0].place) for batch in update]
    assert float((gradient_of(training, in_one_place, n_targets) - expected).abs().max()) > 1e-3


class RecordedGradients(OneProcess):
    """Records the batches of a training."""

    def __init__(self, training: Training) -> None:
        super().__init__(training.config, training.model, training.device)
        self.batches: list[Batch] = []

    def __call__(self, batch: Batch, n_targets: tuple[int, ...]) -> BatchLoss:
        self.batches.append(batch)
        return super().__call__(batch, n_targets)


def test_a_resumed_run_has_the_batches_of_an_uninterrupted_one(make_training: Maker) -> None:
    def recorded(name: str) -> tuple[Training, RecordedGradients]:
        training = make_training(name, accumulate=2, sampling=True)
        training.gradients = gradients = RecordedGradients(training)
        return training, gradients

    (whole, expected), (first, before), (second, after) = (recorded(name) for name in ("whole", "parts", "parts"))
    run(whole)
    run_until(first, 7)
    run(second)
    places = [(batch.place.step, batch.place.part) for batch in expected.batches]
    assert places == [(step, part) for step in range(1, 21) for part in (0, 1)]
    assert expected.batches[-1].place.epoch > 0
    assert [batch.place.step for batch in after.batches[:2]] == [8, 8]
    for batch, same in zip(expected.batches, before.batches + after.batches, strict=True):
        assert batch.place == same.place
        assert batch.indices.tolist() == same.indices.tolist()
        assert all(map(torch.equal, (*batch.inputs, *batch.targets), (*same.inputs, *same.targets)))


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_measuring_the_speed_does_not_change_the_weights(make_training: Maker, optimizer: str) -> None:
    training = make_training("a", optimizer=optimizer)
    before = {name: tensor.clone() for name, tensor in named_weights(training.model).items()}
    assert measure_seconds_per_step(training, 3) > 0
    after = named_weights(training.model)
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
