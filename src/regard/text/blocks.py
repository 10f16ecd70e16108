"""Reads parallel text in blocks of some thousand lines, which can be examined or encoded at once, and in parallel."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError
from regard.processes import n_cores
from regard.text.lines import MAX_LINE_BYTES, ReadNotes, line_problem, read_chunks, require_file, too_long

BLOCK_BYTES = 1 << 20  # of each file, about
_MIN_BYTES_FOR_PROCESSES = 30_000_000  # starting them takes half a second
_BOM_BYTES = 3
_EMPTY = np.zeros(0, np.int64)


@dataclass(frozen=True)
class RawBlock:
    """The same lines of each file, as bytes that end with a line feed; none of a file that has ended before them."""

    first: int  # number of the first line, from 1
    files: tuple[bytes, ...]
    n_lines: int


@dataclass(frozen=True)
class Side:
    """The source or the target lines of a block."""

    text: str  # each line with a line feed; blank where a line is missing, not valid, or has the wrong number of tabs
    is_text: NDArray[np.bool_]  # (n_lines,) False for those
    n_crlf: int = 0
    bad: tuple[tuple[int, str, str], ...] = ()  # lines that are not valid text: number, problem, hint


@dataclass(frozen=True)
class PairBlock:
    """Source and target lines, decoded."""

    first: int
    n_lines: int
    sides: tuple[Side, Side]
    bad_tabs: tuple[tuple[int, int], ...] = ()  # lines of a TSV file without exactly one tab: number, tabs

    @property
    def is_pair(self) -> NDArray[np.bool_]:
        """(n_lines,) which lines have valid text on both sides, which may be blank."""
        return self.sides[0].is_text & self.sides[1].is_text


def read_blocks(paths: Sequence[Path], notes: Sequence[ReadNotes]) -> Iterator[RawBlock]:
    """Blocks of lines from parallel files. Where one file ends, those of the others follow."""
    buffers = [_Buffer(path, note) for path, note in zip(paths, notes, strict=True)]
    first = 1
    while available := [n for buffer in buffers if (n := buffer.fill())]:
        n_lines = min(available)
        yield RawBlock(first, tuple(buffer.take(n_lines) for buffer in buffers), n_lines)
        first += n_lines


@dataclass(frozen=True)
class LineRange:
    """Consecutive lines of parallel files."""

    first: int  # number of the first line, from 1
    n_lines: int
    offsets: tuple[int, ...]  # where they begin in each file; -1 in a compressed one, which is read from its beginning

    def blocks(self, paths: Sequence[Path]) -> Iterator[RawBlock]:
        """The lines; raises DataError if there are fewer."""
        buffers = [_Buffer(path, ReadNotes(), max(0, offset)) for path, offset in zip(paths, self.offsets, strict=True)]
        for buffer, offset in zip(buffers, self.offsets, strict=True):
            n_before = self.first - 1 if offset < 0 else 0
            while n_before and (n := min(n_before, buffer.fill())):
                buffer.take(n)
                n_before -= n
        done = 0
        while done < self.n_lines:
            n_lines = min(self.n_lines - done, *(buffer.fill() for buffer in buffers))
            if not n_lines:
                raise DataError(f"{paths[0]}: was changed while it was encoded", hint="encode it again")
            yield RawBlock(self.first + done, tuple(buffer.take(n_lines) for buffer in buffers), n_lines)
            done += n_lines


def line_ranges(paths: Sequence[Path], n_lines: int) -> Iterator[LineRange]:
    """The lines of parallel files, `n_lines` at a time; raises DataError if one file has more lines than another."""
    starts, counts = zip(*(_line_starts(path, n_lines) for path in paths), strict=True)
    if len(set(counts)) > 1:
        message = f"{paths[0]} has {counts[0]} lines, {paths[1]} has {counts[1]}"
        raise DataError(message, hint="`regard check` shows where they diverge")
    for number, offsets in enumerate(zip(*starts, strict=True)):
        first = number * n_lines
        yield LineRange(first + 1, min(n_lines, counts[0] - first), offsets)


def count_lines(path: Path) -> int:
    """The number of lines of a file, which may be compressed."""
    return _line_starts(path, 1 << 62)[1]


def _line_starts(path: Path, every: int) -> tuple[list[int], int]:
    """Where every so-many-th line begins (-1 in a compressed file), and the number of lines."""
    require_file(path)
    notes = ReadNotes()
    starts, n_lines, n_bytes, last = [0], 0, 0, b"\n"
    for chunk in read_chunks(path, notes, 8 * BLOCK_BYTES):
        n_ends = chunk.count(b"\n")
        if n_lines + n_ends >= len(starts) * every:
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
            while n_lines + n_ends >= len(starts) * every:
                starts.append(n_bytes + int(ends[len(starts) * every - n_lines - 1]) + 1)
        n_lines, n_bytes, last = n_lines + n_ends, n_bytes + len(chunk), chunk[-1:]
    n_lines += last != b"\n"
    bom = _BOM_BYTES if notes.has_bom else 0
    starts = [start + bom if start else 0 for start in starts[: -(-n_lines // every)]]
    return [-1] * len(starts) if notes.compression else starts, n_lines


def total_bytes(paths: Iterable[Path]) -> int | None:
    """The size of the text in files; None if one is compressed, or not a regular file."""
    total = 0
    try:
        for path in paths:
            if not path.is_file():
                return None
            with path.open("rb") as file:
                if file.read(2) in (b"\x1f\x8b", b"\x28\xb5"):
                    return None
            total += path.stat().st_size
    except OSError:  # reading the file will report it
        return None
    return total


def useful_processes(paths: Iterable[Path]) -> int:
    """How many processes are worth starting to read files."""
    size = sum(path.stat().st_size for path in paths if path.is_file())
    return n_cores() if size > _MIN_BYTES_FOR_PROCESSES else 1


def decode_block(block: RawBlock) -> PairBlock:
    """The text of a block: of two files, or of one TSV file."""
    sides = [_decode(raw, block.first, block.n_lines) for raw in block.files]
    if len(sides) == 2:
        return PairBlock(block.first, block.n_lines, (sides[0], sides[1]))
    return _split_at_tabs(block, sides[0])


class _Buffer:
    """Complete lines that have been read from a file."""

    def __init__(self, path: Path, notes: ReadNotes, offset: int = 0) -> None:
        self._path, self._notes = path, notes
        self._chunks = read_chunks(path, notes, BLOCK_BYTES, offset)
        self._data = self._rest = b""  # complete lines; the beginning of the next one
        self._ends = _EMPTY  # of the lines in `data`

    def fill(self) -> int:
        """Read until there is a complete line. Returns how many there are, 0 at the end of the file."""
        while not len(self._ends):
            chunk = next(self._chunks, b"")
            if not chunk and not self._rest:
                return 0
            data = self._rest + (chunk or b"\n")
            end = data.rfind(b"\n") + 1
            self._data, self._rest = data[:end], data[end:]
            self._ends = np.flatnonzero(np.frombuffer(self._data, np.uint8) == ord("\n")) + 1
            self._notes.n_lines += len(self._ends)
            if len(self._rest) >= MAX_LINE_BYTES:
                raise too_long(self._path, self._notes.n_lines + 1)
        return len(self._ends)

    def take(self, n_lines: int) -> bytes:
        """The next lines; none if the file has ended."""
        if not len(self._ends):
            return b""
        end = int(self._ends[n_lines - 1])
        taken, self._data = self._data[:end], self._data[end:]
        self._ends = self._ends[n_lines:] - end
        return taken


def _decode(raw: bytes, first: int, n_lines: int) -> Side:
    n_crlf = raw.count(b"\r\n")
    if n_crlf:
        raw = raw.replace(b"\r\n", b"\n")
    if not raw:  # the file has ended
        return Side("\n" * n_lines, np.zeros(n_lines, np.bool_))
    try:
        text = raw.decode("utf-8")
        if "\x00" not in text:
            return Side(text, np.ones(n_lines, np.bool_), n_crlf)
    except UnicodeDecodeError:
        pass
    is_text, lines, bad = np.ones(n_lines, np.bool_), raw.split(b"\n")[:-1], []
    for i, line in enumerate(lines):
        try:
            if "\x00" not in line.decode("utf-8"):
                continue
        except UnicodeDecodeError:
            pass
        bad.append((first + i, *line_problem(line)))
        is_text[i], lines[i] = False, b""
    return Side(b"".join(line + b"\n" for line in lines).decode("utf-8"), is_text, n_crlf, tuple(bad))


def _split_at_tabs(block: RawBlock, side: Side) -> PairBlock:
    """The columns of a TSV file; a block in which every line has one tab is split at once."""
    rows = side.text.split("\n")[:-1]
    n_tabs = [row.count("\t") for row in rows]
    wrong = [i for i, n in enumerate(n_tabs) if n != 1]
    is_text = side.is_text.copy()
    bad_tabs = []
    for i in wrong:
        if is_text[i]:
            bad_tabs.append((block.first + i, n_tabs[i]))
        rows[i], is_text[i] = "\t", False
    cells = "\t".join(rows).split("\t")
    source, target = ("\n".join(cells[i::2]) + "\n" for i in (0, 1))
    sides = Side(source, is_text, side.n_crlf, side.bad), Side(target, is_text)
    return PairBlock(block.first, block.n_lines, sides, tuple(bad_tabs))
