"""Section 5.4: dropout keeps the mean and is a pure function of torch's seed."""

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
def test_a_fraction_p_is_dropped_and_the_mean_stays_the_same(p: float) -> None:
    out = seeded(1, Dropout(p), torch.ones(400, 1000))
    assert float((out == 0).float().mean()) == pytest.approx(p, abs=0.004)
    remaining = out[out != 0]
    torch.testing.assert_close(remaining, torch.full_like(remaining, 1 / (1 - p)))
    assert float(out.mean()) == pytest.approx(1, abs=0.004 / (1 - p))


def test_elements_are_dropped_independently_of_their_neighbours() -> None:
    dropped = (seeded(2, Dropout(0.5), torch.ones(400_000)) == 0).float()
    for distance in (1, 2, 3, 4, 8):  # four elements share a random word
        together = (dropped[:-distance] * dropped[distance:]).mean()
        assert float(together) == pytest.approx(0.25, abs=0.004)
    for position in range(4):
        assert float(dropped[position::4].mean()) == pytest.approx(0.5, abs=0.006)


@given(st.integers(1, 70), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_dropout_is_a_pure_function_of_the_seed(n: int, seed: int) -> None:
    x, dropout = torch.rand(n, 3) + 1, Dropout(0.4)
    out = seeded(seed, dropout, x)
    assert torch.equal(out, seeded(seed, dropout, x))
    assert bool(((out == 0) | ((out - x / 0.6).abs() < 1e-5)).all())


def test_another_seed_or_call_drops_other_elements() -> None:
    x, dropout = torch.ones(1000), Dropout(0.5)
    first = seeded(1, dropout, x)
    assert not torch.equal(first, dropout(x))
    assert not torch.equal(first, seeded(2, dropout, x))


def test_dropout_does_not_depend_on_the_memory_layout() -> None:
    x = torch.rand(6, 10)
    transposed = x.t().contiguous().t()
    assert not transposed.is_contiguous()
    assert torch.equal(seeded(1, Dropout(0.5), x), seeded(1, Dropout(0.5), transposed))


def test_nothing_is_dropped_in_eval_or_with_p_of_zero() -> None:
    x, y = torch.rand(50, 50), torch.rand(50, 50)
    for dropout in (Dropout(0.9).eval(), Dropout(0.0)):
        assert dropout(x) is x
        assert torch.equal(dropout.add(x, y), x + y)


def test_add_equals_x_plus_dropout_of_y() -> None:
    x, y, dropout = torch.rand(50, 51), torch.rand(50, 51), Dropout(0.3)
    expected = x + seeded(5, dropout, y)
    torch.manual_seed(5)
    torch.testing.assert_close(dropout.add(x, y), expected)


def test_gradients_are_dropped_where_values_were() -> None:
    x, y = torch.zeros(1000, requires_grad=True), torch.ones(1000, requires_grad=True)
    out = Dropout(0.3).add(x, y)
    out.sum().backward()
    assert torch.equal(x.grad, torch.ones(1000))
    assert torch.equal(y.grad, out.detach())


@pytest.mark.parametrize("p", [0.9999, 0.999_999])
def test_a_probability_near_one_drops_nearly_everything(p: float) -> None:
    assert float((seeded(1, Dropout(p), torch.ones(100_000)) != 0).float().mean()) < 0.001


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5])
def test_an_invalid_probability_raises_value_error(p: float) -> None:
    with pytest.raises(ValueError, match="dropout must be at least 0 and below 1"):
        Dropout(p)
