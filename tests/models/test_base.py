"""Weights by name: saved and loaded exactly, and refused if they do not match."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.errors import ArtifactError
from regard.models import Transformer, load_weights, named_weights, require_matching_tensors

Maker = Callable[..., Transformer]


@pytest.mark.parametrize(("tie", "n_matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_weights_appear_once(make_model: Maker, tie: str, n_matrices: int) -> None:
    model = make_model(tie=tie)
    weights = named_weights(model)
    assert sum("embedding" in name or name == "output.weight" for name in weights) == n_matrices
    assert sum(tensor.numel() for tensor in weights.values()) == model.n_parameters


@pytest.mark.parametrize("tie", ["all", "target", "none"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_model_with_loaded_weights_computes_the_same(
    make_model: Maker, src: Tensor, tgt: Tensor, tie: str, positions: str
) -> None:
    model, copy = (make_model(seed, tie=tie, positions=positions) for seed in (1, 2))
    assert not torch.allclose(model(src, tgt), copy(src, tgt))
    load_weights(copy, {name: tensor.clone() for name, tensor in named_weights(model).items()})
    assert torch.equal(model(src, tgt), copy(src, tgt))
    assert (copy.target.embedding.weight is copy.output_weight) == (tie != "none")


def change(weights: dict[str, Tensor], problem: str) -> dict[str, Tensor]:
    name = "decoder.0.feed_forward.inner.bias"
    if problem == "missing":
        return {key: value for key, value in weights.items() if key != name}
    if problem == "extra":
        return weights | {"decoder.9.bias": torch.zeros(1)}
    return weights | {name: weights[name][:-1] if problem == "shape" else weights[name].half()}


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("missing", "1 tensors of this model are missing in the weights, e.g. 'decoder.0.feed_forward.inner.bias'"),
        ("extra", "have 1 tensors that this model does not have, e.g. 'decoder.9.bias'"),
        ("shape", r"\(23,\), this model has torch.float32 of \(24,\)"),
        ("dtype", "is torch.float16"),
    ],
)
def test_weights_that_do_not_match_are_refused_and_change_nothing(
    make_model: Maker, problem: str, message: str
) -> None:
    model, given = make_model(1), change(named_weights(make_model(2)), problem)
    before = {name: tensor.clone() for name, tensor in named_weights(model).items()}
    with pytest.raises(ArtifactError, match=message):
        load_weights(model, given)
    assert all(torch.equal(before[name], tensor) for name, tensor in named_weights(model).items())
    with pytest.raises(ArtifactError, match=message):
        require_matching_tensors(named_weights(model), given)


def test_models_on_the_meta_device_can_be_checked(make_model: Maker) -> None:
    with torch.device("meta"):
        empty = make_model()
    require_matching_tensors(named_weights(empty), named_weights(make_model()))
