"""Lines from a file or a pipe, through a function, to a file or a pipe: in order, bounded, nothing half done."""

import errno
import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import BinaryIO, Protocol

import zstandard

from regard.durable import write_file
from regard.errors import DataError, UserError
from regard.text import STDIN, ReadNotes, read_lines

WINDOW_LINES = 5_000  # sorted and translated together
WINDOW_CHARACTERS = 2_000_000
IDLE_SECONDS = 0.03  # a window that nobody adds to goes on as it is: whoever types a line waits for the answer


@dataclass(frozen=True)
class Job:
    """One input, and where its output goes; None is standard input or output."""

    source: Path | None
    out: Path | None

    @property
    def name(self) -> str:
        return "standard input" if self.source is None else str(self.source)


class Notes(Protocol):
    """Is told which file is read, and what reading it showed."""

    def start(self, name: str, n_lines: int) -> None:
        """A file begins; so many of its lines were done before."""
        ...

    def note(self, name: str, notes: ReadNotes) -> None: ...


def jobs_of(files: list[Path], out: Path | None) -> list[Job]:
    """Standard input to standard output, one file to one, or any number into a directory; no input is written over."""
    for file in files:
        if not file.exists():
            raise DataError(f"{file}: no such file", hint="check the path")
    if out is None:
        return [Job(file, None) for file in files] or [Job(None, None)]
    if out.is_dir():
        if not files:
            raise UserError(f"{out} is a directory: what is the file to be called?", hint=f"--out {out / 'NAME'}")
        jobs = [Job(file, out / file.name) for file in files]
    elif len(files) > 1:
        raise UserError(f"{len(files)} files need a directory for --out, and {out} is none", hint=f"mkdir {out}")
    elif out.exists() and not out.is_file():
        raise UserError(f"--out {out} is a device or a pipe, not a file", hint=f"leave --out away, and write > {out}")
    else:
        jobs = [Job(file, out) for file in files] or [Job(None, out)]
    _refuse_writing_over(jobs)
    return jobs


def _refuse_writing_over(jobs: list[Job]) -> None:
    """A UserError when an output would replace an input, or another output."""
    inputs = {(job.source or STDIN).resolve() for job in jobs}
    taken: dict[Path, Job] = {}
    for job in jobs:
        assert job.out is not None
        out = job.out.resolve()
        if out in inputs:
            raise UserError(f"--out would write over the input {job.out}", hint="choose another --out")
        if out in taken:
            raise UserError(
                f"{taken[out].name} and {job.name} would both be written to {job.out}",
                hint="translate them one by one, each with its own --out",
            )
        taken[out] = job


class Stream:
    """Runs one job. `identity` says what the output depends on: a half of another kind is not gone on with."""

    def __init__(self, job: Job, *, resume: bool, identity: str) -> None:
        self._job = job
        self._sink: _Sink = _Pipe() if job.out is None else _File(job.out, resume, _identity(job, identity))

    def run(self, begin: Callable[[list[str]], Callable[[], str]], notes: Notes) -> None:
        """Every window of lines through `begin`; what that returns waits for the output for them."""
        from regard.cli.translate_progress import progress

        read = ReadNotes()
        notes.start(self._job.name, self._sink.n_lines)
        with self._sink as sink, progress(self._job.source, sink.n_lines) as show:
            for n_lines, output in _one_ahead(_windows(self._job.source or STDIN, sink.n_lines, read), begin):
                sink.write(output.encode("utf-8", "replace"), n_lines)
                show(n_lines)
            sink.finish()
        notes.note(self._job.name, read)


def _one_ahead(
    windows: Iterator[list[str]], begin: Callable[[list[str]], Callable[[], str]]
) -> Iterator[tuple[int, str]]:
    """Each window's size and output, in order; the next window is begun before the output of one is waited for."""
    begun: tuple[int, Callable[[], str]] | None = None
    for window in windows:
        following = (len(window), begin(window)) if window else None
        if begun is not None:
            yield begun[0], begun[1]()
        begun = following
    if begun is not None:
        yield begun[0], begun[1]()


def _windows(path: Path, skip: int, notes: ReadNotes) -> Iterator[list[str]]:
    """Lines behind the first `skip`, as many at a time as are there and fit; an empty window when no more come."""
    queue: Queue[str | BaseException | None] = Queue(maxsize=WINDOW_LINES)

    def read() -> None:
        try:
            for line in read_lines(path, on_bad="replace", notes=notes):
                queue.put(line)
            queue.put(None)
        except BaseException as error:  # handed over to whoever waits for the lines
            queue.put(error)

    Thread(target=read, name="regard-read", daemon=True).start()
    for _ in range(skip):
        if isinstance(_taken(queue.get()), _End):
            return
    window: list[str] = []
    n_characters = 0
    idle = True  # whether everything that was given out has been answered
    while True:
        try:
            item = _taken(queue.get(timeout=None if idle else IDLE_SECONDS))
        except Empty:
            item = None  # nobody adds to this window for now
        idle = item is None
        if isinstance(item, str):
            window.append(item)
            n_characters += len(item)
        if window and (not isinstance(item, str) or len(window) == WINDOW_LINES or n_characters > WINDOW_CHARACTERS):
            yield window
            window, n_characters = [], 0
        if idle:
            yield []
        if isinstance(item, _End):
            return


class _End:
    """Behind the last line."""


def _taken(item: str | BaseException | None) -> str | _End:
    if isinstance(item, BaseException):
        raise item
    return _End() if item is None else item


class _Sink(Protocol):
    """Where output goes; `n_lines` are there already."""

    n_lines: int

    def __enter__(self) -> "_Sink": ...

    def __exit__(self, *_: object) -> None: ...

    def write(self, data: bytes, n_lines: int) -> None: ...

    def finish(self) -> None: ...


class _Pipe:
    """Standard output, each window at once."""

    n_lines = 0

    def __enter__(self) -> "_Pipe":
        if sys.stdout is None:
            raise UserError("standard output is closed", hint="give --out FILE")
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, data: bytes, n_lines: int) -> None:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            with suppress(OSError):  # else Python tries to flush once more at its end, and complains
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise UserError(f"can not write to standard output: {(error.strerror or str(error)).lower()}") from error

    def finish(self) -> None: ...


class _File:
    """A file that appears when it is complete. Until then `.NAME.part`, and how far it is in `.NAME.part.json`."""

    def __init__(self, out: Path, resume: bool, identity: str) -> None:
        self._out, self._identity = out, identity
        self._part = out.with_name(f".{out.name}.part")
        self._state = out.with_name(f".{out.name}.part.json")
        self.n_lines, self._n_bytes = self._found() if resume else (0, 0)
        self._file: BinaryIO | None = None

    def _found(self) -> tuple[int, int]:
        """Lines and bytes to go on behind; none where the part is not there, or not whole."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            identity, n_lines, n_bytes = state["identity"], int(state["n_lines"]), int(state["n_bytes"])
            if self._part.stat().st_size < n_bytes:
                return 0, 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0, 0
        if identity != self._identity:
            raise UserError(
                f"{self._part} is of another input, model or option",
                hint="translate without --resume to start anew",
            )
        return n_lines, n_bytes

    def __enter__(self) -> "_File":
        try:
            if not self._n_bytes:
                self._state.unlink(missing_ok=True)  # what it says is of an older part
            self._file = self._part.open("r+b" if self._part.exists() else "w+b")
            self._file.truncate(self._n_bytes)
            self._file.seek(self._n_bytes)
        except OSError as error:
            raise self._failed(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def write(self, data: bytes, n_lines: int) -> None:
        assert self._file is not None
        try:
            self._n_bytes += self._file.write(_packed(data, self._out))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from error
        self.n_lines += n_lines
        state = {"identity": self._identity, "n_lines": self.n_lines, "n_bytes": self._n_bytes}
        write_file(self._state, json.dumps(state).encode())

    def finish(self) -> None:
        assert self._file is not None
        try:
            self._file.close()
            self._part.replace(self._out)
            self._state.unlink(missing_ok=True)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> UserError:
        hint = "make room, then add --resume to go on" if error.errno == errno.ENOSPC else "choose another --out"
        return UserError(f"can not write {self._out}: {(error.strerror or str(error)).lower()}", hint=hint)


def _packed(data: bytes, out: Path) -> bytes:
    """As the name of the output says; each window is a member or frame of its own, and they add up."""
    if out.suffix == ".gz":
        return gzip.compress(data, mtime=0)
    if out.suffix == ".zst":
        return zstandard.ZstdCompressor().compress(data)
    return data


def _identity(job: Job, rest: str) -> str:
    if job.source is None:
        return json.dumps(["standard input", rest])
    found = job.source.stat()
    return json.dumps([str(job.source.absolute()), found.st_size, found.st_mtime_ns, rest])
