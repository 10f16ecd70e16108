"""Sections 3.1 and 3.3: the residual connection around a sub-layer, and the feed-forward network."""

from math import erf, sqrt

import pytest
import torch
from torch import Tensor

from regard.nn import FeedForward, Residual


def feed_forward(activation: str) -> FeedForward:
    torch.manual_seed(1)
    module = FeedForward(6, 10, activation)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module


def expected_hidden(activation: str, inner: Tensor) -> Tensor:
    if activation == "relu":
        return inner.clamp(min=0)
    if activation == "gelu":
        return inner * torch.tensor([[0.5 * (1 + erf(z / sqrt(2))) for z in row] for row in inner.tolist()])
    if activation == "silu":
        return inner / (1 + (-inner).exp())
    return inner[:, :10] / (1 + (-inner[:, :10]).exp()) * inner[:, 10:]


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "swiglu"])
def test_feed_forward_equals_its_formula(activation: str) -> None:
    module, x = feed_forward(activation), torch.randn(7, 6)
    inner = x @ module.inner.weight.T + module.inner.bias
    expected = expected_hidden(activation, inner) @ module.outer.weight.T + module.outer.bias
    torch.testing.assert_close(module(x), expected)


def test_swiglu_has_three_matrices_and_the_others_two() -> None:
    counts = {kind: sum(p.numel() for p in feed_forward(kind).parameters()) for kind in ("relu", "gelu", "swiglu")}
    assert counts == {"relu": 6 * 10 + 10 + 60 + 6, "gelu": 136, "swiglu": 136 + 6 * 10 + 10}


def test_feed_forward_is_the_same_at_every_position_and_mixes_no_positions() -> None:
    module, x = feed_forward("relu"), torch.randn(2, 5, 6)
    order = [3, 0, 4, 1, 2]
    torch.testing.assert_close(module(x)[:, order], module(x[:, order]))
    torch.testing.assert_close(module(x)[1, 2], module(x[1, 2]))


def test_unknown_activation_raises_value_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="relu, gelu, silu, swiglu"):
        FeedForward(4, 4, "tanh")  # type: ignore[arg-type]


def normalise(x: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    """The formula of LayerNorm."""
    x = x - x.mean(-1, keepdim=True)
    return x / (x.pow(2).mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_normalisation_is_after_the_sum_or_before_the_sub_layer(norm: str) -> None:
    residual, x = Residual(6, 0.0, norm), torch.randn(2, 5, 6) * 3 + 1
    torch.nn.init.normal_(residual.norm.weight)
    torch.nn.init.normal_(residual.norm.bias)
    out = residual(x, torch.sin)
    if norm == "post":
        torch.testing.assert_close(out, normalise(x + x.sin(), residual.norm), atol=1e-5, rtol=1e-5)
    else:
        torch.testing.assert_close(out, x + normalise(x, residual.norm).sin(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_applies_to_the_sub_layer_and_not_to_the_residual(norm: str) -> None:
    residual, x = Residual(6, 0.5, norm), torch.randn(40, 50, 6)
    residual.norm = torch.nn.Identity()
    torch.manual_seed(1)
    out = residual(x, lambda y: torch.full_like(y, 3.0))
    dropped = torch.isclose(out, x)
    assert float(dropped.float().mean()) == pytest.approx(0.5, abs=0.02)
    torch.testing.assert_close(out[~dropped], x[~dropped] + 6)
