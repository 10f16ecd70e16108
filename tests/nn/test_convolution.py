"""Convolution: the definition as a plain loop, padding, and one step at a time."""

import pytest
import torch
from torch import Tensor, nn

from regard.nn import Convolution

SHAPES = [(1, 1), (2, 1), (2, 3), (3, 1), (3, 4), (4, 2), (5, 1)]  # kernel, dilation


def convolution(kernel: int, dilation: int, causal: bool) -> Convolution:
    """3 → 4 channels, in float64, with no weight or bias 0."""
    torch.manual_seed(1)
    module = Convolution(3, 4, kernel, dilation, causal).double()
    nn.init.normal_(module.bias)
    return module


def sequences(length: int = 7) -> Tensor:
    return torch.randn(2, length, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def defined(module: Convolution, x: Tensor, causal: bool) -> Tensor:
    """Σ W_i x[t + (i - centre) · dilation], with 0 where there is no x: (T, 3) → (T, 4)."""
    k = module.kernel
    centre = k - 1 if causal else (k - 1) // 2
    outputs = []
    for t in range(len(x)):
        y = module.bias.clone()
        for i in range(k):
            position = t + (i - centre) * module.dilation
            if 0 <= position < len(x):
                y = y + module.weight[:, 3 * i : 3 * (i + 1)] @ x[position]
        outputs.append(y)
    return torch.stack(outputs)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("kernel", "dilation"), SHAPES)
def test_a_convolution_is_its_definition(kernel: int, dilation: int, causal: bool) -> None:
    module, x = convolution(kernel, dilation, causal), sequences()
    for y, row in zip(module(x), x, strict=True):
        torch.testing.assert_close(y, defined(module, row, causal), atol=1e-12, rtol=0)


@pytest.mark.parametrize(("kernel", "dilation"), SHAPES)
def test_steps_equal_the_whole_sequence(kernel: int, dilation: int) -> None:
    module, x = convolution(kernel, dilation, causal=True), sequences()
    past, steps = module.start(x), []
    for t in range(x.shape[1]):
        y, past = module.step(x[:, t], past)
        steps.append(y)
    torch.testing.assert_close(torch.stack(steps, 1), module(x), atol=1e-12, rtol=0)


@pytest.mark.parametrize("causal", [True, False])
def test_padding_has_no_influence(causal: bool) -> None:
    module, x = convolution(3, 2, causal), sequences()
    is_real = torch.ones(2, 7, 1, dtype=torch.float64)
    is_real[1, 4:] = 0
    torch.testing.assert_close(module(x, is_real)[1:, :4], module(x[1:, :4]), atol=1e-12, rtol=0)


@pytest.mark.parametrize(("causal", "expected"), [(True, {1, 4, 7}), (False, {4, 7, 10})])
def test_an_output_depends_on_the_inputs_of_its_window_only(causal: bool, expected: set[int]) -> None:
    module, x = convolution(3, 3, causal), sequences(12).requires_grad_()
    (gradient,) = torch.autograd.grad(module(x)[0, 7].sum(), x)
    assert set(gradient[0].abs().sum(-1).nonzero().flatten().tolist()) == expected
