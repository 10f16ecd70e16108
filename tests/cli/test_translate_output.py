"""The summary of a translation, and what `--resume` depends on."""

from pathlib import Path
from typing import Any

import pytest

from regard.cli.translate import output
from regard.cli.translate.output import Audit, OutputFormat
from regard.decoding.options import DecodingOptions
from regard.translator import Translation, Translator

GOLDEN = Path(__file__).parents[1] / "golden" / "model"
LOOPING, FINE = Translation("ha ha", warnings=("loops",)), Translation("fine")


def test_warning_names_file_and_line() -> None:
    audit = Audit(list_warnings=True)
    audit.start_file("a.txt", 0)
    for translation in (FINE, LOOPING):
        audit.record(translation)
    audit.start_file("b.txt", 5_000)  # lines that an earlier command translated
    audit.record(LOOPING)
    assert audit.lines() == [
        "3 lines: 2 doubtful",
        "doubtful: 2 repetitive",
        "a.txt:2: repetitive: ha ha",
        "b.txt:5001: repetitive: ha ha",
    ]


def test_summary_names_the_first_doubtful_lines() -> None:
    audit = Audit()
    for _ in range(5):
        audit.record(Translation("3", warnings=("numbers", "unsure")))
    assert audit.lines() == [
        "5 lines: 5 doubtful",
        "doubtful: 5 numbers changed, 5 unsure",
        *(f"standard input:{line}: numbers changed, unsure" for line in (1, 2, 3)),
        "and 2 more; --warnings lists them",
    ]


def test_list_of_warnings_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MAX_LISTED", 2)
    audit = Audit(list_warnings=True)
    for _ in range(5):
        audit.record(LOOPING)
    assert len(audit.listed) == 2
    assert audit.lines()[-2:] == ["standard input:2: repetitive: ha ha", "and 3 more"]


def test_identity_depends_on_engine_and_precision() -> None:
    output_format = OutputFormat("text", DecodingOptions(), None, None)

    def identity(**settings: Any) -> str:
        with Translator.load(GOLDEN, threads=1, **settings) as translator:
            return output_format.identity(translator)

    fast = {"engine": "ctranslate2"}
    identities = [
        identity(**fast),
        identity(**fast, precision="float32"),
        identity(engine="torch", precision="float32"),
    ]
    assert len(set(identities)) == 3
    assert identity(**fast) == identities[0]
    assert identity(engine="torch") == identities[2]  # torch has one precision
