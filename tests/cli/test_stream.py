"""Windows of lines: in order, one begun ahead, and nobody is kept waiting for lines that do not come."""

import gzip
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
import zstandard

from regard.cli.evaluate import check_destination
from regard.cli.translate import stream
from regard.cli.translate.sink import File
from regard.cli.translate.stream import Job, Stream, _identity, jobs_of
from regard.durable import write_file
from regard.errors import UserError
from regard.text import ReadNotes
from regard.text import read_lines as stream_lines


class Quiet:
    def start(self, name: str, n_lines: int) -> None: ...

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


def touched(directory: Path, *names: str) -> list[Path]:
    paths = [directory / name for name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("one\n")
    return paths


def test_into_a_directory_a_file_keeps_its_name_be_it_one_or_several(tmp_path: Path) -> None:
    files, out = touched(tmp_path, "a.txt", "b.txt"), tmp_path / "out"
    out.mkdir()
    assert [job.out for job in jobs_of(files, out)] == [out / "a.txt", out / "b.txt"]
    assert [job.out for job in jobs_of(files[:1], out)] == [out / "a.txt"]
    assert [job.out for job in jobs_of(files[:1], tmp_path / "new.txt")] == [tmp_path / "new.txt"]
    assert [job.out for job in jobs_of(files, None)] == [None, None]


def test_no_output_is_written_over_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = touched(tmp_path, "a.txt", "b.txt")
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for given, out in ((files, Path()), (files[:1], tmp_path / "link"), (files[:1], Path("a.txt"))):
        with pytest.raises(UserError, match=r"--out would write over the input .*a\.txt; hint: ") as raised:
            jobs_of(given, out)
        assert "\n" not in str(raised.value)


def test_standard_input_is_not_written_over_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = touched(tmp_path, "a.txt")
    (tmp_path / "stdin").symlink_to(source)
    monkeypatch.setattr(stream, "STDIN", tmp_path / "stdin")
    with pytest.raises(UserError, match="over the input"):
        jobs_of([], source)
    assert [job.out for job in jobs_of([], tmp_path / "new.txt")] == [tmp_path / "new.txt"]


def test_a_device_or_a_pipe_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    files = touched(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "pipe")
    for out in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(UserError, match=r"is a device or a pipe, not a file; hint: leave --out away, and write > "):
            jobs_of(files, out)
        with pytest.raises(UserError, match="is not a file that can be replaced"):
            write_file(out, b"x")
        with pytest.raises(UserError, match="can not be written"):
            check_destination(out, [])
    assert (tmp_path / "pipe").is_fifo() and Path(os.devnull).is_char_device()


def test_two_files_of_one_name_are_not_written_into_one(tmp_path: Path) -> None:
    files = touched(tmp_path, "x/a.txt", "y/a.txt")
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match=r"x/a\.txt and .*y/a\.txt would both be written to .*out/a\.txt; hint: "):
        jobs_of(files, tmp_path / "out")


def test_standard_input_needs_a_file_to_go_to(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is a directory: .*; hint: --out "):
        jobs_of([], tmp_path)


def half_done(tmp_path: Path, part: bytes | None) -> tuple[Path, Path]:
    """A job of four lines of which the state says that two are done; and its part, whatever became of it."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text("a\nb\nc\nd\n")
    with File(out, resume=False, identity=_identity(Job(source, out), "x"), keep=False) as sink:
        sink.write(b"A\nB\n", 2)
    if part is None:
        (tmp_path / ".out.part").unlink()
    else:
        (tmp_path / ".out.part").write_bytes(part)
    return source, out


@pytest.mark.parametrize(
    ("part", "asked"),
    [
        (b"A\nB\n", ["c", "d"]),
        (b"A\nB\nC", ["c", "d"]),  # killed in the middle of a window
        (b"A\n", ["a", "b", "c", "d"]),
        (b"", ["a", "b", "c", "d"]),
        (None, ["a", "b", "c", "d"]),  # killed after the file took its place
    ],
)
def test_going_on_never_fills_up_what_is_missing(tmp_path: Path, part: bytes | None, asked: list[str]) -> None:
    source, out = half_done(tmp_path, part)
    seen: list[str] = []

    def begin(lines: list[str]) -> Callable[[], str]:
        seen.extend(lines)
        return lambda: "".join(f"{line.upper()}\n" for line in lines)

    Stream(Job(source, out), resume=True, identity="x").run(begin, Quiet())
    assert seen == asked
    assert out.read_bytes() == b"A\nB\nC\nD\n"
    assert not list(tmp_path.glob(".*"))


def test_a_half_of_another_kind_is_not_gone_on_with(tmp_path: Path) -> None:
    source, out = half_done(tmp_path, b"A\nB\n")
    with pytest.raises(UserError, match="of another input, model or option"):
        Stream(Job(source, out), resume=True, identity="y")
    (tmp_path / ".out.part").unlink()
    Stream(Job(source, out), resume=True, identity="y")  # without a half there is nothing to mix it with


def test_starting_anew_forgets_how_far_an_older_half_was(tmp_path: Path) -> None:
    source, out = half_done(tmp_path, b"A\nB\n")
    with File(out, resume=False, identity=_identity(Job(source, out), "x"), keep=False):
        assert not (tmp_path / ".out.part.json").exists()


def upper(lines: list[str]) -> Callable[[], str]:
    return lambda: "".join(f"{line.upper()}\n" for line in lines)


def test_of_several_files_those_that_are_done_are_not_done_again(tmp_path: Path) -> None:
    one, two = Job(tmp_path / "a", tmp_path / "A"), Job(tmp_path / "b", tmp_path / "B")
    for job in (one, two):
        assert job.source is not None
        job.source.write_text("x\ny\n")
    Stream(one, resume=False, identity="x", keep=True).run(upper, Quiet())  # and then the power fails
    first, second = (Stream(job, resume=True, identity="x", keep=True) for job in (one, two))
    assert (first.done, second.done) == (True, False)
    second.run(upper, Quiet())
    for stream_ in (first, second):
        stream_.forget()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A", "B", "a", "b"]
    assert (tmp_path / "B").read_text() == "X\nY\n"


@pytest.mark.parametrize("change", ["cut", "gone", "other options", "not resumed"])
def test_an_output_that_is_not_as_it_was_left_is_made_again(tmp_path: Path, change: str) -> None:
    job = Job(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in").write_text("x\ny\n")
    Stream(job, resume=False, identity="x", keep=True).run(upper, Quiet())
    if change == "cut":
        (tmp_path / "out").write_text("X\n")
    elif change == "gone":
        (tmp_path / "out").unlink()
    elif change == "other options":
        with pytest.raises(UserError, match="of another input, model or option"):
            Stream(job, resume=True, identity="y", keep=True)
        return
    again = Stream(job, resume=change != "not resumed", identity="x")
    assert not again.done
    again.run(upper, Quiet())
    assert (tmp_path / "out").read_text() == "X\nY\n"
    assert not list(tmp_path.glob(".*"))


def test_lines_that_trickle_in_are_answered_before_there_are_enough_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "IDLE_SECONDS", 5.0)  # no pause is long enough
    monkeypatch.setattr(stream, "PATIENCE_SECONDS", 0.05)
    os.mkfifo(tmp_path / "in")
    windows: list[int] = []

    def begin(lines: list[str]) -> Callable[[], str]:
        windows.append(len(lines))
        return upper(lines)

    def write() -> None:
        with (tmp_path / "in").open("w") as pipe:
            for _ in range(20):
                pipe.write("x\n")
                pipe.flush()
                time.sleep(0.02)

    writer = Thread(target=write)
    writer.start()
    run(tmp_path / "in", tmp_path / "out", begin)
    writer.join()
    assert sum(windows) == 20
    assert len(windows) > 2


def test_reading_ahead_stops_at_so_much_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW_CHARACTERS", 1_000)
    (tmp_path / "in").write_text(("x" * 500 + "\n") * 50)
    taken: list[int] = []
    monkeypatch.setattr(stream, "read_lines", lambda *args, **more: counted(stream_lines(*args, **more), taken))
    seen: list[int] = []

    def begin(lines: list[str]) -> Callable[[], str]:
        time.sleep(0.01)
        seen.append(len(taken) - sum(seen_lines))
        seen_lines.append(len(lines))
        return upper(lines)

    seen_lines: list[int] = []
    Stream(Job(tmp_path / "in", tmp_path / "out"), resume=False, identity="x", max_characters=1_000).run(begin, Quiet())
    assert sum(seen_lines) == 50
    assert max(seen) <= 10  # a window, what waits, and the one that the reader has in its hand: 50 without a bound


def counted(lines: Iterator[str], taken: list[int]) -> Iterator[str]:
    for line in lines:
        taken.append(1)
        yield line


@pytest.mark.parametrize(("name", "unpack"), [("out.gz", gzip.decompress), ("out.zst", zstandard.decompress)])
def test_nothing_packed_is_still_a_packed_file(tmp_path: Path, name: str, unpack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "in").write_text("")
    run(tmp_path / "in", tmp_path / name, upper)
    assert unpack((tmp_path / name).read_bytes()) == b""


def test_a_destination_that_is_also_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.de").write_text("eins\n")
    with pytest.raises(UserError, match="is what is to be read, and would be written over"):
        check_destination(tmp_path / "test.de", [None, tmp_path / "." / "test.de"])
    check_destination(tmp_path / "other.de", [tmp_path / "test.de"])
