"""Lines from a file or a pipe, through a function, to a file or a pipe: in order, bounded, nothing half done."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Condition, Thread
from time import monotonic
from typing import Protocol

from regard.cli.translate.sink import File, Pipe, Sink
from regard.errors import DataError, UserError
from regard.text import STDIN, ReadNotes, read_lines

WINDOW_LINES = 5_000  # sorted and translated together
WINDOW_CHARACTERS = 2_000_000
DETAILED_CHARACTERS = 100_000  # where every symbol's attention is kept: it grows with the square of a line's length
PATIENCE_SECONDS = 0.3  # lines that keep coming, but slowly, do not wait until there are so many
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

    def __init__(
        self, job: Job, *, resume: bool, identity: str, max_characters: int = WINDOW_CHARACTERS, keep: bool = False
    ) -> None:
        """`max_characters` bounds what is translated together. `keep` what is known of a finished output, so that of
        several files those that are done are not done again; `forget` ends that."""
        self._job, self._max_characters = job, max_characters
        self._sink: Sink = Pipe() if job.out is None else File(job.out, resume, _identity(job, identity), keep)

    @property
    def done(self) -> bool:
        """Whether an interrupted command had finished this output."""
        return self._sink.done

    def run(self, begin: Callable[[list[str]], Callable[[], str]], notes: Notes) -> None:
        """Every window of lines through `begin`; what that returns waits for the output for them."""
        from regard.cli.translate.progress import progress

        read = ReadNotes()
        notes.start(self._job.name, self._sink.n_lines)
        with self._sink as sink, progress(self._job.source, sink.n_lines) as show:
            windows = _windows(self._job.source or STDIN, sink.n_lines, read, self._max_characters)
            for n_lines, output in _one_ahead(windows, begin):
                sink.write(output.encode("utf-8", "replace"), n_lines)
                show(n_lines)
            sink.finish()
        notes.note(self._job.name, read)

    def forget(self) -> None:
        """Once all outputs of a command are there."""
        self._sink.forget()


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


class _Waiting:
    """Lines that were read and not taken yet: at most as many, and as much text, as a window has."""

    def __init__(self) -> None:
        self._queue: Queue[str | BaseException | None] = Queue(maxsize=WINDOW_LINES)
        self._room, self._n_characters = Condition(), 0

    def put(self, item: str | BaseException | None) -> None:
        with self._room:
            self._room.wait_for(lambda: self._n_characters <= WINDOW_CHARACTERS)
            self._n_characters += len(item) if isinstance(item, str) else 0
        self._queue.put(item)

    def get(self, timeout: float | None = None) -> str | BaseException | None:
        item = self._queue.get(timeout=timeout)
        with self._room:
            self._n_characters -= len(item) if isinstance(item, str) else 0
            self._room.notify()
        return item


def _windows(path: Path, skip: int, notes: ReadNotes, max_characters: int) -> Iterator[list[str]]:
    """Lines behind the first `skip`, as many at a time as are there and fit; an empty window when no more come."""
    queue, waits = _Waiting(), not path.is_file()  # the lines of a file are all there

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
    n_characters, opened_at = 0, 0.0
    idle = True  # whether everything that was given out has been answered
    while True:
        try:
            item = _taken(queue.get(timeout=None if idle else IDLE_SECONDS))
        except Empty:
            item = None  # nobody adds to this window for now
        idle = item is None
        if isinstance(item, str):
            opened_at = opened_at if window else monotonic()
            window.append(item)
            n_characters += len(item)
        full = len(window) == WINDOW_LINES or n_characters > max_characters
        overdue = waits and monotonic() - opened_at > PATIENCE_SECONDS
        if window and (not isinstance(item, str) or full or overdue):
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


def _identity(job: Job, rest: str) -> str:
    if job.source is None:
        return json.dumps(["standard input", rest])
    found = job.source.stat()
    return json.dumps([str(job.source.absolute()), found.st_size, found.st_mtime_ns, rest])
