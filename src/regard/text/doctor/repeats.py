"""Finds repeated lines among any number: their hashes are sorted in memory, or in files by their first bits."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MAX_IN_MEMORY = 2_000_000  # hashes; 16 bytes each, and as many again while they are sorted
_N_FILES = 256  # a billion lines are 4 million in each file
_RECORD = np.dtype([("hash", "<u8"), ("line", "<i8")])

Hashes = NDArray[np.uint64]
Lines = NDArray[np.int64]


class Repeats:
    """The hashes of lines with their line numbers."""

    def __init__(self) -> None:
        self.n_lines = 0
        self._recent: list[NDArray[np.void]] = []
        self._n_recent = 0
        self._directory: Path | None = None

    def add(self, hashes: Hashes, lines: Lines) -> None:
        """Add the next lines."""
        records = np.empty(len(hashes), _RECORD)
        records["hash"], records["line"] = hashes, lines
        self._recent.append(records)
        self.n_lines += len(records)
        self._n_recent += len(records)
        if self._n_recent > MAX_IN_MEMORY:
            self._write()

    def lines(self) -> Iterator[Lines]:
        """The numbers of the lines that an earlier line is equal to, in several parts, each in ascending order."""
        if self._directory is None:
            yield _repeated(np.concatenate([*self._recent, np.empty(0, _RECORD)]))
            return
        self._write()
        for path in sorted(self._directory.iterdir()):
            yield _repeated(np.fromfile(path, _RECORD))

    def _write(self) -> None:
        """Append what is in memory to the files."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="regard-check-"))
            weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        records = np.concatenate([*self._recent, np.empty(0, _RECORD)])
        self._recent, self._n_recent = [], 0
        numbers = (records["hash"] >> np.uint64(56)).astype(np.uint8)
        records = records[np.argsort(numbers, kind="stable")]
        ends = np.cumsum(np.bincount(numbers, minlength=_N_FILES))
        for number, part in enumerate(np.split(records, ends[:-1])):
            with (self._directory / f"{number:02x}").open("ab") as file:
                part.tofile(file)


def _repeated(records: NDArray[np.void]) -> Lines:
    """Lines of equal hash, except the first of each group."""
    records = records[np.argsort(records["hash"], kind="stable")]
    repeated: Lines = records["line"][1:][records["hash"][1:] == records["hash"][:-1]]
    return np.sort(repeated)
