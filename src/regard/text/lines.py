"""Reads lines from plain, gzip or zstd files in bounded memory. Only LF ends a line.

`str.splitlines` also breaks at U+2028, U+0085 and form feeds, and Python's text mode at a lone CR. One such character
in one of two parallel files would shift every line after it, so files are read as bytes and split at LF only.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

import zstandard

from regard.errors import DataError

OnBad = Literal["raise", "replace"]
Repaired = TypeVar("Repaired")
STDIN = Path("/dev/stdin")  # for messages; standard input is read by its file descriptor

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
MAX_LINE_BYTES = 64 * 1024 * 1024
_ZSTD_CHUNK_BYTES = 4096  # small, to bound the decompressed size
_MAX_EXAMPLES = 5


@dataclass
class ReadNotes:
    """Facts about a file, collected while it is read and complete at its end."""

    n_lines: int = 0
    compression: str | None = None
    has_bom: bool = False
    n_crlf: int = 0
    n_bad: int = 0
    bad_examples: list[str] = field(default_factory=list)
    bad_lines: list[int] = field(default_factory=list)

    def add_bad(self, number: int, problem: str) -> None:
        """Count a line that is not valid text."""
        self.n_bad += 1
        if len(self.bad_lines) < _MAX_EXAMPLES:
            self.bad_lines.append(number)
            self.bad_examples.append(f"line {number}: {problem}")

    def messages(self, path: str | Path) -> list[str]:
        """What a user should know about the file."""
        messages = []
        if self.has_bom:
            messages.append(f"{path} starts with a byte order mark; it was removed")
        if self.n_crlf:
            messages.append(f"{path} has Windows line ends (CRLF) on {_lines(self.n_crlf)}; they were removed")
        if self.n_bad:
            messages.append(f"{path}: not valid text on {_lines(self.n_bad)}, the first is {self.bad_examples[0]}")
        return messages


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def read_lines(path: str | Path, *, on_bad: OnBad = "raise", notes: ReadNotes | None = None) -> Iterator[str]:
    """The lines of a file, without line ends. A bad line (invalid UTF-8, NUL) raises a DataError or is replaced."""

    def repair(raw: bytes, error: DataError) -> str:
        if on_bad == "raise":
            raise error
        return raw.decode("utf-8", errors="replace").replace("\x00", "\ufffd")

    return _read(Path(path), repair, notes or ReadNotes())


def read_lines_or_none(path: str | Path, *, notes: ReadNotes | None = None) -> Iterator[str | None]:
    """The lines of a file; None for a bad line, so that line numbers do not change."""
    return _read(Path(path), lambda raw, error: None, notes or ReadNotes())


def require_file(path: Path) -> None:
    """Raises a DataError for a pipe or a device: text that is read several times, or to its end, must be in a file."""
    is_special = path.exists() and not path.is_file() and not path.is_dir()  # a directory is reported when it is read
    if is_special or path.parent == Path("/dev") or path.parent == Path("/dev/fd"):
        raise DataError(f"{path}: is a pipe or a device, not a file", hint="write the text to a file first")


def _read(path: Path, repair: Callable[[bytes, DataError], Repaired], notes: ReadNotes) -> Iterator[str | Repaired]:
    """The lines of a file. A bad line is passed to `repair`, with the error that it is."""
    for number, raw in enumerate(_raw_lines(path, notes), start=1):
        notes.n_lines = number
        if raw.endswith(b"\n"):
            raw = raw[:-1]
            if raw.endswith(b"\r"):
                raw = raw[:-1]
                notes.n_crlf += 1
        try:
            line = raw.decode("utf-8")
            if "\x00" not in line:
                yield line
                continue
        except UnicodeDecodeError:
            pass
        problem, hint = line_problem(raw)
        repaired = repair(raw, DataError(f"{path}:{number}: {problem}", hint=hint))
        notes.add_bad(number, problem)
        yield repaired


def line_problem(raw: bytes) -> tuple[str, str]:
    """Why a line is not valid text, and a hint."""
    try:
        column = raw.decode("utf-8").index("\x00") + 1
        return f"NUL character at column {column}", "the file is damaged or not a text file; fix or remove the line"
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        hint = "convert the file with `iconv -f latin1 -t utf-8`, or fix or remove the line"
        return f"not valid UTF-8 (byte 0x{raw[error.start]:02x} at column {column})", hint


def read_chunks(path: Path, notes: ReadNotes, n_bytes: int, offset: int = 0) -> Iterator[bytes]:
    """The bytes of a file, decompressed and without a byte order mark, in chunks of about `n_bytes`.

    An `offset` is a position in a file that is not compressed.
    """
    with _opened(path, notes) as stream:
        if offset:
            stream.seek(offset)
        chunks = iter(partial(stream.read, n_bytes), b"")
        for number, chunk in enumerate(chunks):
            yield chunk if number or offset else _without_bom(chunk, path, notes)


def too_long(path: Path, number: int) -> DataError:
    """The error for a line that does not end."""
    hint = "use a text file with one sentence per line"
    return DataError(f"{path}:{number}: longer than {MAX_LINE_BYTES // 2**20} MB", hint=hint)


def _raw_lines(path: Path, notes: ReadNotes) -> Iterator[bytes]:
    """Lines as bytes, with their LF."""
    with _opened(path, notes) as stream:
        lines = iter(partial(stream.readline, MAX_LINE_BYTES), b"")
        for number, raw in enumerate(lines, start=1):
            if number == 1:
                raw = _without_bom(raw, path, notes)
                if not raw:
                    return
            if len(raw) >= MAX_LINE_BYTES:
                raise too_long(path, number)
            yield raw


@contextmanager
def _opened(path: Path, notes: ReadNotes) -> Iterator[BinaryIO]:
    """A file, decompressed. Errors of the system or the decompressor become a DataError."""
    try:
        # by file descriptor: /dev/stdin may not exist, and would start a partly read file again
        with open(0, "rb", closefd=False) if path == STDIN else path.open("rb") as file:
            yield _decompressed(file, notes)
    except (gzip.BadGzipFile, EOFError, zlib.error, zstandard.ZstdError) as error:
        hint = "the file is damaged or incomplete; copy it again"
        raise DataError(f"{path}: cannot be decompressed after line {notes.n_lines} ({error})", hint=hint) from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file", hint="check the path") from error
    except IsADirectoryError as error:
        raise DataError(f"{path}: is a directory", hint="use a text file with one sentence per line") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})", hint="check its permissions") from error


def _decompressed(file: io.BufferedReader, notes: ReadNotes) -> BinaryIO:
    """The file, decompressed; the format is recognised by its first bytes, not its name."""
    start = file.peek(4)[:4]
    if start.startswith(_GZIP):
        notes.compression = "gzip"
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    if start.startswith(_ZSTD):
        notes.compression = "zstd"
        return io.BufferedReader(_ZstdStream(file))
    return file


def _without_bom(raw: bytes, path: Path, notes: ReadNotes) -> bytes:
    if raw.startswith(_UTF16):
        hint = "convert it with `iconv -f utf-16 -t utf-8`"
        raise DataError(f"{path}:1: not valid UTF-8 (the file starts like UTF-16)", hint=hint)
    if raw.startswith(_BOM):
        notes.has_bom = True
        return raw[len(_BOM) :]
    return raw


class _ZstdStream(io.RawIOBase):
    """Decompresses all frames of a file. If the file ends inside a frame, EOFError is raised."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._compressed = b""
        self._decompressed = memoryview(b"")
        self._in_frame = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._decompressed:
            if self._frame.eof:
                self._compressed = self._frame.unused_data
                self._frame = zstandard.ZstdDecompressor().decompressobj()
                self._in_frame = False
            self._compressed = self._compressed or self._file.read(_ZSTD_CHUNK_BYTES)
            if not self._compressed:
                if self._in_frame:
                    raise EOFError("the compressed file ends too early")
                return 0
            self._in_frame = True
            self._decompressed = memoryview(self._frame.decompress(self._compressed))
            self._compressed = b""
        n = min(len(buffer), len(self._decompressed))
        buffer[:n] = self._decompressed[:n]
        self._decompressed = self._decompressed[n:]
        return n
