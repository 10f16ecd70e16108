"""Batches of lines: in order, bounded, resumable, and without waiting for lines that do not arrive."""

import gzip
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import zstandard

from regard.cli.evaluate import check_destination
from regard.cli.translate import stream
from regard.cli.translate.sink import ResumableFile
from regard.cli.translate.stream import FilePair, LineStream, _full_identity, file_pairs
from regard.durable import write_file
from regard.errors import UserError
from regard.text import read_lines

Translate = Callable[[list[str]], str]


def upper(lines: list[str]) -> str:
    return "".join(f"{line.upper()}\n" for line in lines)


def run(line_stream: LineStream, translate: Translate = upper) -> None:
    with line_stream.writer() as write:
        for lines in line_stream.batches():
            if lines:
                write(translate(lines), len(lines))


def run_file(source: Path, out: Path, translate: Translate = upper) -> None:
    run(LineStream(FilePair(source, out), resume=False, identity="x"), translate)


def test_full_batch_is_yielded_while_the_input_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BATCH_LINES", 2)
    os.mkfifo(tmp_path / "in")
    batches: list[list[str]] = []

    def translate(lines: list[str]) -> str:
        batches.append(lines)
        return "x\n" * len(lines)

    reading = Thread(target=run_file, args=(tmp_path / "in", tmp_path / "out", translate), daemon=True)
    reading.start()
    with (tmp_path / "in").open("w") as writer:
        writer.write("a\nb\n")
        writer.flush()
        until = time.monotonic() + 20
        while not batches and time.monotonic() < until:
            time.sleep(0.01)
        assert batches == [["a", "b"]]
    reading.join(20)
    assert (tmp_path / "out").read_text() == "x\nx\n"


def test_empty_batch_follows_the_last_waiting_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in")
    batches = LineStream(FilePair(tmp_path / "in", None), resume=False, identity="x").batches()
    writer = os.open(tmp_path / "in", os.O_RDWR)  # does not wait for a reader
    try:
        for line in ("a", "b"):
            os.write(writer, f"{line}\n".encode())
            assert [next(batches), next(batches)] == [[line], []]
    finally:
        os.close(writer)


def touched(directory: Path, *names: str) -> list[Path]:
    paths = [directory / name for name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("one\n")
    return paths


def test_files_keep_their_names_in_an_output_directory(tmp_path: Path) -> None:
    files, out = touched(tmp_path, "a.txt", "b.txt"), tmp_path / "out"
    out.mkdir()
    assert [pair.out for pair in file_pairs(files, out)] == [out / "a.txt", out / "b.txt"]
    assert [pair.out for pair in file_pairs(files[:1], out)] == [out / "a.txt"]
    assert [pair.out for pair in file_pairs(files[:1], tmp_path / "new.txt")] == [tmp_path / "new.txt"]
    assert [pair.out for pair in file_pairs(files, None)] == [None, None]


def test_output_never_overwrites_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = touched(tmp_path, "a.txt", "b.txt")
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for inputs, out in ((files, Path()), (files[:1], tmp_path / "link"), (files[:1], Path("a.txt"))):
        with pytest.raises(UserError, match=r"--out would overwrite the input .*a\.txt; hint: ") as raised:
            file_pairs(inputs, out)
        assert "\n" not in str(raised.value)


def test_output_never_overwrites_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = touched(tmp_path, "a.txt")
    (tmp_path / "stdin").symlink_to(source)
    monkeypatch.setattr(stream, "STDIN", tmp_path / "stdin")
    with pytest.raises(UserError, match="overwrite the input"):
        file_pairs([], source)
    assert [pair.out for pair in file_pairs([], tmp_path / "new.txt")] == [tmp_path / "new.txt"]


def test_device_or_pipe_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    files = touched(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "pipe")
    for out in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(
            UserError, match=r"is a device or a pipe, not a file; hint: drop --out and redirect with > "
        ):
            file_pairs(files, out)
        with pytest.raises(UserError, match="exists and is not a regular file"):
            write_file(out, b"x")
        with pytest.raises(UserError, match="cannot write"):
            check_destination(out, [])
    assert (tmp_path / "pipe").is_fifo() and Path(os.devnull).is_char_device()


def test_two_inputs_with_the_same_name_are_refused(tmp_path: Path) -> None:
    files = touched(tmp_path, "x/a.txt", "y/a.txt")
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match=r"x/a\.txt and .*y/a\.txt would both be written to .*out/a\.txt; hint: "):
        file_pairs(files, tmp_path / "out")


def test_standard_input_cannot_be_written_to_a_directory(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is a directory; hint: name a file in it: --out "):
        file_pairs([], tmp_path)


def half_done(tmp_path: Path, part: bytes | None) -> FilePair:
    """Four lines, two of them translated according to the state; `part` is the content of the partial output."""
    pair = FilePair(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in").write_text("a\nb\nc\nd\n")
    identity = _full_identity(pair, "x")
    with ResumableFile(tmp_path / "out", resume=False, identity=identity, keep_state=False) as sink:
        sink.write(b"A\nB\n", 2)
    if part is None:
        (tmp_path / ".out.part").unlink()
    else:
        (tmp_path / ".out.part").write_bytes(part)
    return pair


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (b"A\nB\n", ["c", "d"]),
        (b"A\nB\nC", ["c", "d"]),  # killed in the middle of a batch
        (b"A\n", ["a", "b", "c", "d"]),
        (b"", ["a", "b", "c", "d"]),
        (None, ["a", "b", "c", "d"]),  # killed after the partial file was renamed
    ],
)
def test_resume_continues_only_after_a_complete_part(tmp_path: Path, part: bytes | None, expected: list[str]) -> None:
    pair = half_done(tmp_path, part)
    translated: list[str] = []

    def translate(lines: list[str]) -> str:
        translated.extend(lines)
        return upper(lines)

    run(LineStream(pair, resume=True, identity="x"), translate)
    assert translated == expected
    assert (tmp_path / "out").read_bytes() == b"A\nB\nC\nD\n"
    assert not list(tmp_path.glob(".*"))


def test_resume_refuses_a_partial_output_with_another_identity(tmp_path: Path) -> None:
    pair = half_done(tmp_path, b"A\nB\n")
    with pytest.raises(UserError, match="from another input, or with another model or other options"):
        LineStream(pair, resume=True, identity="y")
    (tmp_path / ".out.part").unlink()
    LineStream(pair, resume=True, identity="y")  # without a partial output there is nothing to mix


def test_starting_again_removes_the_state_of_an_older_part(tmp_path: Path) -> None:
    pair = half_done(tmp_path, b"A\nB\n")
    identity = _full_identity(pair, "x")
    with ResumableFile(tmp_path / "out", resume=False, identity=identity, keep_state=False):
        assert not (tmp_path / ".out.part.json").exists()


def test_resume_over_several_files_skips_the_finished_ones(tmp_path: Path) -> None:
    pairs = [FilePair(tmp_path / name, tmp_path / name.upper()) for name in ("a", "b")]
    for name in ("a", "b"):
        (tmp_path / name).write_text("x\ny\n")
    run(LineStream(pairs[0], resume=False, identity="x", keep_state=True))  # the command is interrupted here
    first, second = (LineStream(pair, resume=True, identity="x", keep_state=True) for pair in pairs)
    assert (first.sink.finished, second.sink.finished) == (True, False)
    run(second)
    for line_stream in (first, second):
        line_stream.sink.remove_state()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A", "B", "a", "b"]
    assert (tmp_path / "B").read_text() == "X\nY\n"


@pytest.mark.parametrize("change", ["cut", "gone", "other options", "not resumed"])
def test_changed_output_is_not_taken_as_finished(tmp_path: Path, change: str) -> None:
    pair = FilePair(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in").write_text("x\ny\n")
    run(LineStream(pair, resume=False, identity="x", keep_state=True))
    if change == "cut":
        (tmp_path / "out").write_text("X\n")
    elif change == "gone":
        (tmp_path / "out").unlink()
    elif change == "other options":
        with pytest.raises(UserError, match="with another model or other options"):
            LineStream(pair, resume=True, identity="y", keep_state=True)
        return
    again = LineStream(pair, resume=change != "not resumed", identity="x")
    assert not again.sink.finished
    run(again)
    assert (tmp_path / "out").read_text() == "X\nY\n"
    assert not list(tmp_path.glob(".*"))


def test_slow_lines_are_translated_before_the_batch_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "IDLE_SECONDS", 5.0)  # no pause is long enough
    monkeypatch.setattr(stream, "MAX_WAIT_SECONDS", 0.05)
    os.mkfifo(tmp_path / "in")
    sizes: list[int] = []

    def translate(lines: list[str]) -> str:
        sizes.append(len(lines))
        return upper(lines)

    def write() -> None:
        with (tmp_path / "in").open("w") as pipe:
            for _ in range(20):
                pipe.write("x\n")
                pipe.flush()
                time.sleep(0.02)

    writer = Thread(target=write)
    writer.start()
    run_file(tmp_path / "in", tmp_path / "out", translate)
    writer.join()
    assert sum(sizes) == 20
    assert len(sizes) > 2


def test_read_ahead_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BATCH_CHARACTERS", 1_000)
    (tmp_path / "in").write_text(("x" * 500 + "\n") * 50)
    n_read = n_translated = most_ahead = 0

    def counted(*args: Any, **settings: Any) -> Iterator[str]:
        nonlocal n_read
        for line in read_lines(*args, **settings):
            n_read += 1
            yield line

    def translate(lines: list[str]) -> str:
        nonlocal n_translated, most_ahead
        time.sleep(0.01)
        most_ahead = max(most_ahead, n_read - n_translated)
        n_translated += len(lines)
        return upper(lines)

    monkeypatch.setattr(stream, "read_lines", counted)
    pair = FilePair(tmp_path / "in", tmp_path / "out")
    run(LineStream(pair, resume=False, identity="x", max_characters=1_000), translate)
    assert n_translated == 50
    assert most_ahead <= 10  # a batch, the queue and the line that the reader holds; 50 without a bound


@pytest.mark.parametrize(("name", "decompress"), [("out.gz", gzip.decompress), ("out.zst", zstandard.decompress)])
def test_empty_compressed_output_is_a_valid_file(
    tmp_path: Path, name: str, decompress: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "in").write_text("")
    run_file(tmp_path / "in", tmp_path / name)
    assert decompress((tmp_path / name).read_bytes()) == b""


def test_destination_that_is_also_an_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.de").write_text("eins\n")
    with pytest.raises(UserError, match="is an input and would be overwritten"):
        check_destination(tmp_path / "test.de", [None, tmp_path / "." / "test.de"])
    check_destination(tmp_path / "other.de", [tmp_path / "test.de"])


def test_a_second_command_cannot_write_the_same_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with ResumableFile(out, False, "x", False) as first:
        first.write(b"a\n", 1)
        for resume in (False, True):
            with pytest.raises(UserError, match="another command is writing"), ResumableFile(out, resume, "x", False):
                pass
        first.write(b"b\n", 1)
        first.finish()
    assert out.read_bytes() == b"a\nb\n" and [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "in").write_text("c\n")
    run_file(tmp_path / "in", out)
    assert out.read_bytes() == b"C\n"


def test_output_finished_by_another_command_is_not_resumed_as_if_it_were_partial(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with ResumableFile(out, False, "x", False) as first:
        first.write(b"a\n", 1)
        second = ResumableFile(out, True, "x", False)  # has read the state of the first
        first.finish()
    with pytest.raises(UserError, match="has just written"), second:
        pass
    assert out.read_bytes() == b"a\n"
