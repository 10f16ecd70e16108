"""The fast paths equal the formula of the paper, for every length, mask and kind of attention."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.nn import MultiHeadAttention, Trace
from regard.nn.attention import MAX_UNFUSED_KEYS, fast_attention

KINDS = ("scaled_dot_product", "dot_product", "additive")
UNFUSED, FUSED = 7, MAX_UNFUSED_KEYS + 3


def reference(q: Tensor, k: Tensor, v: Tensor, scale: float, visible: Tensor | None, causal: bool) -> Tensor:
    """softmax(scale · QKᵀ)V in float64, one query at a time."""
    q, k, v = q.double(), k.double(), v.double()
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    outputs = []
    for t in range(n_queries):
        scores = scale * (q[..., t : t + 1, :] @ k.transpose(-1, -2))  # (B, H, 1, S)
        seen = torch.ones_like(scores, dtype=torch.bool)
        if visible is not None:
            row = visible.expand(*visible.shape[:2], n_queries, n_keys)[:, :, t : t + 1]
            seen = seen & row
        if causal:
            seen[..., n_keys - n_queries + t + 1 :] = False
        weights = scores.exp() * seen
        outputs.append(weights / weights.sum(-1, keepdim=True) @ v)
    return torch.cat(outputs, -2)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_fast_attention_equals_the_formula(data: st.DataObject) -> None:
    n_keys = data.draw(st.sampled_from([1, 2, 5, 17, MAX_UNFUSED_KEYS, MAX_UNFUSED_KEYS + 1, MAX_UNFUSED_KEYS + 40]))
    n_queries = data.draw(st.sampled_from([1, min(n_keys, 3), n_keys]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    q = torch.randn(2, 3, n_queries, 4, generator=generator)
    k, v = (torch.randn(2, 3, n_keys, 4, generator=generator) for _ in range(2))
    shape = data.draw(st.sampled_from([None, (2, 1, 1, n_keys), (2, 1, n_queries, n_keys), (2, 3, n_queries, n_keys)]))
    visible = None
    if shape is not None:
        visible = torch.rand(shape, generator=generator) < 0.7
        visible[..., 0] = True
    causal, scale = data.draw(st.booleans()), data.draw(st.sampled_from([0.5, 1.0]))
    out = fast_attention(q, k, v, scale, visible, causal)
    assert out.shape == q.shape
    torch.testing.assert_close(out.double(), reference(q, k, v, scale, visible, causal), atol=1e-5, rtol=1e-4)


def make_mask(name: str, n_keys: int) -> Tensor | None:
    """(B, 1, 1, S) that hides the end of row 0; or no mask."""
    if name == "none":
        return None
    visible = torch.ones(2, 1, 1, n_keys, dtype=torch.bool)
    visible[0, ..., n_keys // 2 + 1 :] = False
    return visible


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", ["none", "padding"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n_keys", [UNFUSED, FUSED])
def test_fast_path_equals_the_traced_path_in_output_and_gradient(
    kind: str, mask: str, causal: bool, n_keys: int
) -> None:
    torch.manual_seed(1)
    module, visible = MultiHeadAttention(8, 2, kind), make_mask(mask, n_keys)
    x, weight = torch.randn(2, n_keys, 8), torch.randn(2, n_keys, 8)
    results = []
    for trace in (None, Trace()):
        module.zero_grad()
        x_copy = x.clone().requires_grad_()
        out = module(x_copy, visible=visible, causal=causal, trace=trace)
        (out * weight).mean().backward()
        results.append([out.detach(), x_copy.grad, *(p.grad for p in module.parameters())])
    for fast, slow in zip(*results, strict=True):
        torch.testing.assert_close(fast, slow, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(("n_keys", "fused"), [(MAX_UNFUSED_KEYS, False), (MAX_UNFUSED_KEYS + 1, True)])
def test_the_fused_kernel_is_used_for_long_texts_only(
    n_keys: int, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda *args, **kwargs: calls.append(1) or real(*args, **kwargs),
    )
    MultiHeadAttention(8, 2)(torch.randn(1, n_keys, 8), causal=True)
    assert bool(calls) == fused


@pytest.mark.parametrize("n_keys", [UNFUSED, FUSED])
def test_large_scores_do_not_overflow(n_keys: int) -> None:
    q, k, v = (1e4 * torch.randn(1, 1, n_keys, 8) for _ in range(3))
    assert bool(fast_attention(q, k, v, 1.0, None, True).isfinite().all())
