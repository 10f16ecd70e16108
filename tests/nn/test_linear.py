"""Linear transformations: the same numbers in inference, where oneDNN computes them, as in training."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn import Linear, LinearPart, linear


def parameter(*shape: int) -> Tensor:
    return nn.Parameter(torch.randn(*shape))


@pytest.mark.parametrize("shape", [(0, 24), (1, 24), (2, 24), (300, 24), (5, 7, 24)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_inference_gives_the_same_numbers(shape: tuple[int, ...], has_bias: bool) -> None:
    x, weight, bias = torch.randn(shape), parameter(40, 24), parameter(40) if has_bias else None
    expected = F.linear(x, weight, bias)
    with torch.inference_mode():
        torch.testing.assert_close(linear(x, weight, bias), expected)
        torch.testing.assert_close(linear(x, weight, bias), expected)  # now from the cache


@pytest.mark.parametrize("is_inference", [True, False])
def test_a_part_of_a_weight_can_be_used(is_inference: bool) -> None:
    x, weight, bias = torch.randn(30, 48), parameter(40, 48), parameter(40)
    rows = F.linear(x, weight[10:25], bias[10:25])
    columns = F.linear(x[:, 24:], weight[:, 24:], bias)
    with torch.inference_mode(is_inference):
        torch.testing.assert_close(LinearPart(weight, bias, rows=(10, 25))(x), rows)
        torch.testing.assert_close(LinearPart(weight, bias, columns=(24, 48))(x[:, 24:]), columns)
        torch.testing.assert_close(linear(x, weight, bias), F.linear(x, weight, bias))


def test_a_changed_weight_is_noticed() -> None:
    x, layer = torch.randn(30, 24), Linear(24, 40)
    with torch.inference_mode():
        before = layer(x)
    with torch.no_grad():
        layer.weight.mul_(2)
    doubled = (before - layer.bias) * 2 + layer.bias
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), doubled)
    layer.weight.data = layer.weight.data / 2
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), before)


def test_inference_has_float32_precision() -> None:
    matrix, weight = torch.full((64, 64), 1 + 2.0**-12), nn.Parameter(torch.eye(64))  # bfloat16 would round it to 1
    with torch.inference_mode():
        assert torch.equal(linear(matrix, weight), matrix)


def test_a_weight_that_was_made_for_inference_can_be_used() -> None:
    x = torch.randn(30, 24)
    with torch.inference_mode():
        weight = parameter(40, 24)
        torch.testing.assert_close(linear(x, weight), F.linear(x, weight))


def test_an_input_in_another_order_of_memory_can_be_used() -> None:
    x, weight = torch.randn(48, 30), parameter(40, 48)
    with torch.inference_mode():
        torch.testing.assert_close(linear(x.T, weight), F.linear(x.T, weight))


def test_gradients_and_autocast_are_as_with_torch() -> None:
    layer, x = Linear(24, 40), torch.randn(30, 24)
    layer(x).sum().backward()
    assert layer.weight.grad is not None and bool(layer.weight.grad.any())
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
