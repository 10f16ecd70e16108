"""Every line of a journal is an event, even after its writer was killed."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from regard.errors import RunError
from regard.training import Journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def events(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a journal."""
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def test_events_are_read_in_order_with_their_time(path: Path) -> None:
    with Journal(path) as journal:
        journal.record("resume", step=3, skipped=["step-00000004"], flush=True)
        journal.record("step", step=4, loss=0.1 + 0.2, sample="Ein Hund läuft.\n\u2028")
    first, second = events(path)
    assert (first["event"], first["step"], first["skipped"]) == ("resume", 3, ["step-00000004"])
    assert (second["loss"], second["sample"]) == (0.1 + 0.2, "Ein Hund läuft.\n\u2028")
    assert second["at"].endswith("+00:00")


def test_an_event_can_be_read_before_the_journal_is_closed(path: Path) -> None:
    with Journal(path) as journal:
        journal.record("step", step=1)
        assert [event["step"] for event in events(path)] == [1]


def test_nan_and_infinity_are_written_as_strings(path: Path) -> None:
    with Journal(path) as journal:
        journal.record("step", loss=float("nan"), rates=(float("inf"), {"deep": -float("inf")}), text="\udc80")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    event = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert (event["loss"], event["rates"]) == ("nan", ["inf", {"deep": "-inf"}])


def test_incomplete_last_line_is_ignored_and_then_removed(path: Path) -> None:
    with Journal(path) as journal:
        journal.record("step", step=1)
        journal.record("step", step=2, text="x" * 10_000)
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for cut in (0, 1, second - 1, second, second + 1, second + 5000, len(whole) - 1):
        path.write_bytes(whole[:cut])
        before = [event["step"] for event in events(path)]
        assert before == ([1] if cut >= second else [])
        with Journal(path) as journal:
            journal.record("step", step=3)
        assert [event["step"] for event in events(path)] == [*before, 3]


def test_full_disk_raises_run_error_and_leaves_complete_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) <= 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:20])

    with Journal(path) as journal:
        journal.record("step", step=1)
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", half)
            with pytest.raises(RunError, match=r"could not write .*journal\.jsonl: no space left on device; hint"):
                journal.record("step", step=2)
        assert path.read_bytes().endswith(b"}\n")
        journal.record("step", step=3)
    assert [event["step"] for event in events(path)] == [1, 3]


def test_journal_that_cannot_be_opened_raises_run_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="could not write"):
        Journal(tmp_path / "nowhere" / "journal.jsonl")
