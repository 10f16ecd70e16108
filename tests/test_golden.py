"""A model that an older version wrote must load, and say what it said then."""

from pathlib import Path

import pytest

from regard.translator import Translator

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_stored_model_translates_as_it_did_when_it_was_made(engine: str) -> None:
    lines = (GOLDEN / "source.txt").read_text(encoding="utf-8").split("\n")[:-1]
    expected = (GOLDEN / "expected.txt").read_text(encoding="utf-8").split("\n")[:-1]
    with Translator.load(GOLDEN / "model", engine=engine, precision="float32", threads=1) as translator:
        assert [one.text for one in translator.translate(lines)] == expected
