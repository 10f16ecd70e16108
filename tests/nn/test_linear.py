"""Linear transformations: the same numbers with packed weights, for inference, as in training."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn import Linear, LinearPart, PackedWeights, linear


def parameter(*shape: int) -> Tensor:
    return nn.Parameter(torch.randn(*shape))


@contextmanager
def inference() -> Iterator[None]:
    with torch.inference_mode(), PackedWeights().in_use():
        yield


@pytest.mark.parametrize("shape", [(0, 24), (1, 24), (2, 24), (300, 24), (5, 7, 24)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_inference_gives_the_same_numbers(shape: tuple[int, ...], has_bias: bool) -> None:
    x, weight, bias = torch.randn(shape), parameter(40, 24), parameter(40) if has_bias else None
    expected = F.linear(x, weight, bias)
    with inference():
        torch.testing.assert_close(linear(x, weight, bias), expected)
        torch.testing.assert_close(linear(x, weight, bias), expected)  # now from the cache


@pytest.mark.parametrize("is_inference", [True, False])
def test_a_part_of_a_weight_can_be_used(is_inference: bool) -> None:
    x, weight, bias = torch.randn(30, 48), parameter(40, 48), parameter(40)
    rows = F.linear(x, weight[10:25], bias[10:25])
    columns = F.linear(x[:, 24:], weight[:, 24:], bias)
    with inference() if is_inference else nullcontext():
        torch.testing.assert_close(LinearPart(weight, bias, rows=(10, 25))(x), rows)
        torch.testing.assert_close(LinearPart(weight, bias, columns=(24, 48))(x[:, 24:]), columns)
        torch.testing.assert_close(linear(x, weight, bias), F.linear(x, weight, bias))


def test_new_packed_weights_have_what_an_optimizer_changed() -> None:
    x, layer = torch.randn(30, 24), Linear(24, 40)
    with inference():
        before = layer(x)
    layer(x).sum().backward()
    torch.optim.Adam(layer.parameters(), lr=0.1, fused=True).step()  # leaves the versions of the weights as they were
    expected = layer(x).detach()
    assert not torch.allclose(before, expected)
    with inference():
        torch.testing.assert_close(layer(x), expected)


def test_inference_has_float32_precision() -> None:
    matrix, weight = torch.full((64, 64), 1 + 2.0**-12), nn.Parameter(torch.eye(64))  # bfloat16 would round it to 1
    with inference():
        assert torch.equal(linear(matrix, weight), matrix)


def test_a_weight_that_was_made_for_inference_can_be_used() -> None:
    x = torch.randn(30, 24)
    with inference():
        weight = parameter(40, 24)
        torch.testing.assert_close(linear(x, weight), F.linear(x, weight))


def test_an_input_in_another_order_of_memory_can_be_used() -> None:
    x, weight = torch.randn(48, 30), parameter(40, 48)
    with inference():
        torch.testing.assert_close(linear(x.T, weight), F.linear(x.T, weight))


def test_gradients_and_autocast_are_as_with_torch() -> None:
    layer, x = Linear(24, 40), torch.randn(30, 24)
    layer(x).sum().backward()
    assert layer.weight.grad is not None and bool(layer.weight.grad.any())
    with inference(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
