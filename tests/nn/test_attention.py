"""Section 3.2: scores, masks, and heads that are independent until W_O."""

from itertools import product
from math import sqrt, tanh

import pytest
import torch
from torch import Tensor

from regard.nn import KeyValues, MultiHeadAttention, Trace, padding_visible
from regard.nn.attention import additive_scores, attention_weights, causal_visible, dot_product_scores

KINDS = ("scaled_dot_product", "dot_product", "additive")


def heads(n_keys: int, d_k: int = 8, seed: int = 1) -> Tensor:
    """(B=2, H=3, n_keys, d_k), always the same values."""
    return torch.randn(2, 3, n_keys, d_k, generator=torch.Generator().manual_seed(seed))


def attention(kind: str = "scaled_dot_product", d_model: int = 16, n_heads: int = 4) -> MultiHeadAttention:
    """Attention whose weights and biases are all non-zero."""
    torch.manual_seed(0)
    module = MultiHeadAttention(d_model, n_heads, kind)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return module


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """(B, H, T, K), (B, H, S, K) → (B, H, T, S): what the softmax is computed from."""
    trace = Trace()
    attention(d_model=q.shape[1] * q.shape[3], n_heads=q.shape[1]).attend(q, KeyValues(k, k), trace=trace)
    return trace["scaled"]


def test_scaled_scores_are_dot_products_over_the_root_of_d_k() -> None:
    q, k = heads(4), heads(5, seed=2)
    scores = scaled_scores(q, k)
    assert scores.shape == (2, 3, 4, 5)
    for b, h, t, s in product(range(2), range(3), range(4), range(5)):
        plain = sum(float(x) * float(y) for x, y in zip(q[b, h, t], k[b, h, s], strict=True))
        assert float(scores[b, h, t, s]) == pytest.approx(plain / sqrt(8), abs=1e-5)
    torch.testing.assert_close(scores * sqrt(8), dot_product_scores(q, k))


@pytest.mark.parametrize("d_k", [16, 64, 256])
def test_the_variance_of_a_score_is_d_k_without_the_scale_and_1_with_it(d_k: int) -> None:
    q, k = (torch.randn(1, 1, 500, d_k, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    assert float(dot_product_scores(q, k).var()) == pytest.approx(d_k, rel=0.1)
    assert float(scaled_scores(q, k).var()) == pytest.approx(1, rel=0.1)


def test_without_the_scale_the_softmax_saturates_and_its_gradient_vanishes() -> None:
    def gradient(scale: float) -> float:
        scores = (scale * dot_product_scores(heads(50, d_k=512), heads(50, d_k=512, seed=2))).requires_grad_()
        attention_weights(scores, None).diagonal(dim1=-2, dim2=-1).sum().backward()
        assert scores.grad is not None
        return float(scores.grad.abs().mean())

    assert gradient(1.0) < 0.3 * gradient(512**-0.5)


def test_additive_scores_equal_the_naive_loop() -> None:
    q, k, v = heads(3), heads(4, seed=2), torch.randn(3, 8, generator=torch.Generator().manual_seed(3))
    scores = additive_scores(q, k, v)
    assert scores.shape == (2, 3, 3, 4)
    for b, h, t, s in product(range(2), range(3), range(3), range(4)):
        naive = sum(float(v[h, i]) * tanh(float(q[b, h, t, i]) + float(k[b, h, s, i])) for i in range(8))
        assert float(scores[b, h, t, s]) == pytest.approx(naive, abs=1e-5)


def test_weights_sum_to_one_and_masked_keys_get_exactly_zero() -> None:
    scores = 5 * torch.randn(2, 3, 4, 6)
    visible = torch.rand(2, 1, 4, 6) < 0.5
    visible[..., 0] = True
    weights = attention_weights(scores, visible)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4))
    assert bool((weights[~visible.expand_as(weights)] == 0).all())
    assert bool((weights[visible.expand_as(weights)] > 0).all())


def test_weights_without_a_mask_are_the_softmax_of_the_scores() -> None:
    scores = torch.randn(2, 3, 4, 6)
    torch.testing.assert_close(attention_weights(scores, None), scores.exp() / scores.exp().sum(-1, keepdim=True))


@pytest.mark.parametrize("kind", KINDS)
def test_multi_head_attention_equals_the_heads_computed_one_by_one(kind: str) -> None:
    module, x, memory = attention(kind), torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    w_q, w_k, w_v = module.qkv.weight.split(16)
    b_q, b_k, b_v = module.qkv.bias.split(16)
    outputs = []
    for h in range(4):
        head = slice(4 * h, 4 * h + 4)  # rows of this head
        q, k, v = x @ w_q[head].T + b_q[head], memory @ w_k[head].T + b_k[head], memory @ w_v[head].T + b_v[head]
        if kind == "additive":
            scores = (module.energy[h] * (q[:, :, None] + k[:, None]).tanh()).sum(-1)
        else:
            scores = q @ k.transpose(1, 2) / (2 if kind == "scaled_dot_product" else 1)  # √d_k = √4
        outputs.append(scores.softmax(-1) @ v)
    expected = torch.cat(outputs, -1) @ module.out.weight.T + module.out.bias
    torch.testing.assert_close(module(x, memory), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_heads_are_independent_until_w_o(kind: str) -> None:
    module, x = attention(kind), torch.randn(2, 5, 16)
    module.out.weight.data, module.out.bias.data = torch.eye(16), torch.zeros(16)
    before = module(x)
    for part in range(3):  # W_Q, W_K and W_V of head 2
        module.qkv.weight.data[16 * part + 8 : 16 * part + 12] += 1
    after = module(x)
    assert torch.equal(before[..., :8], after[..., :8])
    assert torch.equal(before[..., 12:], after[..., 12:])
    assert not torch.allclose(before[..., 8:12], after[..., 8:12])


def test_encoder_self_attention_sees_every_position() -> None:
    module, x = attention(), torch.randn(1, 5, 16, requires_grad=True)
    module(x)[0, 0].sum().backward()
    assert x.grad is not None
    assert bool((x.grad[0].abs().sum(-1) > 0).all())


def test_decoder_self_attention_sees_no_later_position() -> None:
    module = attention()
    for t in range(5):
        x = torch.randn(1, 5, 16, requires_grad=True)
        module(x, causal=True)[0, t].sum().backward()
        assert x.grad is not None
        assert (x.grad[0].abs().sum(-1) > 0).tolist() == [s <= t for s in range(5)]


def test_cross_attention_takes_queries_from_x_and_keys_and_values_from_memory() -> None:
    module, x, memory = attention(), torch.randn(2, 3, 16), torch.randn(2, 6, 16)
    out = module(x, memory)
    assert out.shape == (2, 3, 16)
    torch.testing.assert_close(out, module.attend(module.queries(x), module.keys_values(memory)))
    order = torch.tensor([4, 2, 0, 1, 5, 3])
    torch.testing.assert_close(module(x, memory[:, order]), out)  # the order of the keys does not matter
    assert torch.equal(module(x[:, [2, 0, 1]], memory), out[:, [2, 0, 1]])  # queries are independent


def test_self_attention_equals_attention_with_itself_as_memory() -> None:
    module, x = attention(), torch.randn(2, 5, 16)
    torch.testing.assert_close(module(x), module(x, x))


def test_masked_keys_have_no_effect_and_no_gradient() -> None:
    module, x, memory = attention(), torch.randn(2, 3, 16), torch.randn(2, 6, 16)
    visible = padding_visible(torch.tensor([[5, 5, 5, 0, 0, 0], [5, 5, 5, 5, 5, 5]]), pad_id=0)
    out = module(x, memory, visible)
    torch.testing.assert_close(out[:1], module(x[:1], memory[:1, :3]))
    torch.testing.assert_close(out[1:], module(x[1:], memory[1:]))
    changed = memory.clone()
    changed[0, 3:] = 1e6
    changed.requires_grad_()
    again = module(x, changed, visible)
    assert torch.equal(again, out)
    again.sum().backward()
    assert changed.grad is not None
    assert bool((changed.grad[0, 3:] == 0).all())


@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_with_a_cache_equals_all_positions_at_once(kind: str) -> None:
    module, x = attention(kind), torch.randn(2, 6, 16)
    cache, outputs = None, []
    for t in range(6):
        new = module.keys_values(x[:, t : t + 1])
        cache = new if cache is None else cache.append(new)
        outputs.append(module.attend(module.queries(x[:, t : t + 1]), cache, causal=t % 2 == 0))
    torch.testing.assert_close(torch.cat(outputs, 1), module(x, causal=True))


def test_several_queries_with_a_cache_are_the_last_positions() -> None:
    module, x = attention(), torch.randn(2, 6, 16)
    expected = module(x, causal=True)[:, 4:]
    torch.testing.assert_close(
        module.attend(module.queries(x[:, 4:]), module.keys_values(x), causal=True), expected, atol=1e-5, rtol=1e-5
    )


def test_select_reorders_and_repeats_rows_of_the_cache() -> None:
    kv = KeyValues(torch.randn(3, 2, 4, 8), torch.randn(3, 2, 4, 8))
    moved = kv.select(torch.tensor([2, 0, 0]))
    for new, old in enumerate([2, 0, 0]):
        assert torch.equal(moved.k[new], kv.k[old])
        assert torch.equal(moved.v[new], kv.v[old])


def test_causal_mask_is_true_in_the_lower_triangle() -> None:
    assert causal_visible(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert causal_visible(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]


def test_padding_mask_is_none_if_nothing_is_padded() -> None:
    assert padding_visible(torch.tensor([[1, 2], [3, 4]]), pad_id=0) is None
    mask = padding_visible(torch.tensor([[1, 9], [3, 4]]), pad_id=9)
    assert mask is not None
    assert mask.tolist() == [[[[True, False]]], [[[True, True]]]]


def test_indivisible_d_model_and_unknown_kind_raise_value_error() -> None:
    with pytest.raises(ValueError, match=r"d_model \(10\) must be a multiple of n_heads \(3\)"):
        MultiHeadAttention(10, 3)
    with pytest.raises(ValueError, match="additive"):
        MultiHeadAttention(8, 2, "cosine")  # type: ignore[arg-type]
