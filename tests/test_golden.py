"""A model written by an older version must load, and give the same translations."""

from pathlib import Path

import pytest

from regard.translator import Translator

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_stored_model_gives_its_stored_translations(engine: str) -> None:
    lines = (GOLDEN / "source.txt").read_text(encoding="utf-8").split("\n")[:-1]
    expected = (GOLDEN / "expected.txt").read_text(encoding="utf-8").split("\n")[:-1]
    with Translator.load(GOLDEN / "model", engine=engine, precision="float32", threads=1) as translator:
        assert [translation.text for translation in translator.translate(lines)] == expected
