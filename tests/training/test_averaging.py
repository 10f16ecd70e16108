"""Averages of weights match their definition, and are restored from a checkpoint exactly."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.errors import ArtifactError
from regard.models import load_weights, named_weights
from regard.training.averaging import EMA, average
from regard.training.checkpoints import Checkpoints


class Net(nn.Module):
    """Two layers that share a weight, and a counter that is not averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(4)


def model(seed: int) -> Net:
    torch.manual_seed(seed)
    return Net()


def test_average_is_the_mean_computed_in_float64() -> None:
    models = [named_weights(model(seed)) for seed in range(7)]
    mean = average(models)
    assert mean.keys() == models[0].keys()
    for name, tensor in models[0].items():
        assert mean[name].dtype == tensor.dtype
        exact = torch.stack([weights[name].double() for weights in models]).mean(0).to(tensor.dtype)
        assert torch.equal(mean[name], exact)


def test_average_of_one_model_is_that_model_for_every_dtype() -> None:
    weights = {"half": torch.randn(9).bfloat16(), "single": torch.randn(9), "count": torch.tensor(2**60 + 1)}
    assert all(torch.equal(average([weights])[name], tensor) for name, tensor in weights.items())


def test_average_accepts_a_generator_of_checkpoints(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=3, keep_best=0)
    for seed in range(3):
        checkpoints.save(seed, {"model": named_weights(model(seed))}, {})
    mean = average(checkpoint.tensors("model") for checkpoint in checkpoints.last(2))
    fresh = model(9)
    load_weights(fresh, mean)
    expected = (model(1).first.weight.double() + model(2).first.weight.double()) / 2
    assert torch.equal(fresh.first.weight, expected.float())


def test_damaged_checkpoint_is_reported_and_excluded_from_the_average(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=3, keep_best=0)
    paths = [checkpoints.save(step, {"model": named_weights(model(step))}, {}) for step in range(3)]
    (paths[1] / "model.safetensors").write_bytes(b"")
    again = Checkpoints(tmp_path, keep_last=3, keep_best=0)
    newest, skipped = again.resume({})
    assert newest is not None and newest.step == 2
    assert list(skipped) == [paths[1].name]
    assert [checkpoint.step for checkpoint in again.last(3)] == [0, 2]


def test_averaging_models_of_different_shape_raises_artifact_error() -> None:
    weights = named_weights(model(1))
    with pytest.raises(ArtifactError, match="no weights"):
        average([])
    for different in ({**weights, "more": torch.zeros(1)}, {**weights, "first.weight": torch.zeros(4, 1)}, {}):
        with pytest.raises(ArtifactError):
            average([weights, different])


def steps_of(net: nn.Module, n_steps: int) -> Iterator[int]:
    for step in range(1, n_steps + 1):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(0.9).add_(step)
        yield step


def test_ema_matches_its_definition() -> None:
    net = model(1)
    ema = EMA(net, decay=0.6)
    expected = {name: parameter.detach().double() for name, parameter in net.named_parameters()}
    for step in steps_of(net, 20):
        ema.update(step)
        decay = min(0.6, (1 + step) / (10 + step))
        for name, parameter in net.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * parameter.detach().double()
    for name, tensor in ema.tensors().items():
        torch.testing.assert_close(tensor.double(), expected[name], rtol=1e-5, atol=1e-5)


def test_ema_resumes_from_a_checkpoint_exactly() -> None:
    net, again = model(1), model(1)
    ema = EMA(net, decay=0.99)
    for step in steps_of(net, 10):
        ema.update(step)
        if step == 5:
            halfway: dict[str, Tensor] = {name: tensor.clone() for name, tensor in ema.tensors().items()}
    for step in steps_of(again, 10):
        if step == 5:
            resumed = EMA(again, decay=0.99)
            resumed.load_tensors(halfway)
        elif step > 5:
            resumed.update(step)
    assert all(torch.equal(ema.tensors()[name], tensor) for name, tensor in resumed.tensors().items())


def test_ema_weights_fit_the_model_and_swapping_restores_it() -> None:
    net = model(1)
    ema = EMA(net, decay=0.9)
    for step in steps_of(net, 3):
        ema.update(step)
    before = {name: tensor.clone() for name, tensor in named_weights(net).items()}
    averaged = {name: tensor.clone() for name, tensor in ema.weights().items()}
    fresh = model(2)
    load_weights(fresh, averaged)
    with pytest.raises(RuntimeError), ema.swapped_in():
        assert all(torch.equal(averaged[name], tensor) for name, tensor in named_weights(net).items())
        assert net.second.weight is net.first.weight
        raise RuntimeError
    assert all(torch.equal(before[name], tensor) for name, tensor in named_weights(net).items())
    assert all(torch.equal(averaged[name], tensor) for name, tensor in ema.weights().items())


def test_ema_rejects_averages_of_another_model() -> None:
    with pytest.raises(ArtifactError):
        EMA(model(1), decay=0.9).load_tensors({})
    with pytest.raises(ValueError, match="decay"):
        EMA(model(1), decay=1.0)
