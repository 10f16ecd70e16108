"""Linear transformations: the same numbers in inference, where oneDNN computes them, as in training."""

import pytest
import torch
import torch.nn.functional as F

from regard.nn import Linear, linear


@pytest.mark.parametrize("shape", [(0, 24), (1, 24), (15, 24), (16, 24), (5, 7, 24)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_inference_gives_the_same_numbers(shape: tuple[int, ...], has_bias: bool) -> None:
    x, weight, bias = torch.randn(shape), torch.randn(40, 24), torch.randn(40) if has_bias else None
    expected = F.linear(x, weight, bias)
    with torch.inference_mode():
        torch.testing.assert_close(linear(x, weight, bias), expected)


def test_inference_has_float32_precision() -> None:
    matrix = torch.full((64, 64), 1 + 2.0**-12)  # bfloat16 would round it to 1
    with torch.inference_mode():
        assert torch.equal(linear(matrix, torch.eye(64)), matrix)


def test_parts_of_a_weight_and_of_an_input_can_be_used() -> None:
    x, weight = torch.randn(30, 48), torch.randn(40, 48)
    expected = x[:, 24:] @ weight[:, 24:].T
    with torch.inference_mode():
        torch.testing.assert_close(linear(x[:, 24:], weight[:, 24:]), expected)
        torch.testing.assert_close(linear(x[:, 24:], weight[:, 24:].contiguous()), expected)
        torch.testing.assert_close(linear(x.T, weight[:, :30].contiguous()), x.T @ weight[:, :30].T)


def test_gradients_and_autocast_are_as_with_torch() -> None:
    layer, x = Linear(24, 40), torch.randn(30, 24)
    layer(x).sum().backward()
    assert layer.weight.grad is not None and bool(layer.weight.grad.any())
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
