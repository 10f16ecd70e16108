"""`report.html`, the built-in corpus and invalid commands, through the command line."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.report import RunReader

Inline = Callable[..., Any]
Arguments = Callable[..., list[str]]
FEW = ("training.steps=6", "training.validate_every=3", "training.save_every=3", "training.translated=4")


def test_training_writes_a_report_at_its_end(inline: Inline, text: Any, arguments: Arguments, tmp_path: Path) -> None:
    assert inline(*arguments(text, "run", *FEW)).returncode == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<b>finished</b> · 6 steps" in page
    assert "refresh" not in page
    summary = RunReader(tmp_path / "run").read()
    assert [point.step for point in summary.steps] == [1, 2, 3, 4, 5, 6]
    assert [point.step for point in summary.validations] == [3, 6]
    assert len(summary.samples) == 3
    assert summary.plan is not None and summary.plan["n_pairs"] == summary.facts["n_pairs"]  # type: ignore[index]
    assert summary.plan["n_parameters"] == summary.facts["n_parameters"]  # type: ignore[index]
    assert [corpus["n_pairs"] for corpus in summary.corpora] == [300]
    assert len(summary.facts["cross_heads"]["agreement"][0]) == 2  # type: ignore[index]
    events = [json.loads(line)["event"] for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    assert events[:3] == ["examined", "plan", "step"]


def test_missing_report_of_a_finished_run_is_restored(
    inline: Inline, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    page = tmp_path / "run" / "report.html"
    assert inline(*arguments(text, "run", *FEW)).returncode == 0
    before = page.stat().st_mtime_ns
    assert inline(*arguments(text, "run", *FEW)).returncode == 0
    assert page.stat().st_mtime_ns == before
    page.unlink()
    assert "is finished" in inline(*arguments(text, "run", *FEW)).stderr
    assert "<b>finished</b>" in page.read_text()


def test_live_report_is_updated_during_the_training_and_when_it_stops(
    regard: Any, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    slow = ("training.steps=100000", "training.save_every=100000", "training.validate_every=100000")
    process = regard.start(*arguments(text, "run", *slow, "--report"))
    page = tmp_path / "run" / "report.html"
    until = time.monotonic() + 180
    while not (page.exists() and (tmp_path / "run" / "journal.jsonl").read_bytes().count(b'"step"') > 3):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    live = page.read_text()
    assert '<meta http-equiv="refresh"' in live and "<b>training</b>" in live
    summary = RunReader(tmp_path / "run").read()
    assert summary.state == "running" and summary.eta_seconds is not None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=180)
    assert process.returncode == 130
    assert "run/report.html (open it in a browser;" in err
    stopped = page.read_text()
    assert "refresh" not in stopped and "<b>stopped</b>" in stopped
    assert RunReader(tmp_path / "run").read().state == "stopped"


def test_report_that_cannot_be_written_is_only_a_warning(
    inline: Inline, text: Any, arguments: Arguments, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def disk_full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("regard.report.live.write_file", disk_full)
    monkeypatch.setattr("regard.report.live._replace", disk_full)
    result = inline(*arguments(text, "run", *FEW, "--report"))
    assert result.returncode == 0
    assert result.stderr.count("warning: cannot write the report: [Errno 28] No space left on device") == 1
    assert (tmp_path / "run" / "model" / "model.safetensors").exists()
    assert "the report is in" not in result.stderr


def test_street_corpus_needs_no_files(
    inline: Inline, arguments: Arguments, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from regard.demo import first_run
    from regard.demo.street.corpus import make_corpus

    monkeypatch.setattr(
        first_run, "make_corpus", lambda seed, n_train: make_corpus(seed, n_train=300, n_valid=40, n_test=5, n_unseen=5)
    )

    class NoText:
        flags = ("--corpus", "street")

    given = arguments(NoText, "run", *FEW, "text.vocabulary=400")
    assert inline(*given).returncode == 0
    summary = RunReader(tmp_path / "run").read()
    assert summary.plan is not None
    assert (summary.plan["n_pairs"], summary.plan["n_validation"]) == (300, 40)
    assert summary.recipe["data"]["train"][0]["source"] == str(tmp_path / "run" / "data" / "street" / "train.en")
    before = (tmp_path / "run" / "data" / "street" / "train.en").stat().st_mtime_ns
    assert "is finished" in inline(*given).stderr
    assert (tmp_path / "run" / "data" / "street" / "train.en").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train", "missing option '--out'; hint: regard train --help"),
        ("train --out", "option '--out' requires an argument; hint: regard"),
        ("train --out o --sorce a", "no such option: --sorce"),
        ("train --out o --corpus alley", "'alley' is not"),
        (
            "train --out o --corpus street --source a --target b",
            "--corpus street cannot be combined with files; hint: ",
        ),
        (
            "train --out full --corpus street",
            "full is not empty and is not a run directory: it contains something; hint: ",
        ),
        ("trian", "no such command 'trian'"),
        ("translate", "missing argument 'RUN'"),
        ("evaluate", "give either RUN or --output; hint: "),
        ("evaluate --output a", "no reference to score against; hint: add --reference FILE"),
        ("compare a", "missing argument 'B'; hint: regard compare --help"),
        ("check", "missing argument"),
        ("evaluate --reference a --beam x", "invalid value for '--beam'"),
        ("evaluate --reference a --beam 0", "invalid value for '--beam'"),
    ],
)
def test_invalid_command_is_one_line_with_a_hint(inline: Inline, tmp_path: Path, arguments: str, message: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    result = inline(*arguments.split())
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and message in line and "; hint: " in line
    assert [entry.name for entry in (tmp_path / "full").iterdir()] == ["something"]


def test_no_arguments_print_the_help(inline: Inline) -> None:
    result = inline()
    assert result.returncode == 2
    assert "Usage: regard" in result.stdout and "train" in result.stdout
    assert result.stderr == ""


def test_failed_start_leaves_no_directory(inline: Inline, tmp_path: Path) -> None:
    assert inline("train", "--source", "none", "--target", "none", "--out", "run").returncode == 2
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    assert inline("train", "--source", "none", "--target", "none", "--out", "mine").returncode == 2
    assert (tmp_path / "mine").is_dir()  # it was there before
