"""Batches of lines from a file or a pipe to a file or a pipe: in order and in bounded memory."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import Empty, Queue
from shlex import quote
from threading import Condition, Thread
from time import monotonic

from regard.cli.translate.sink import ResumableFile, StandardOutput
from regard.errors import DataError, UserError
from regard.text import STDIN, ReadNotes, read_lines
from regard.translator.translator import BATCH_CHARACTERS, BATCH_LINES

MAX_WAIT_SECONDS = 0.3  # lines that arrive slowly are translated after this time even if the batch is not full
IDLE_SECONDS = 0.03  # a batch is translated if no line follows for so long: a typed line is answered at once
_MIN_BYTES_FOR_PROGRESS_BAR = 50_000
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class FilePair:
    """An input and its output; None is standard input or standard output."""

    source: Path | None
    out: Path | None

    @property
    def name(self) -> str:
        return "standard input" if self.source is None else str(self.source)


def file_pairs(files: list[Path], out: Path | None, model: Path | None = None) -> list[FilePair]:
    """Pairs standard input or one file with `out`, or any number of files with files in the directory `out`.

    Raises a UserError if an output would replace an input or another output.
    """
    for file in files:
        if not file.exists():
            command = f"echo {quote(str(file))} | regard translate {quote(str(model or 'RUN'))}"
            hint = f"to translate a sentence: {command}"
            if " " not in str(file):
                hint = f"check the path; {hint}" if len(file.parts) == 1 else "check the path"
            raise DataError(f"{file}: no such file", hint=hint)
    if out is None:
        return [FilePair(file, None) for file in files] or [FilePair(None, None)]
    if out.is_dir():
        if not files:
            raise UserError(f"--out {out} is a directory", hint=f"name a file in it: --out {out / 'NAME'}")
        pairs = [FilePair(file, out / file.name) for file in files]
    elif len(files) > 1:
        raise UserError(f"--out {out} is not a directory, and there are {len(files)} files", hint=f"mkdir {out}")
    elif out.exists() and not out.is_file():
        raise UserError(f"--out {out} is a device or a pipe, not a file", hint=f"drop --out and redirect with > {out}")
    else:
        pairs = [FilePair(file, out) for file in files] or [FilePair(None, out)]
    _refuse_overwriting(pairs)
    return pairs


def _refuse_overwriting(pairs: list[FilePair]) -> None:
    inputs = {(pair.source or STDIN).resolve() for pair in pairs}
    outputs: dict[Path, FilePair] = {}
    for pair in pairs:
        assert pair.out is not None
        out = pair.out.resolve()
        if out in inputs:
            raise UserError(f"--out would overwrite the input {pair.out}", hint="choose another --out")
        if out in outputs:
            raise UserError(
                f"{outputs[out].name} and {pair.name} would both be written to {pair.out}",
                hint="translate them separately, each with its own --out",
            )
        outputs[out] = pair


class LineStream:
    """Reads batches of lines from one file and writes text to another.

    `identity` describes everything else that the output depends on: `--resume` refuses a partial output with another
    identity. `max_characters` limits a batch. `lines`, counted from 0, are those to translate; by default all.
    """

    def __init__(
        self,
        pair: FilePair,
        *,
        resume: bool,
        identity: str,
        max_characters: int = BATCH_CHARACTERS,
        keep_state: bool = False,
        lines: range | None = None,
    ) -> None:
        self.name, self._lines = pair.name, lines
        self.read_notes = ReadNotes()
        self._source, self._max_characters = pair.source, max_characters
        self.sink: StandardOutput | ResumableFile = StandardOutput()
        if pair.out is not None:
            self.sink = ResumableFile(pair.out, resume, _full_identity(pair, identity), keep_state)

    @property
    def n_before(self) -> int:
        """How many lines of the file are before the next one: those of other parts, and those written already."""
        return (self._lines.start if self._lines is not None else 0) + self.sink.n_lines

    def batches(self) -> Iterator[list[str]]:
        """Batches of the lines that are not written yet; an empty batch means that no line is waiting."""
        return _read_batches(
            self._source or STDIN, self.sink.n_lines, self.read_notes, self._max_characters, self._lines
        )

    @contextmanager
    def writer(self) -> Iterator[Callable[[str, int], None]]:
        """Yields a function `write(text, n_lines)`; the output file is complete at the end of the `with` block."""
        with self.sink as sink, _file_progress(self._source, sink.n_lines, self._lines) as advance:

            def write(text: str, n_lines: int) -> None:
                sink.write(text.encode("utf-8", "replace"), n_lines)
                advance(n_lines)

            yield write
            sink.finish()


class _LineQueue:
    """Lines that are read but not yet in a batch: at most as many lines and as much text as a batch holds."""

    def __init__(self) -> None:
        self._queue: Queue[str | BaseException | None] = Queue(maxsize=BATCH_LINES)
        self._changed, self._n_characters = Condition(), 0

    def put(self, item: str | BaseException | None) -> None:
        """Add a line, an error to raise in the consumer, or None for the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._n_characters <= BATCH_CHARACTERS)
            self._n_characters += len(item) if isinstance(item, str) else 0
        self._queue.put(item)

    def get(self, timeout: float | None = None) -> str | None:
        """The next line, or None at the end; raises Empty after `timeout` seconds."""
        item = self._queue.get(timeout=timeout)
        if isinstance(item, BaseException):
            raise item
        with self._changed:
            self._n_characters -= len(item) if item is not None else 0
            self._changed.notify()
        return item


def _read_batches(
    path: Path, skip: int, notes: ReadNotes, max_characters: int, lines: range | None
) -> Iterator[list[str]]:
    """Batches of the lines after the first `skip`; an empty batch when no line is waiting."""
    queue, is_pipe = _LineQueue(), not path.is_file()

    def read() -> None:
        try:
            bounds = (None,) if lines is None else (lines.start, lines.stop)
            for line in islice(read_lines(path, on_bad="replace", notes=notes), *bounds):
                queue.put(line)
            queue.put(None)
        except BaseException as error:  # raised again by the consumer
            queue.put(error)

    Thread(target=read, name="regard-read", daemon=True).start()
    for _ in range(skip):
        if queue.get() is None:
            return
    batch: list[str] = []
    n_characters, opened_at = 0, 0.0
    idle, ended = True, False  # idle: everything read so far has been yielded and flushed
    while not ended:
        line = None
        try:
            line = queue.get(timeout=None if idle else IDLE_SECONDS)
            ended = line is None
        except Empty:
            pass
        idle = line is None
        if line is not None:
            opened_at = opened_at if batch else monotonic()
            batch.append(line)
            n_characters += len(line)
        full = len(batch) == BATCH_LINES or n_characters > max_characters
        overdue = is_pipe and monotonic() - opened_at > MAX_WAIT_SECONDS
        if batch and (idle or full or overdue):
            yield batch
            batch, n_characters = [], 0
        if idle:
            yield []


def _full_identity(pair: FilePair, identity: str) -> str:
    """`identity` together with the path, size and time of the input."""
    if pair.source is None:
        return json.dumps(["standard input", identity])
    status = pair.source.stat()
    return json.dumps([str(pair.source.absolute()), status.st_size, status.st_mtime_ns, identity])


def _file_progress(
    source: Path | None, n_done: int, lines: range | None
) -> AbstractContextManager[Callable[[int], None]]:
    """A bar for translating a large file."""
    if source is None or not sys.stderr.isatty() or source.stat().st_size < _MIN_BYTES_FOR_PROGRESS_BAR:
        return nullcontext(lambda n_lines: None)
    return line_progress(_count_lines(source) if lines is None else len(lines), n_done)


@contextmanager
def line_progress(total: int | None, n_done: int = 0, noun: str = "lines") -> Iterator[Callable[[int], None]]:
    """A bar that disappears when it is complete; yields a function that advances it by a number of lines, or `noun`.

    Nothing is shown if stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda n_lines: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("translating"), BarColumn(), MofNCompleteColumn(), TextColumn(noun), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("translating", total=total, completed=n_done)
        yield lambda n_lines: bar.advance(task, n_lines)


def _count_lines(path: Path) -> int | None:
    """The number of lines, or None for a compressed file."""
    with path.open("rb") as file:
        if file.read(2) in (b"\x1f\x8b", b"\x28\xb5"):
            return None
        file.seek(0)
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))
