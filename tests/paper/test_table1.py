"""Table 1: formulas beside measurements."""

from pathlib import Path

import pytest
import torch

from regard.errors import UserError
from regard.models.transformer import TransformerMemory, TransformerState
from regard.nn import KeyValues
from regard.paper.rows import ARCHITECTURE_ROWS
from regard.paper.table1 import build, crossover, exponent, measured_path, n_bytes, table1
from regard.run import Callbacks

ROWS = {row.name: row for row in ARCHITECTURE_ROWS}


def test_an_exponent_is_that_of_the_longest_lengths() -> None:
    linear_after_a_constant = [(n, max(100.0, n)) for n in (8.0, 16.0, 128.0, 256.0, 512.0, 1024.0)]
    assert exponent(linear_after_a_constant) == pytest.approx(1)
    assert exponent([(n, 3 * n**2) for n in (2.0, 4.0, 8.0)]) == pytest.approx(2)


def test_the_bytes_of_a_state_are_those_of_its_tensors() -> None:
    keys = KeyValues(torch.zeros(1, 2, 5, 4), torch.zeros(1, 2, 5, 4))
    state = TransformerState(3, (None, keys), (keys,), torch.zeros(5, dtype=torch.bool))
    assert n_bytes(state) == 4 * 40 * 4 + 5
    assert n_bytes(TransformerMemory(torch.zeros(3), None)) == 12


@pytest.mark.parametrize(("name", "n"), [("transformer", 8), ("bytenet", 8), ("bytenet", 24)])
def test_the_path_by_formula_is_what_perturbation_measures(name: str, n: int) -> None:
    model = build(ROWS[name])
    assert measured_path(model, n) == model.cost(n, n).path


def test_convolutions_that_are_too_few_do_not_connect_all_positions() -> None:
    model = build(ROWS["convs2s"])  # 5 layers that see one position to each side
    assert [(n, measured_path(model, n), model.cost(n, n).path) for n in (6, 7)] == [(6, 5, 5), (7, None, None)]


def test_beyond_the_crossover_most_operations_grow_with_the_square() -> None:
    model = build(ROWS["transformer"])
    n = round(crossover(model))
    assert 500 < n < 1500
    once, twice = model.cost(n, n).flops, model.cost(2 * n, 2 * n).flops
    assert twice / once == pytest.approx(3, rel=0.01)  # half of it doubles, the other half becomes four times as much


def test_the_table_has_every_length_and_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.paper.table1._SECONDS", 0.0)
    document = table1(Callbacks(), longest=16, rows=[ROWS["transformer"], ROWS["lstm"]])
    assert document.values["lengths"] == [8, 16]
    points = document.values["rows"]["lstm"]["points"]
    assert [point["sequential"] for point in points] == [16, 32]
    assert all(point["encoder_ms"] > 0 and point["step_ms"] > 0 for point in points)
    page = document.write(tmp_path).read_text()
    assert "Encoder, ms" in page and "<svg" in page
    assert "| Transformer |" in (tmp_path / "table1.md").read_text()


def test_a_length_without_growth_is_refused() -> None:
    with pytest.raises(UserError, match="too short"):
        table1(Callbacks(), longest=8)
