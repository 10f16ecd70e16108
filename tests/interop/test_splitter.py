"""The rule inside an Argos package splits sentences, run by MiniSBD itself."""

from pathlib import Path

import pytest
from minisbd import SBDetect

from regard.interop.argos.splitter import splitter

TEXTS = {
    "en": [
        "Hello there.|How are you?|I am fine!",
        'Mr. Smith met Dr. J. Brown vs. the others.|He said "Stop."|Then he left (really.)|Pi is 3.14, e.g. here.',
        "See https://a.b.com/x.y?q=1.|Next one.",
        "no end",
        "It was 1999.|Then ... it went on?!|Yes.",
        "这是第一句。|这是第二句！|“好。”|对",
    ],
    "de": ["Am 3. Juli kam er z. B. nach Hause.|Dann ging er.", "„Halt.“|Er hielt."],
}


@pytest.mark.parametrize("language", TEXTS)
def test_sentences_end_where_they_end(language: str, tmp_path: Path) -> None:
    (tmp_path / "rule.onnx").write_bytes(splitter(language))
    detector = SBDetect(str(tmp_path / "rule.onnx"), use_gpu=False)
    for text in TEXTS[language]:
        glue = "" if "这" in text else " "
        assert detector.sentences(text.replace("|", glue)) == text.split("|")
    assert detector.sentences("") == []
    long = "and so " * 900 + "on."  # MiniSBD cuts a text of more than 1,000 characters
    assert detector.sentences(f"{long} Next.") == [long, "Next."]
