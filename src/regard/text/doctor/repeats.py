"""Finds repeated lines among any number: their hashes are sorted in memory, or in files by their first bits."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MAX_IN_MEMORY = 500_000  # hashes; 16 bytes each, and as many again while they are sorted
_N_FILES = 256  # a billion lines are 4 million in each file
_RECORD = np.dtype([("hash", "<u8"), ("line", "<i8")])
_CORPUS_SHIFT = np.int64(48)  # a line number has the number of its corpus in the bits above

Hashes = NDArray[np.uint64]
Lines = NDArray[np.int64]


class Repeats:
    """The hashes of lines with their line numbers, of one corpus, or of several that are added one after the other."""

    def __init__(self) -> None:
        self.n_corpora = 1
        self.n_lines = 0  # of the last corpus
        self._recent: list[NDArray[np.void]] = []
        self._n_recent = 0
        self._directory: Path | None = None

    def next_corpus(self) -> None:
        """The lines that follow are of another corpus."""
        self.n_corpora, self.n_lines = self.n_corpora + 1, 0

    def add(self, hashes: Hashes, lines: Lines) -> None:
        """Add the next lines."""
        records = np.empty(len(hashes), _RECORD)
        records["hash"], records["line"] = hashes, lines | np.int64(self.n_corpora - 1) << _CORPUS_SHIFT
        self._recent.append(records)
        self.n_lines += len(records)
        self._n_recent += len(records)
        if self._n_recent > MAX_IN_MEMORY:
            self._write()

    def lines(self) -> Iterator[Lines]:
        """The numbers of the lines of the last corpus that an earlier one of its lines is equal to.

        They come in several parts, each in ascending order.
        """
        for repeated, _, _ in self._parts():
            yield repeated

    def in_other_corpora(self) -> Iterator[tuple[Lines, Lines]]:
        """The numbers of the lines of the last corpus that are in an earlier one, and which is the first, from 0."""
        for _, lines, corpora in self._parts():
            yield lines, corpora

    def _parts(self) -> Iterator[tuple[Lines, Lines, Lines]]:
        if self._directory is None:
            yield self._repeated(np.concatenate([*self._recent, np.empty(0, _RECORD)]))
            return
        self._write()
        for path in sorted(self._directory.iterdir()):
            yield self._repeated(np.fromfile(path, _RECORD))

    def _repeated(self, records: NDArray[np.void]) -> tuple[Lines, Lines, Lines]:
        """Lines that are repeated in the last corpus; those that are in earlier ones, and in which."""
        records = records[np.argsort(records["hash"], kind="stable")]
        hashes, corpora = records["hash"], records["line"] >> _CORPUS_SHIFT
        lines = records["line"] & ((np.int64(1) << _CORPUS_SHIFT) - 1)
        is_first = np.ones(len(records), np.bool_)  # of the lines with its hash
        is_first[1:] = hashes[1:] != hashes[:-1]
        is_new = is_first.copy()  # in its corpus
        is_new[1:] |= corpora[1:] != corpora[:-1]
        origins = corpora[is_first][np.cumsum(is_first) - 1]
        is_last = corpora == self.n_corpora - 1
        shared = np.flatnonzero(is_last & (origins != corpora))
        shared = shared[np.argsort(lines[shared], kind="stable")]
        return np.sort(lines[is_last & ~is_new]), lines[shared], origins[shared]

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
