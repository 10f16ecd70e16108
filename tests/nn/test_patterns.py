"""Sparse attention, computed in blocks, is dense attention under the mask of its pattern."""

import pytest
import torch
from torch import Tensor

from regard.nn import KeyValues, Trace
from regard.nn.attention import attention_weights
from regard.nn.patterns import Fixed, Pattern, SparseAttention, Strided

PATTERNS = [
    Strided(1),
    Strided(3),
    Strided(4),
    Strided(50),
    Fixed(1, 1),
    Fixed(4, 1),
    Fixed(5, 2),
    Fixed(3, 3),
    Fixed(50, 8),
]


def mask(pattern: Pattern, n: int) -> Tensor:
    positions = torch.arange(n)
    return pattern.sees(positions[:, None], positions)


def qkv(n: int) -> list[Tensor]:
    rng = torch.Generator().manual_seed(n)
    return [torch.randn(2, 3, n, 5, generator=rng, dtype=torch.float64, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("n", [1, 2, 4, 7, 12, 15])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_values_and_gradients_equal_those_of_dense_masked_attention(pattern: Pattern, n: int) -> None:
    q, k, v = qkv(n)
    for n_queries in {1, max(1, n // 2), n}:  # the last ones; the other keys come from a cache
        last = q[:, :, n - n_queries :]
        sparse = pattern.attend(last, KeyValues(k, v), 0.7)
        scores = 0.7 * last @ k.transpose(-1, -2)
        dense = attention_weights(scores, mask(pattern, n)[-n_queries:]) @ v
        torch.testing.assert_close(sparse, dense, atol=1e-12, rtol=1e-12)
        direction = torch.randn_like(dense)
        gradients = [torch.autograd.grad(out, (q, k, v), direction) for out in (sparse, dense)]
        for ours, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(ours, expected, atol=1e-10, rtol=1e-10)


def test_the_masks_are_those_of_the_paper() -> None:
    """Figure 3 of the paper, for a stride of 3: what position 7 sees, and a summary of one position."""
    assert mask(Strided(3), 8)[7].nonzero().flatten().tolist() == [1, 4, 5, 6, 7]
    assert mask(Fixed(3, 1), 8)[7].nonzero().flatten().tolist() == [2, 5, 6, 7]
    assert mask(Fixed(3, 2), 8)[4].nonzero().flatten().tolist() == [1, 2, 3, 4]
    for pattern in PATTERNS:
        assert not mask(pattern, 20).triu(1).any()


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_every_earlier_position_is_reached_in_two_steps(pattern: Pattern) -> None:
    """The factorisation of section 4.2 with p = 2."""
    step = mask(pattern, 40).int()
    assert torch.equal((step @ step) > 0, torch.ones(40, 40, dtype=torch.bool).tril())


@pytest.mark.parametrize("pattern", [Strided(8), Fixed(8, 2)], ids=str)
def test_no_array_grows_with_the_square_of_the_length(pattern: Pattern) -> None:
    """What is kept for the gradient: with a stride of √n, at most a constant times n√n numbers."""
    sizes = []
    n = 64

    def keep(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    q, k, v = (torch.randn(1, 1, n, 2, requires_grad=True) for _ in range(3))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        pattern.attend(q, KeyValues(k, v), 1.0)
    assert max(sizes) <= n * (2 * 8 + 8) < n * n


@pytest.mark.parametrize("pattern", [Strided(3), Fixed(4, 2)], ids=str)
def test_steps_and_a_trace_give_what_all_positions_at_once_give(pattern: Pattern) -> None:
    torch.manual_seed(1)
    module, x, trace = SparseAttention(12, 3, pattern).double(), torch.randn(2, 11, 12).double(), Trace()
    whole = module(x, causal=True)
    torch.testing.assert_close(module(x, causal=True, trace=trace), whole, atol=1e-12, rtol=1e-12)
    assert torch.equal(trace["visible"][0, 0], mask(pattern, 11))
    assert torch.equal(trace["weights"][0, 0] > 0, mask(pattern, 11))
    past: KeyValues | None = None
    for t in range(11):
        q, new = module.queries_keys_values(x[:, t : t + 1])
        past = new if past is None else past.append(new)
        torch.testing.assert_close(module.attend(q, past, causal=True), whole[:, t : t + 1], atol=1e-12, rtol=1e-12)
