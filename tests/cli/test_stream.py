"""Windows of lines: in order, one begun ahead, and nobody is kept waiting for lines that do not come."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from regard.cli import stream
from regard.cli.stream import Job, Stream
from regard.text import ReadNotes


class Quiet:
    def note(self, name: str, notes: ReadNotes) -> None: ...


def run(source: Path, out: Path, begin: Callable[[list[str]], Callable[[], str]]) -> None:
    Stream(Job(source, out), resume=False, identity="x").run(begin, Quiet())


def test_the_next_window_is_begun_before_the_last_one_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "WINDOW_LINES", 2)
    happened: list[str] = []

    def begin(lines: list[str]) -> Callable[[], str]:
        happened.append(f"begin {lines[0]}")

        def wait() -> str:
            happened.append(f"wait {lines[0]}")
            return "".join(f"<{line}>\n" for line in lines)

        return wait

    (tmp_path / "in").write_text("a\nb\nc\nd\ne\n")
    run(tmp_path / "in", tmp_path / "out", begin)
    assert (tmp_path / "out").read_text() == "<a>\n<b>\n<c>\n<d>\n<e>\n"
    assert happened == ["begin a", "begin c", "wait a", "begin e", "wait c", "wait e"]


def test_a_full_window_is_answered_though_its_input_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW_LINES", 2)
    os.mkfifo(tmp_path / "in")
    answered: list[list[str]] = []

    def begin(lines: list[str]) -> Callable[[], str]:
        def wait() -> str:
            answered.append(lines)
            return "x\n" * len(lines)

        return wait

    reading = Thread(target=run, args=(tmp_path / "in", tmp_path / "out", begin), daemon=True)
    reading.start()
    with (tmp_path / "in").open("w") as writer:
        writer.write("a\nb\n")
        writer.flush()
        until = time.monotonic() + 20
        while not answered and time.monotonic() < until:
            time.sleep(0.01)
        assert answered == [["a", "b"]]
    reading.join(20)
    assert (tmp_path / "out").read_text() == "x\nx\n"
