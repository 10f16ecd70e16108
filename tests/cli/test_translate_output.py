"""What is said of the lines at the end, and what an output depends on."""

from pathlib import Path
from typing import Any

import pytest

from regard.cli.translate import output
from regard.cli.translate.output import Audit, Form
from regard.decoding.options import DecodingOptions
from regard.translator import Translation, Translator

GOLDEN = Path(__file__).parents[1] / "golden" / "model"
LOOPING, FINE = Translation("ha ha", warnings=("loops",)), Translation("fine")


def test_a_warning_names_its_file_and_the_line_within_it() -> None:
    audit = Audit(list_warnings=True)
    audit.start("a.txt", 0)
    for one in (FINE, LOOPING):
        audit.see(one)
    audit.start("b.txt", 5_000)  # so many were done before
    audit.see(LOOPING)
    assert audit.lines() == ["3 lines: 2 loops", "a.txt:2: loops: ha ha", "b.txt:5001: loops: ha ha"]


def test_only_so_many_warnings_are_listed_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_MOST_LISTED", 2)
    audit = Audit(list_warnings=True)
    for _ in range(5):
        audit.see(LOOPING)
    assert len(audit.listed) == 2
    assert audit.lines()[-2:] == ["standard input:2: loops: ha ha", "and 3 others"]


def test_another_engine_or_precision_is_another_output() -> None:
    form = Form("text", DecodingOptions(), None, None)

    def identity(**how: Any) -> str:
        with Translator.load(GOLDEN, threads=1, **how) as translator:
            return form.identity(translator)

    fast = {"engine": "ctranslate2"}
    found = [identity(**fast), identity(**fast, precision="float32"), identity(engine="torch", precision="float32")]
    assert len(set(found)) == 3
    assert identity(**fast) == found[0]
    assert identity(engine="torch") == found[2]  # torch has one precision
