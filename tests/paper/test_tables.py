"""Tables 2 and 3: rows are runs, and what is measured of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.artifact import describe, load_model
from regard.errors import DataError, TrainingStopped
from regard.paper.measure import flops_per_token, training_steps
from regard.paper.rows import ARCHITECTURE_ROWS, Trainer, choose
from regard.paper.table2 import table2
from regard.paper.table3 import VARIANTS, prediction_half_width, table3
from regard.paper.texts import PaperText, own_text, write_pairs

from .conftest import Recorder

MakeTrainer = Callable[..., Trainer]
TRANSFORMER = ARCHITECTURE_ROWS[-1:]


def test_rows_with_equal_steps_have_the_same_batches(
    letters: PaperText, make_trainer: MakeTrainer, recorder: Recorder, tmp_path: Path
) -> None:
    document = table2(
        letters, make_trainer(letters), "steps", choose(ARCHITECTURE_ROWS, ["gru-attention", "transformer"])
    )
    rows = document.values["rows"]
    assert list(rows) == ["gru-attention", "transformer"]
    assert rows["gru-attention"]["n_tokens"] == rows["transformer"]["n_tokens"]
    assert [row["steps"] for row in rows.values()] == [3, 3]
    assert [(row["label"], row["number"], row["n_rows"], row["n_after"]) for row in recorder.rows] == [
        ("Transformer", 1, 2, 1),
        ("GRU, additive attention", 2, 2, 0),
    ]
    out = tmp_path / "out"
    assert rows["transformer"]["flops"] == pytest.approx(
        rows["transformer"]["n_tokens"] * flops_per_token(out / "transformer", load_model(out / "transformer").model)
    )
    document.write(out)
    assert json.loads((out / "table2.json").read_text())["equal"] == "steps"
    # again: nothing is trained or measured a second time, unless the test set is another one
    n_steps = recorder.n_steps
    again = table2(letters, make_trainer(letters), "steps", choose(ARCHITECTURE_ROWS, ["gru-attention", "transformer"]))
    assert recorder.n_steps == n_steps
    assert again.to_markdown() == document.to_markdown()
    sources, references = letters.test_pairs()
    write_pairs(letters.test, [*zip(sources, references, strict=True)][:3])
    changed = table2(letters, make_trainer(letters), "steps", TRANSFORMER)
    assert changed.values["rows"]["transformer"]["n_sentences"] == 3


def test_a_row_that_was_stopped_goes_on(letters: PaperText, make_trainer: MakeTrainer, tmp_path: Path) -> None:
    class StopsAtStep2(Recorder):
        def on_event(self, event: str, **fields: Any) -> None:
            super().on_event(event, **fields)
            if event == "step" and fields["step"] == 2:
                raise TrainingStopped(2, 2)

    trainer = make_trainer(letters).with_values({"training": {"save_every": 1}})
    with pytest.raises(TrainingStopped):
        table2(letters, trainer._replace(callbacks=StopsAtStep2()), "steps", TRANSFORMER)
    document = table2(letters, trainer, "steps", TRANSFORMER)
    assert document.values["rows"]["transformer"]["steps"] == 3
    assert [step["step"] for step in training_steps(tmp_path / "out" / "transformer")] == [1, 2, 3]


def test_rows_with_equal_parameters_have_them(letters: PaperText, make_trainer: MakeTrainer) -> None:
    rows = table2(
        letters, make_trainer(letters, steps=1), "parameters", choose(ARCHITECTURE_ROWS, ["lstm", "transformer"])
    ).values["rows"]
    assert rows["lstm"]["n_parameters"] == pytest.approx(rows["transformer"]["n_parameters"], rel=0.05)


def test_table_3_changes_one_thing_and_marks_noise(
    letters: PaperText, make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    document = table3(letters, make_trainer(letters, steps=2), 2, VARIANTS[1:2])
    assert list(document.values["rows"]) == ["base", "base-2", "heads-1"]
    models = {name: describe(tmp_path / "out" / name).model for name in document.values["rows"]}
    assert models["base"] == models["base-2"] == models["heads-1"] | {"n_heads": 4}
    assert models["heads-1"]["n_heads"] == 1
    markdown = document.to_markdown()
    assert "| A | heads-1 | h 1 |" in markdown and "Base is the mean of 2 seeds" in markdown


def test_every_variant_differs_from_base_in_one_group_of_values() -> None:
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS) == 17
    assert all(bool(variant.model) != bool(variant.training) for variant in VARIANTS[1:])


def test_the_noise_of_seeds_is_that_of_a_new_run() -> None:
    assert prediction_half_width([1.0, 2.0, 3.0]) == pytest.approx(4.303 * (4 / 3) ** 0.5, abs=1e-3)
    assert prediction_half_width([1.0]) is None


def test_a_text_without_a_validation_set_is_split(tmp_path: Path, letters: PaperText) -> None:
    train, validation = (path.read_text().splitlines() for path in (letters.train[0], letters.validation[0]))
    assert len(train) + len(validation) == 200 and validation
    assert not {*train} & {*validation}
    assert own_text(tmp_path / "data", letters.train, letters.validation, None).test == letters.validation
    short = tmp_path / "short.en"
    short.write_text("one line\n")
    with pytest.raises(DataError, match="too short to hold out"):
        own_text(tmp_path / "short", (short, short), None, None)
