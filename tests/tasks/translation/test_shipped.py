"""What is shipped is measured: int8 beside float32."""

from pathlib import Path

import pytest

from regard.artifact import describe
from regard.report import int8_sentence
from regard.run import train
from regard.tasks.translation import shipped
from regard.translator import Translator

from ...digits import reversed_digits


@pytest.mark.parametrize(("bound", "precision"), [(0.5, "int8"), (-1e9, "float32")])
def test_float32_is_the_default_where_int8_loses_more_than_the_bound(
    bound: float, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "MAX_BLEU_LOST", bound)
    pairs = reversed_digits(300, seed=1)
    (tmp_path / "text.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    sizes = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2}
    recipe = {
        "data": {"train": [{"tsv": str(tmp_path / "text.tsv")}]},
        "model": sizes,
        "training": {"steps": 2, "max_tokens": 256, "translated": 10},
    }
    train(recipe, tmp_path / "run")
    facts = describe(tmp_path / "run").facts
    assert facts["precision"] == precision
    assert facts["int8"]["n"] == 10
    assert 0 <= facts["int8"]["equal"] <= 1
    assert ("float32 is the default" in str(int8_sentence(facts))) == (precision == "float32")
    with Translator.load(tmp_path / "run") as translator:
        assert translator.precision == precision
    with Translator.load(tmp_path / "run", precision="int8") as translator:
        assert translator.precision == "int8"
