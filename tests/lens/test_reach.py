"""How far models see: what is known of each architecture is what is measured."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from regard.lens.reach import Reach, measure_reach
from regard.models import ARCHITECTURES, ModelSpec

SOURCE, INPUTS, OUTPUTS = [5, 6, 7, 8, 9, 10, 4, 3], [2, 7, 7, 7, 9, 8], [7, 7, 7, 9, 8, 3]
ROW, COLUMN = np.indices((len(SOURCE), len(SOURCE)))
T, U = np.indices((len(INPUTS), len(INPUTS)))


def reach(architecture: str, **config: Any) -> dict[tuple[str, str], Reach]:
    torch.manual_seed(1)
    sizes = {"n_src_symbols": 12, "n_tgt_symbols": 12, "pad_id": 0}
    config_type = ARCHITECTURES[architecture].config
    model = ModelSpec("translation", architecture, config_type(d_model=16, **config), sizes).build()
    return {(r.rows, r.columns): r for r in measure_reach(model.eval(), SOURCE, INPUTS, OUTPUTS)}


def first_of(*radius: int, distance: NDArray[Any]) -> NDArray[Any]:
    """The first layer whose radius is at least the distance; 0 where none is, or where the distance is negative."""
    layers = np.zeros_like(distance)
    for layer in range(len(radius), 0, -1):
        layers[(distance >= 0) & (distance <= radius[layer - 1])] = layer
    return layers


def test_attention_sees_everything_after_one_layer() -> None:
    measured = reach("transformer", n_encoder_layers=2, n_decoder_layers=2, d_ff=16, n_heads=2)
    assert (measured["source", "source"].first_layer == 1).all()
    assert (measured["target", "target"].first_layer == (T >= U)).all()
    assert (measured["target", "source"].first_layer == 1).all()
    assert measured["source", "source"].layers == ("encoder.0", "encoder.1")


def test_each_convolution_sees_one_token_more_and_attention_the_whole_source() -> None:
    measured = reach("convs2s", n_encoder_layers=3, n_decoder_layers=2)
    np.testing.assert_array_equal(
        measured["source", "source"].first_layer, first_of(1, 2, 3, distance=abs(ROW - COLUMN))
    )
    assert measured["source", "source"].distances(2) == (-2, 2)
    np.testing.assert_array_equal(measured["target", "target"].first_layer, first_of(2, 4, distance=T - U))
    assert (measured["target", "source"].first_layer == 1).all()
    assert measured["target", "source"].share(1) == 1


def test_dilation_doubles_from_layer_to_layer() -> None:
    measured = reach("bytenet", n_sets=1, n_dilations=3)
    np.testing.assert_array_equal(
        measured["source", "source"].first_layer, first_of(1, 3, 7, distance=abs(ROW - COLUMN))
    )
    np.testing.assert_array_equal(measured["target", "target"].first_layer, first_of(2, 6, 14, distance=T - U))
    t, s = np.indices((len(INPUTS), len(SOURCE)))
    assert measured["target", "source"].first_layer[0].tolist() == [1] * 8  # 7 blocks of columns to each side
    assert (measured["target", "source"].first_layer[t + 7 >= s] == 1).all()


@pytest.mark.parametrize("bidirectional", [True, False])
def test_recurrence_sees_everything_that_was_read_before(bidirectional: bool) -> None:
    measured = reach("lstm", attention="none", bidirectional=bidirectional, reverse=False)
    expected = np.ones_like(ROW) if bidirectional else (COLUMN <= ROW).astype(int)
    np.testing.assert_array_equal(measured["source", "source"].first_layer, expected)
    assert (measured["target", "source"].first_layer == 1).all()
