"""User errors are one line on stderr with a hint, and exit code 2, before the first step."""

import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inline = Callable[..., Any]
Arguments = Callable[..., list[str]]


def error_of(result: Any) -> str:
    """The error line; progress lines may precede it."""
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert [line.startswith("error: ") for line in lines] == [False] * (len(lines) - 1) + [True], result.stderr
    assert "Traceback" not in result.stderr
    return str(lines[-1])


def files(directory: Path, **contents: bytes) -> None:
    for name, content in contents.items():
        (directory / name).write_bytes(content)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--source a --target b --out o --set model.d_modle=3", "unknown key 'model.d_modle'; did you mean 'd_model'?"),
        ("--source a --target b --out o --set steps", "'steps' is not a setting; hint: write it as training.steps=300"),
        ("--source a --target b --out o --set training.steps=x", "training.steps: Input should be a valid integer"),
        ("--source a --target b --out o --set training=1", "training is a section of the recipe"),
        (
            "--source a --target b --out o --set training={}",
            "training is a section of the recipe; hint: set one of its values, such as training.NAME=VALUE",
        ),
        ("--source a --target b --out o --set model={d_model=64}", "such as model.d_model=VALUE"),
        ("--source a --target b --out o --set model.d_model=65536", "needs at least "),
        ("--source a --target b --out o --set training.accumulate=1000000000000", "lower training.accumulate"),
        ("--source /dev/stdin --target b --out o", "/dev/stdin: is a pipe or a device, not a file"),
        ("--source /dev/urandom --target b --out o", "/dev/urandom: is a pipe or a device, not a file"),
        ("--source a --target b --valid-source /dev/zero --valid-target b --out o", "/dev/zero: is a pipe or a device"),
        ("--source fifo --target b --out o", "fifo: is a pipe or a device, not a file"),
        ("--labels fifo --out o", "fifo: is a pipe or a device, not a file"),
        ("--labels /dev/urandom --out o", "/dev/urandom: is a pipe or a device, not a file"),
        (
            "--source a --target b --out o --budget 5",
            "'5' is not a duration; hint: write for example 90s, 20m, 2h or 1h30m",
        ),
        (
            "--source a --target b --out o --set training.budget_seconds=inf",
            "training.budget_seconds: Input should be ",
        ),
        (f"--source a --target b --out o --set training.seed={2**127}", "training.seed: Input should be less than"),
        ("--source a --target b --out o --budget 0s", "training.budget_seconds: Input should be greater than 0"),
        ("--source a --target b --out o --device tpu", "unknown device 'tpu'; hint: use one of: cuda, mps, cpu"),
        ("--source a --target b --out o --recipe no.toml", "no.toml: no such file"),
        ("--source a --target b --out o --recipe a", "a is not TOML"),
        ("--source a --target b --out o --from nowhere", "there is no model in "),
        ("--source a --target b --out o --resume", "there is no run in o to resume; hint: start one without --resume"),
        ("--source a --target b --out a", "cannot write in a: file exists"),
        ("--source a --target b --out full", "full is not empty and is not a run directory: it contains something"),
        ("--source a --target b --out /proc/regard", "cannot write in /proc/regard: "),
        ("--source a --target none --out o", "none: no such file; hint: check the path"),
        ("--source full --target full --out o", "full: is a directory"),
        ("--source a --target short --out o", "a has 60 lines, "),
        ("--source a --target empty --out o", "has 0"),
        ("--source empty --target empty --out o", "no pair has text on both sides"),
        ("--source one --target one2 --out o", "too few pairs (1) to hold out a validation set"),
        ("--source bad --target b --out o", "bad:7: not valid UTF-8 (byte 0xff at column 1)"),
        ("--source utf16 --target b --out o", "utf16:1: not valid UTF-8 (the file starts like UTF-16)"),
        ("--source cut.gz --target b --out o", "cut.gz: cannot be decompressed after line"),
        ("--source a --out o", "1 --source and 0 --target; hint: each source file needs a target file"),
        ("--source a --target b --valid-source a --out o", "needs both --valid-source and --valid-target"),
        ("--out o", "no training data; hint: use --source and --target, --tsv, --labels, "),
        ("--tsv a --out o", "a:1: 0 tabs instead of one; hint: "),
        ("--source a --target b --out o --set text.vocabulary=269", "text: a vocabulary of 269 is too small for kind"),
        (
            "--source a --target b --out o --set text.kind=word --set text.sampling=0.1",
            "text: sampling is for sub-words",
        ),
        ("--source a --target b --out o --set text.vocabulary=270", "a vocabulary of 270 is too small"),
        ("--source a --target b --out o --set text.max_length=1", "are longer than 1 sub-words"),
        ("--source a --target b --out o --set text.joint=false", "text.joint = false needs model.tie"),
        ("--source a --target b --out o --set data.held_out=0", "the validation set is empty"),
    ],
)
def test_user_error_is_one_line(inline: Inline, tmp_path: Path, text: Any, arguments: str, message: str) -> None:
    source, target = (path.read_bytes().split(b"\n")[:60] for path in (text.source, text.target))
    a, b = (b"\n".join(lines) + b"\n" for lines in (source, target))
    files(tmp_path, a=a, b=b, short=b"1 2\n", empty=b"", one=b"1 2\n", one2=b"2 1\n", utf16=a.decode().encode("utf-16"))
    files(tmp_path, bad=a.replace(source[6], b"\xff\xfe"), **{"cut.gz": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03abc"})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    os.mkfifo(tmp_path / "fifo")
    error = error_of(inline("train", *arguments.split()))
    assert message in error
    assert not (tmp_path / "o" / "journal.jsonl").exists()
    assert not (tmp_path / "o" / "recipe.toml").exists()


def test_files_of_different_length_are_refused_with_both_counts(inline: Inline, text: Any, tmp_path: Path) -> None:
    text.target.write_text("".join(text.target.read_text().splitlines(keepends=True)[:-7]))
    error = error_of(inline("train", *text.flags, "--out", "run"))
    assert f"{text.source} has 300 lines" in error
    assert f"{text.target} has 293" in error
    assert not (tmp_path / "run" / "journal.jsonl").exists()


def test_user_error_prints_no_traceback(regard: Any, tmp_path: Path) -> None:
    result = regard.run("train", "--source", "none", "--target", "none", "--out", "run")
    assert error_of(result) == f"error: {tmp_path / 'none'}: no such file; hint: check the path"


def test_full_disk_is_detected_before_the_first_step(
    inline: Inline, text: Any, arguments: Arguments, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**6, 10**6 - 5000, 5000))
    error = error_of(inline(*arguments(text, "run")))
    assert "the checkpoints of run need " in error
    assert "its disk has 0.0 MB free; hint: free some space" in error
    assert not (tmp_path / "run" / "journal.jsonl").exists()


def test_fine_tuning_cannot_change_the_architecture_or_the_vocabulary(
    inline: Inline, text: Any, arguments: Arguments
) -> None:
    assert inline(*arguments(text, "first", "training.steps=2")).returncode == 0
    for setting, message in (
        ("model.d_model=64", "model.d_model cannot be 64: it is 32 in the model to start from; hint: "),
        ("text.vocabulary=8000", "text.vocabulary cannot be 8000: it is "),
        ("text.kind=unigram", "text.kind cannot be 'unigram': it is 'bpe' in the model to start from; hint: "),
    ):
        error = error_of(inline(*arguments(text, "second", setting, "--from", "first")))
        assert error.startswith(f"error: {message}")
    given = ("train", *text.flags, "--out", "second", "--from", "first", "--set", "model.preset=small")
    assert "model.d_model cannot be 256: it is 32 in the model to start from" in error_of(inline(*given))
