"""Section 5.4: dropout that keeps the mean, and is a pure function of torch's seed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.nn import Dropout


def seeded(seed: int, dropout: Dropout, x: Tensor) -> Tensor:
    torch.manual_seed(seed)
    return dropout(x)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_a_share_of_p_is_dropped_and_the_rest_scaled_so_that_the_mean_stays(p: float) -> None:
    out = seeded(1, Dropout(p), torch.ones(400, 1000))
    assert float((out == 0).float().mean()) == pytest.approx(p, abs=0.004)
    kept = out[out != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)))
    assert float(out.mean()) == pytest.approx(1, abs=0.004 / (1 - p))


def test_elements_are_dropped_independently_of_their_neighbours() -> None:
    dropped = (seeded(2, Dropout(0.5), torch.ones(400_000)) == 0).float()
    for distance in (1, 2, 3, 4, 8):  # four elements share a random word
        together = (dropped[:-distance] * dropped[distance:]).mean()
        assert float(together) == pytest.approx(0.25, abs=0.004)
    for place in range(4):
        assert float(dropped[place::4].mean()) == pytest.approx(0.5, abs=0.006)


@given(st.integers(1, 70), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_dropout_is_a_pure_function_of_the_seed(n: int, seed: int) -> None:
    x, dropout = torch.rand(n, 3) + 1, Dropout(0.4)
    out = seeded(seed, dropout, x)
    assert torch.equal(out, seeded(seed, dropout, x))
    assert bool(((out == 0) | ((out - x / 0.6).abs() < 1e-5)).all())


def test_another_seed_or_another_call_drops_others() -> None:
    x, dropout = torch.ones(1000), Dropout(0.5)
    first = seeded(1, dropout, x)
    assert not torch.equal(first, dropout(x))
    assert not torch.equal(first, seeded(2, dropout, x))


def test_the_draw_does_not_depend_on_how_the_tensor_lies_in_memory() -> None:
    x = torch.rand(6, 10)
    turned = x.t().contiguous().t()
    assert not turned.is_contiguous()
    assert torch.equal(seeded(1, Dropout(0.5), x), seeded(1, Dropout(0.5), turned))


def test_nothing_is_dropped_in_eval_or_with_p_of_zero() -> None:
    x, y = torch.rand(50, 50), torch.rand(50, 50)
    for dropout in (Dropout(0.9).eval(), Dropout(0.0)):
        assert dropout(x) is x
        assert torch.equal(dropout.add(x, y), x + y)


def test_add_equals_the_sum_with_what_was_dropped() -> None:
    x, y, dropout = torch.rand(50, 51), torch.rand(50, 51), Dropout(0.3)
    apart = x + seeded(5, dropout, y)
    torch.manual_seed(5)
    torch.testing.assert_close(dropout.add(x, y), apart)


def test_gradients_flow_where_values_flowed() -> None:
    x, y = torch.zeros(1000, requires_grad=True), torch.ones(1000, requires_grad=True)
    out = Dropout(0.3).add(x, y)
    out.sum().backward()
    assert torch.equal(x.grad, torch.ones(1000))
    assert torch.equal(y.grad, out.detach())


@pytest.mark.parametrize("p", [0.9999, 0.999_999])
def test_a_probability_near_one_drops_nearly_all(p: float) -> None:
    assert float((seeded(1, Dropout(p), torch.ones(100_000)) != 0).float().mean()) < 0.001


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5])
def test_a_probability_outside_the_range_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="dropout must be at least 0 and below 1"):
        Dropout(p)
