"""Parallel text: two files, or one TSV file."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, Protocol

from regard.errors import DataError
from regard.text.blocks import RawBlock, read_blocks
from regard.text.lines import ReadNotes, read_lines, read_lines_or_none, require_file
from regard.text.normalise import normalise

OnBadPair = Literal["raise", "skip"]

TSV_HINT = "each line of a TSV file must be: source, one tab, target"


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A parallel corpus: the files `source` and `target`, or one file `tsv`."""

    source: Path | None = None
    target: Path | None = None
    tsv: Path | None = None
    weight: float = 1.0
    """How often each pair occurs in an epoch."""
    tag: str | None = None
    """The target language, such as `de`; the tokenizer then puts `>>de<<` before each source line."""

    def __post_init__(self) -> None:
        if len(self.files) != (2 if self.tsv is None else 1):
            raise DataError(
                "a corpus needs a source and a target file, or one TSV file", hint="set source and target, or tsv"
            )
        if not 0 < self.weight < float("inf"):
            raise DataError(f"{self.name}: the weight is {self.weight}", hint="use a number above 0")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files to read, source first."""
        return tuple(path for path in (self.source, self.target, self.tsv) if path is not None)

    @property
    def name(self) -> str:
        """The names of its files, for messages."""
        return " + ".join(str(path) for path in self.files)

    def pairs(self, *, on_bad: OnBadPair = "raise") -> Iterator[tuple[str, str]]:
        """(source, target) lines, unchanged. The files must have equally many lines, which is checked at the end.

        With `on_bad="skip"`, pairs with invalid text or the wrong number of tabs are left out.
        """
        if self.tsv is not None:
            yield from _tsv_pairs(self.tsv, on_bad)
            return
        notes = (ReadNotes(), ReadNotes())
        source, target = (_read(path, on_bad, note) for path, note in zip(self.files, notes, strict=True))
        end = object()
        unequal = False
        for src, tgt in zip_longest(source, target, fillvalue=end):
            if isinstance(src, str) and isinstance(tgt, str):
                yield src, tgt
            elif src is end or tgt is end:
                unequal = True  # read on: the message gives both counts
        if unequal:
            raise self._unequal(notes)

    def blocks(self) -> Iterator[RawBlock]:
        """The lines in blocks, unchanged. The files must have equally many, which is checked at the end."""
        notes = [ReadNotes() for _ in self.files]
        yield from read_blocks(self.files, notes)
        if len({note.n_lines for note in notes}) > 1:
            raise self._unequal(notes)

    def _unequal(self, notes: Sequence[ReadNotes]) -> DataError:
        return DataError(
            f"{self.source} has {notes[0].n_lines} lines, {self.target} has {notes[1].n_lines}",
            hint="line i of the target must translate line i of the source; `regard check` shows where they diverge",
        )


def count_pairs(corpus: Corpus, *, on_bad: OnBadPair = "raise") -> int:
    """The number of pairs. Reads the files to their ends, so any error in them is raised."""
    return sum(1 for _ in corpus.pairs(on_bad=on_bad))


class _HasFiles(Protocol):
    @property
    def files(self) -> tuple[Path, ...]: ...


def fingerprint(corpus: _HasFiles) -> str:
    """SHA-256 of the files of a corpus, which changes with any byte."""
    digest = hashlib.sha256()
    for path in corpus.files:
        require_file(path)
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except FileNotFoundError as error:
            raise DataError(f"{path}: no such file", hint="check the path") from error
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read ({error.strerror or error})", hint="check its permissions"
            ) from error
    return digest.hexdigest()


def held_out_share(n_pairs: int) -> float:
    """The share of pairs for validation: 1%, but at most about 1,000 pairs, and more of a tiny corpus."""
    if n_pairs < 2:
        return 0.0
    n_valid = min(1000, max(n_pairs // 100, min(100, n_pairs // 10), 1))
    return n_valid / n_pairs


def is_held_out(source: str, share: float, seed: int) -> bool:
    """Whether a pair belongs to the validation set. Depends only on its source text and the seed.

    So pairs with equal sources are all in the training set or all in the validation set, whatever their order.
    """
    key = seed.to_bytes(16, "big", signed=True)
    digest = hashlib.blake2b(normalise(source).casefold().encode("utf-8"), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def _read(path: Path, on_bad: OnBadPair, notes: ReadNotes) -> Iterator[str | None]:
    return read_lines(path, notes=notes) if on_bad == "raise" else read_lines_or_none(path, notes=notes)


def _tsv_pairs(path: Path, on_bad: OnBadPair) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(_read(path, on_bad, ReadNotes()), start=1):
        cells = [] if line is None else line.split("\t")
        if len(cells) == 2:
            yield cells[0], cells[1]
        elif on_bad == "raise":
            raise DataError(f"{path}:{number}: {len(cells) - 1} tabs instead of one", hint=TSV_HINT)
