"""Parallel text: two files, or one with a tab between source and target, and how much each counts."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from regard.errors import DataError
from regard.text.lines import ReadNotes, read_lines, read_lines_or_none
from regard.text.normalise import normalise

OnBadPair = Literal["raise", "skip"]

_CHUNK_BYTES = 1 << 20
_TSV_HINT = "every line of a TSV is source, one tab, target"


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Where pairs of sentences come from: `source` and `target`, or one `tsv`."""

    source: Path | None = None
    target: Path | None = None
    tsv: Path | None = None
    weight: float = 1.0
    """How often each pair appears in an epoch."""
    tag: str | None = None
    """The target language, as `de`: the tokenizer puts `>>de<<` before the source line."""

    def __post_init__(self) -> None:
        two_files = self.source is not None and self.target is not None and self.tsv is None
        one_file = self.source is None and self.target is None and self.tsv is not None
        if not (two_files or one_file):
            raise DataError("a corpus is a source and a target file, or one TSV file")
        if not 0 < self.weight < float("inf"):
            raise DataError(f"a corpus can not have the weight {self.weight}", hint="give a number above 0")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files to read, source first."""
        return tuple(path for path in (self.source, self.target, self.tsv) if path is not None)

    @property
    def name(self) -> str:
        """How messages call it: the names of its files."""
        return " + ".join(str(path) for path in self.files)

    def pairs(self, *, on_bad: OnBadPair = "raise") -> Iterator[tuple[str, str]]:
        """Source and target, pair after pair, as they stand in the files; both counts are checked at the end.

        With `on_bad="skip"` a pair goes missing when either side is not valid text, or has a tab too many or too few.
        """
        for pair in pairs_or_none(self, on_bad=on_bad):
            if pair is not None:
                yield pair


def pairs_or_none(corpus: Corpus, *, on_bad: OnBadPair = "raise") -> Iterator[tuple[str, str] | None]:
    """One item a line: the pair, or None for a bad one."""
    if corpus.tsv is not None:
        yield from _tsv_pairs(corpus.tsv, on_bad)
        return
    assert corpus.source is not None and corpus.target is not None
    sides = (corpus.source, corpus.target)
    notes = (ReadNotes(), ReadNotes())
    source, target = (_side(path, on_bad, note) for path, note in zip(sides, notes, strict=True))
    end = object()
    unequal = False
    for src, tgt in zip_longest(source, target, fillvalue=end):
        if src is end or tgt is end:
            unequal = True  # read both to the end: the message gives both counts
            continue
        yield (src, tgt) if isinstance(src, str) and isinstance(tgt, str) else None
    if unequal:
        raise unequal_counts(corpus, notes[0].n_lines, notes[1].n_lines)


def unequal_counts(corpus: Corpus, n_source: int, n_target: int) -> DataError:
    """The error for two files that can not be parallel."""
    return DataError(
        f"{corpus.source} has {n_source} lines, {corpus.target} has {n_target}",
        hint="line i of one must be the translation of line i of the other; `regard check` shows where they part",
    )


def count_pairs(corpus: Corpus, *, on_bad: OnBadPair = "raise") -> int:
    """How many pairs there are; reads everything once, so every fault of the files is found before any work."""
    return sum(1 for _ in corpus.pairs(on_bad=on_bad))


def fingerprint(corpus: Corpus) -> str:
    """SHA-256 over the bytes of the files, so that an edited corpus is noticed."""
    digest = hashlib.sha256()
    for path in corpus.files:
        one = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    one.update(chunk)
        except OSError as error:
            raise DataError(f"{path}: can not be read ({error.strerror or error})") from error
        digest.update(one.digest())
    return digest.hexdigest()


def held_out_share(n_pairs: int) -> float:
    """The share of pairs to keep for validation: 1%, at most about 1,000 pairs, more of a tiny corpus."""
    if n_pairs < 2:
        return 0.0
    n_valid = min(1000, max(n_pairs // 100, min(100, n_pairs // 10), 1))
    return n_valid / n_pairs


def is_held_out(source: str, share: float, seed: int) -> bool:
    """Whether a pair belongs to the validation set: a function of its source text and the seed alone.

    So equal sources never stand on both sides, in whatever order or file they come.
    """
    key = seed.to_bytes(16, "big", signed=True)
    digest = hashlib.blake2b(normalise(source).casefold().encode("utf-8"), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def _side(path: Path, on_bad: OnBadPair, notes: ReadNotes) -> Iterator[str | None]:
    return read_lines(path, notes=notes) if on_bad == "raise" else read_lines_or_none(path, notes=notes)


def _tsv_pairs(path: Path, on_bad: OnBadPair) -> Iterator[tuple[str, str] | None]:
    for number, line in enumerate(_side(path, on_bad, ReadNotes()), start=1):
        cells = [] if line is None else line.split("\t")
        if len(cells) == 2:
            yield cells[0], cells[1]
        elif on_bad == "raise":
            raise DataError(f"{path}:{number}: {len(cells) - 1} tabs where one is needed", hint=_TSV_HINT)
        else:
            yield None
