"""The data doctor: reads a parallel corpus once, in bounded memory, and says what is wrong with it."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.text.corpus import Corpus
from regard.text.doctor import checks
from regard.text.doctor.alignment_slip import SideFeatures, align
from regard.text.doctor.checks import MAX_EXAMPLES, Places, SideSymptoms, key_of
from regard.text.doctor.findings import CorpusReport, Finding, Lengths, Side
from regard.text.lines import ReadNotes, read_lines, read_lines_or_none
from regard.text.normalise import normalise

Progress = Callable[[int, int | None], None]
"""Called with the bytes done, and of how many (None for packed files)."""

_MAX_HASHES = 10_000_000  # 8 bytes each; a longer corpus is searched for duplicates only so far
_EVERY = 2_000
_ORDER = {"spoils": 0, "warning": 1, "note": 2}
_Row = tuple[str | None, str | None]


def examine(
    corpus: Corpus, *, against: Sequence[str | Path | Corpus] = (), progress: Progress | None = None
) -> CorpusReport:
    """Read the corpus once and report. `against` are test or validation sets whose lines should not be in it."""
    held = [test for one in against for test in _test_sets(one)]
    patient = _Patient(corpus, held)
    total = _n_bytes(corpus)
    for number, row in enumerate(patient.rows(), start=1):
        patient.see(number, row)
        if progress is not None and number % _EVERY == 0:
            progress(min(patient.n_bytes, total) if total else patient.n_bytes, total)
    if progress is not None and total:
        progress(total, total)
    return patient.report()


class _TestSet:
    """Lines that should not be among the training data, as hashes."""

    def __init__(self, name: str, lines: Iterable[str]) -> None:
        self.name = name
        self.keys: dict[int, int] = {}  # hash → its first line
        for number, line in enumerate(lines, start=1):
            clean = normalise(line)
            if clean:
                self.keys.setdefault(key_of(clean.casefold()), number)


def _test_sets(of: str | Path | Corpus) -> list[_TestSet]:
    """One a file, or one a side."""
    if not isinstance(of, Corpus):
        return [_TestSet(str(of), read_lines(Path(of), on_bad="replace"))]
    if of.tsv is None:
        return [_TestSet(str(path), read_lines(path, on_bad="replace")) for path in of.files]
    rows = [line.split("\t") for line in read_lines(of.tsv, on_bad="replace")]
    return [
        _TestSet(f"{of.tsv} ({side})", (row[i] if len(row) == 2 else "" for row in rows))
        for i, side in enumerate(("source", "target"))
    ]


class _Patient:
    """Everything that is counted while the corpus passes by."""

    def __init__(self, corpus: Corpus, held: list[_TestSet]) -> None:
        self.corpus = corpus
        self.held = held
        self.watched = frozenset(key for test in held for key in test.keys)
        self.found: tuple[set[int], set[int]] = (set(), set())  # of the watched ones, on each side
        self.sides = (SideSymptoms(), SideSymptoms())
        self.features = (SideFeatures(), SideFeatures())
        self.notes = (ReadNotes(), ReadNotes())
        self.n_pairs = self.n_bytes = self.n_rows = 0
        self.equal, self.one_blank, self.bad_tabs = Places(), Places(), Places()
        self.pair_keys, self.source_keys = array("Q"), array("Q")
        self.ratios, self.ratio_lines = array("f"), array("I")

    def rows(self) -> Iterator[_Row]:
        """Source and target of every line; None for what is not valid text, or missing."""
        if self.corpus.tsv is None:
            source, target = (
                read_lines_or_none(path, notes=n) for path, n in zip(self.corpus.files, self.notes, strict=True)
            )
            yield from zip_longest(source, target)
            return
        for number, line in enumerate(read_lines_or_none(self.corpus.tsv, notes=self.notes[0]), start=1):
            cells = [] if line is None else line.split("\t")
            if line is not None and len(cells) != 2:
                self.bad_tabs.add(number)
            yield (cells[0], cells[1]) if len(cells) == 2 else (None, None)

    def see(self, number: int, row: _Row) -> None:
        """Take in one line of both sides."""
        keys = []
        for i, line in enumerate(row):
            raw = line or ""
            clean = normalise(raw)
            folded = clean.casefold()
            key = key_of(folded)
            if line is not None:
                self.n_bytes += len(raw.encode("utf-8")) + 1
                self.sides[i].see(number, raw, clean)
            self.features[i].add(folded)
            if clean and key in self.watched:
                self.found[i].add(key)
            keys.append((clean, key))
        if row[0] is not None and row[1] is not None:
            self.n_pairs += 1
            self._see_pair(number, *keys[0], *keys[1])

    def _see_pair(self, number: int, source: str, source_key: int, target: str, target_key: int) -> None:
        if not source or not target:
            if source or target:
                self.one_blank.add(number)
            return
        if source_key == target_key:
            self.equal.add(number)
        if len(self.source_keys) >= _MAX_HASHES:
            return
        self.source_keys.append(source_key)
        self.pair_keys.append((source_key * 3 + target_key) & 0xFFFFFFFFFFFFFFFF)
        self.ratios.append(len(target) / len(source))
        self.ratio_lines.append(number if max(len(source), len(target)) >= checks.MIN_LONG else 0)

    def report(self) -> CorpusReport:
        """What all of it means."""
        findings = [*self._counts(), *self._alignment(), *self._repeats(), *self._leaks()]
        for name, side, notes in zip(self._names(), self.sides, self.notes, strict=True):
            findings += checks.of_reading(name, notes)
            findings += side.findings(name)
        findings.sort(key=lambda finding: _ORDER[finding.severity])
        return CorpusReport(self.n_pairs, self._side(0), self._side(1), tuple(findings))

    def _names(self) -> tuple[str, str]:
        if self.corpus.tsv is not None:
            return f"{self.corpus.tsv} (source)", f"{self.corpus.tsv} (target)"
        return str(self.corpus.source), str(self.corpus.target)

    def _side(self, i: int) -> Side:
        side = self.sides[i]
        notes = self.notes[0] if self.corpus.tsv is not None else self.notes[i]
        return Side(
            name=self._names()[i],
            n_lines=notes.n_lines,
            n_blank=side.blank.count,
            n_crlf=notes.n_crlf,
            has_bom=notes.has_bom,
            compression=notes.compression,
            characters=Lengths.of(side.characters),
            words=Lengths.of(side.words),
        )

    def _counts(self) -> Iterator[Finding]:
        n_source, n_target = (notes.n_lines for notes in self.notes)
        if self.corpus.tsv is None and n_source != n_target:
            yield checks.unequal(self._names(), n_source, n_target)
        if not self.source_keys:
            yield checks.empty()
        yield from checks.bad_tabs(self.bad_tabs)
        yield from checks.one_blank(self.one_blank, self.n_pairs)
        yield from checks.equal_sides(self.equal, self.n_pairs)

    def _alignment(self) -> Iterator[Finding]:
        alignment = align(*self.features)
        if alignment is not None:
            yield from checks.of_alignment(alignment, self._names())

    def _repeats(self) -> Iterator[Finding]:
        lines = np.array(self.ratio_lines, np.int64)
        yield from checks.ratio_outliers(np.array(self.ratios, np.float64), lines)
        for what, keys in (("pairs", self.pair_keys), ("sources", self.source_keys)):
            yield from checks.duplicates(what, _count_repeats(np.array(keys, np.uint64)), len(keys))

    def _leaks(self) -> Iterator[Finding]:
        for test in self.held:
            hits = max(([line for key, line in test.keys.items() if key in side] for side in self.found), key=len)
            if hits:
                yield checks.leak(test.name, len(hits), len(test.keys), sorted(hits)[:MAX_EXAMPLES])


def _count_repeats(keys: NDArray[np.uint64]) -> int:
    return len(keys) - len(np.unique(keys))


def _n_bytes(corpus: Corpus) -> int | None:
    """Size of the files when it says how much there is to read: not when they are packed or no plain files."""
    total = 0
    try:
        for path in corpus.files:
            if not path.is_file():
                return None
            with path.open("rb") as file:
                if file.read(2) in (b"\x1f\x8b", b"\x28\xb5"):
                    return None
            total += path.stat().st_size
    except OSError:  # whoever reads it will say why it can not be read
        return None
    return total
