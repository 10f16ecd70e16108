"""Sections 3.4 and 3.5: embeddings, sinusoidal positions of any length, and learned positions."""

from math import cos, sin, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.nn import Embedding, InputEmbedding, LearnedPositions, SinusoidalPositions, sinusoid


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


def test_the_table_grows_and_keeps_its_values() -> None:
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
def test_positions_around_the_end_of_the_table_are_correct(n: int) -> None:
    assert torch.equal(SinusoidalPositions(8)(n), sinusoid(n, 8))
    assert torch.equal(SinusoidalPositions(8)(2, first=n - 2), sinusoid(2, 8, first=n - 2))


class RacedPositions(SinusoidalPositions):
    """As if another thread replaced each new table by a short one at once."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, sinusoid(256, self.d_model) if name == "table" and hasattr(self, "table") else value)


def test_a_table_that_another_thread_replaces_does_not_change_the_result() -> None:
    assert torch.equal(RacedPositions(8)(5, first=5000), sinusoid(5, 8, first=5000))


def test_a_table_that_grew_in_inference_mode_is_no_inference_tensor() -> None:
    positions = SinusoidalPositions(8)
    with torch.inference_mode():
        positions(1000)
    assert not positions.table.is_inference()


def test_sinusoids_are_not_saved_with_the_weights() -> None:
    assert SinusoidalPositions(8).state_dict() == {}


@given(st.integers(0, 5000), st.integers(1, 500))
@settings(max_examples=30, deadline=None)
def test_a_shift_by_k_is_the_same_linear_map_at_every_position(pos: int, k: int) -> None:
    """The paper's reason for sinusoids: PE(pos + k) is a linear function of PE(pos), a rotation."""
    d_model = 16
    rotation = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        angle = k / 10_000 ** (i / d_model)
        rotation[i : i + 2, i : i + 2] = torch.tensor([[cos(angle), sin(angle)], [-sin(angle), cos(angle)]])
    here, there = (sinusoid(1, d_model, first=p)[0].double() for p in (pos, pos + k))
    torch.testing.assert_close(rotation @ here, there, atol=1e-6, rtol=0)


def test_learned_positions_return_their_rows_and_get_gradients() -> None:
    positions = LearnedPositions(8, max_positions=10)
    assert torch.equal(positions(4, first=6), positions.table[6:])
    positions(4).sum().backward()
    assert positions.table.grad.sum(-1).tolist() == [8.0] * 4 + [0.0] * 6


@pytest.mark.parametrize(("n", "first"), [(11, 0), (1, 10), (5, 6)])
def test_positions_beyond_the_learned_ones_raise_value_error(n: int, first: int) -> None:
    with pytest.raises(ValueError, match="model learned 10"):
        LearnedPositions(8, max_positions=10)(n, first)


def test_embeddings_are_scaled_by_the_root_of_d_model_to_unit_variance() -> None:
    torch.manual_seed(1)
    embedding, ids = Embedding(500, 64), torch.tensor([[4, 7], [7, 499]])
    torch.testing.assert_close(embedding(ids), embedding.weight[ids] * 8)
    assert embedding(torch.arange(500)).std().item() == pytest.approx(1, abs=0.03)
    assert embedding.weight.std().item() == pytest.approx(1 / 8, abs=0.01)


def test_input_is_embedding_plus_position_with_dropout_on_the_sum() -> None:
    embedding, ids = Embedding(20, 8), torch.tensor([[4, 7, 1]])
    module = InputEmbedding(embedding, SinusoidalPositions(8), 0.5)
    expected = embedding.weight[ids] * sqrt(8) + sinusoid(3, 8, first=11)
    torch.testing.assert_close(module.eval()(ids, first=11), expected)
    out = module.train()(ids.expand(500, 3), first=11)
    dropped = out == 0
    assert float(dropped.float().mean()) == pytest.approx(0.5, abs=0.03)
    torch.testing.assert_close(out[~dropped], 2 * expected.expand(500, 3, 8)[~dropped])


def test_learned_positions_are_added_like_sinusoids() -> None:
    embedding, positions, ids = Embedding(20, 8), LearnedPositions(8, 16), torch.tensor([[4, 7, 1]])
    out = InputEmbedding(embedding, positions, 0.0)(ids, first=2)
    torch.testing.assert_close(out, embedding.weight[ids] * sqrt(8) + positions.table[2:5])
