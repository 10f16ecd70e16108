"""Two ranks: this process, and another one that is started once for all tests of this file."""

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.shards import ShardedStore
from regard.errors import RunError, TrainingStopped
from regard.models import Model, named_weights
from regard.training import Stop, Training, Validation, Workers, fit, open_workers
from regard.training.checkpoints import optimizer_tensors
from regard.training.gradients.sums import FloatSums, WholeSums
from regard.training.ranks.links import TOKEN_BYTES, accept, connect

from ..images import write_npz
from ..labelled import write_labelled
from ..prose import write_prose
from ..stories import write_stories

Maker = Callable[..., Training]
EVERYTHING = {"dropout": 0.3, "sampling": True, "ema": 0.9, "r_drop": 1.0, "steps": 12}


@pytest.fixture(scope="module")
def two_ranks() -> Iterator[Workers]:
    n_threads = torch.get_num_threads()
    with open_workers(2, "cpu") as workers:
        yield workers
    torch.set_num_threads(n_threads)


def state_of(training: Training) -> dict[str, Tensor]:
    state = {**named_weights(training.model), **optimizer_tensors(training.optimizer, training.model)}
    return state | ({} if training.ema is None else {f"ema/{name}": it for name, it in training.ema.tensors().items()})


def trained(training: Training, events: list[dict[str, Any]] | None = None) -> dict[str, Tensor]:
    fit(
        training,
        lambda event, **fields: events.append({"event": event} | fields) if events is not None else None,
        Stop(),
    )
    return state_of(training)


def assert_bit_equal(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    assert [name for name in actual if not torch.equal(actual[name], expected[name])] == []


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_two_ranks_equal_one_with_two_batches_to_the_bit(
    make_training: Maker, two_ranks: Workers, optimizer: str
) -> None:
    one_events: list[dict[str, Any]] = []
    two_events: list[dict[str, Any]] = []
    one = trained(make_training("one", optimizer=optimizer, accumulate=2, **EVERYTHING), one_events)
    two = trained(make_training("two", optimizer=optimizer, processes=2, workers=two_ranks, **EVERYTHING), two_events)
    assert_bit_equal(two, one)
    losses = [[event["loss"] for event in events if event["event"] == "step"] for events in (one_events, two_events)]
    assert losses[0] == losses[1] and len(losses[0]) == 12


def test_two_ranks_read_shards_as_one_does(make_training: Maker, two_ranks: Workers) -> None:
    values = EVERYTHING | {"steps": 30, "shards": True}  # more than an epoch
    one = make_training("one", accumulate=2, **values)
    events: list[dict[str, Any]] = []
    expected = trained(one, events)
    assert_bit_equal(trained(make_training("two", processes=2, workers=two_ranks, **values)), expected)
    assert isinstance(one.loader.examples, ShardedStore) and one.loader.examples.n_windows == 4
    assert one.loader.batches_per_epoch() < 60


TRAINING = {
    "steps": 3, "save_every": 3, "validate_every": 3, "max_tokens": 200, "warmup": 2, "average": 1, "rate": 0.01,
    "translated": 0, "two_processes": "off",
}  # fmt: skip
LAYER = {"n_layers": 1, "d_model": 16, "d_ff": 16, "n_heads": 2, "dropout": 0.2}


def other_recipe(architecture: str, directory: Path) -> dict[str, Any]:
    """A short training of each task; its files are written to the directory."""
    recipes: dict[str, Any] = {
        "transformer-xl": ("language", lambda path: write_prose(path, 60), LAYER),
        "electra": ("pretraining", lambda path: write_prose(path, 60), LAYER),
        "lstm": ("classification", lambda path: write_labelled(path, 60), {"d_model": 16, "dropout": 0.2}),
        "memory-network": ("answering", lambda path: write_stories(path, 60), {"linear_start": 2, "dropout": 0.2}),
        "vit": ("images", lambda path: write_npz(path.with_suffix(".npz"), 60), LAYER),
    }
    task, write, model = recipes[architecture]
    path = str(write(directory / "train.txt"))
    entry = {"classification": {"labels": path}, "images": {"images": path}}.get(task, path)
    text = (
        {}
        if task in ("answering", "images")
        else {"text": {"kind": "word"} if task == "language" else {"vocabulary": 290}}
    )
    sections = {"data": {"train": [entry]}, "model": {"architecture": architecture} | model, **text}
    return {"task": task, **sections, "training": TRAINING}


@pytest.mark.parametrize("architecture", ["transformer-xl", "electra", "lstm", "memory-network", "vit"])
def test_every_task_gives_the_same_bits_with_two_ranks(architecture: str, two_ranks: Workers, tmp_path: Path) -> None:
    """All architectures: benchmarks/faults.py, row 44."""
    from regard.run import merge, train

    recipe = other_recipe(architecture, tmp_path)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    one = train(merge(recipe, {"training": {"accumulate": 2}}), tmp_path / "one", device="cpu")
    two = train(recipe, tmp_path / "two", workers=two_ranks)
    torch.set_num_threads(n_threads)
    assert (two / "model.safetensors").read_bytes() == (one / "model.safetensors").read_bytes()


def test_exact_run_goes_on_with_another_number_of_ranks(make_training: Maker, two_ranks: Workers) -> None:
    values = EVERYTHING | {"exact": True, "accumulate": 3}
    whole = trained(make_training("whole", **values))
    stop = Stop()
    stop.request(signal.SIGTERM)
    with pytest.raises(TrainingStopped):
        fit(make_training("parts", **values, workers=two_ranks), lambda *_, **__: None, stop)
    assert_bit_equal(trained(make_training("parts", **values, workers=two_ranks)), whole)


def test_whole_numbers_have_the_same_sum_in_every_order() -> None:
    generator = torch.Generator().manual_seed(1)
    gradients = [torch.randn(50, generator=generator) * 10.0**-i for i in range(7)]

    def total(order: list[int], kind: Any) -> Tensor:
        parameter = torch.nn.Parameter(torch.zeros(50))
        unused = torch.nn.Parameter(torch.zeros(3))
        sums = kind([parameter, unused])
        for number in order:
            gradient = gradients[number].clone()
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
            assert sums.add(7)
        _, used = sums.pack()
        sums.unpack(used)
        assert unused.grad is None and parameter.grad is not None
        return parameter.grad

    orders = [list(range(7)), [3, 6, 0, 5, 1, 4, 2], [6, 5, 4, 3, 2, 1, 0]]
    whole, floats = ([total(order, kind) for order in orders] for kind in (WholeSums, FloatSums))
    assert all(torch.equal(each, whole[0]) for each in whole)
    assert not all(torch.equal(each, floats[0]) for each in floats)
    torch.testing.assert_close(whole[0], floats[0])


@pytest.mark.parametrize("value", [2000.0, float("inf"), float("nan")])
def test_gradient_that_is_too_large_for_whole_numbers_is_reported(value: float) -> None:
    parameter = torch.nn.Parameter(torch.zeros(3))
    parameter.grad = torch.tensor([0.0, value, 0.0])
    assert not WholeSums([parameter]).add(5)


def test_ranks_that_drifted_apart_are_aligned_at_the_next_save(make_training: Maker, two_ranks: Workers) -> None:
    training = make_training("a", processes=2, workers=two_ranks, steps=15, validate_every=5, save_every=5)
    validate, n_validations = training.validate, []

    def disturb(model: Model) -> Validation:
        n_validations.append(1)
        if len(n_validations) == 1:
            with torch.no_grad():
                next(model.parameters()).add_(0.01)  # in rank 0 alone
        return validate(model)

    training.validate = disturb
    events: list[dict[str, Any]] = []
    trained(training, events)
    assert [event["step"] for event in events if event["event"] == "warning"] == [5]


def test_signal_to_any_rank_stops_the_training(make_training: Maker, two_ranks: Any) -> None:
    name = re.search(r"process (\d+) on", two_ranks._links[1].name)
    assert name is not None
    training = make_training("a", processes=2, workers=two_ranks, steps=100_000)

    def on_event(event: str, **fields: Any) -> None:
        if event == "step" and fields["step"] == 2:
            os.kill(int(name[1]), signal.SIGTERM)

    with pytest.raises(TrainingStopped) as stopped:
        fit(training, on_event, Stop())
    assert stopped.value.signal_number == signal.SIGTERM
    assert training.checkpoints.steps() == [stopped.value.step]


def test_stranger_is_not_connected() -> None:
    token = os.urandom(TOKEN_BYTES)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(bytes(TOKEN_BYTES))
            other = threading.Thread(target=lambda: connect("127.0.0.1", port, token, 1))
            other.start()
            links = accept(server, token, 1)
            other.join()
    assert list(links) == [1]
    assert links[1].name.startswith(f"rank 1 (process {os.getpid()} on ")


def test_process_of_torchrun_needs_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from regard.run import train

    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RunError, match=r"this is one of 2 processes of torchrun; hint: .*open_workers"):
        train({}, tmp_path / "run")
