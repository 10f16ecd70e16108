"""Section 3.5: the waves of the paper, past any training length; and learned positions that say where they end."""

from math import cos, sin

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.nn import LearnedPositions, SinusoidalPositions, sinusoid


def formula(pos: int, column: int, d_model: int) -> float:
    angle = pos / 10_000 ** ((column - column % 2) / d_model)
    return cos(angle) if column % 2 else sin(angle)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from([2, 4, 6, 64, 512]), st.data())
def test_sinusoids_equal_the_formula(pos: int, d_model: int, data: st.DataObject) -> None:
    column = data.draw(st.integers(0, d_model - 1))
    row = sinusoid(1, d_model, first=pos)[0]
    assert row.shape == (d_model,)
    assert float(row[column]) == pytest.approx(formula(pos, column, d_model), abs=1e-6)


def test_the_table_grows_past_its_first_length_and_stays_right() -> None:
    positions = SinusoidalPositions(16)
    first_length = len(positions.table)
    early = positions(10).clone()
    far = positions(5, first=5000)
    assert len(positions.table) > 5000 > first_length
    for column in range(16):
        assert float(far[0, column]) == pytest.approx(formula(5000, column, 16), abs=1e-6)
        assert float(far[4, column]) == pytest.approx(formula(5004, column, 16), abs=1e-6)
    assert torch.equal(positions(10), early)
    assert torch.equal(positions(3, first=5001), far[1:4])


@pytest.mark.parametrize("n", [255, 256, 257, 512, 513])
def test_no_position_is_lost_or_repeated_where_the_table_ends(n: int) -> None:
    assert torch.equal(SinusoidalPositions(8)(n), sinusoid(n, 8))
    assert torch.equal(SinusoidalPositions(8)(2, first=n - 2), sinusoid(2, 8, first=n - 2))


class Raced(SinusoidalPositions):
    """Whatever table it gets, another thread puts a short one there right after."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, sinusoid(256, self.d_model) if name == "table" and hasattr(self, "table") else value)


def test_a_table_that_another_thread_replaces_is_not_read_from() -> None:
    assert torch.equal(Raced(8)(5, first=5000), sinusoid(5, 8, first=5000))


def test_a_table_that_grew_under_validation_can_still_be_trained_with() -> None:
    positions = SinusoidalPositions(8)
    with torch.inference_mode():
        positions(1000)
    assert not positions.table.is_inference()


def test_the_waves_are_not_saved_with_the_weights() -> None:
    assert SinusoidalPositions(8).state_dict() == {}


@given(st.integers(0, 5000), st.integers(1, 500))
@settings(max_examples=30, deadline=None)
def test_a_shift_by_k_is_the_same_linear_map_at_every_position(pos: int, k: int) -> None:
    """The paper's reason for the waves: PE(pos + k) is a linear function of PE(pos), here a rotation."""
    d_model = 16
    turn = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        angle = k / 10_000 ** (i / d_model)
        turn[i : i + 2, i : i + 2] = torch.tensor([[cos(angle), sin(angle)], [-sin(angle), cos(angle)]])
    here, there = (sinusoid(1, d_model, first=p)[0].double() for p in (pos, pos + k))
    torch.testing.assert_close(turn @ here, there, atol=1e-6, rtol=0)


def test_learned_positions_give_their_rows_and_are_learned() -> None:
    positions = LearnedPositions(8, max_positions=10)
    assert torch.equal(positions(4, first=6), positions.table[6:])
    positions(4).sum().backward()
    assert positions.table.grad.sum(-1).tolist() == [8.0] * 4 + [0.0] * 6


@pytest.mark.parametrize(("n", "first"), [(11, 0), (1, 10), (5, 6)])
def test_learned_positions_end_with_a_clear_error(n: int, first: int) -> None:
    with pytest.raises(ValueError, match="model learned 10"):
        LearnedPositions(8, max_positions=10)(n, first)
