"""Examines a parallel corpus in one pass and bounded memory."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

import numpy as np

from regard.text.corpus import Corpus
from regard.text.doctor import checks
from regard.text.doctor.alignment_slip import MAX_LINES, SideFeatures, align
from regard.text.doctor.checks import MAX_EXAMPLES, Occurrences, SideChecks, text_hash
from regard.text.doctor.findings import CorpusReport, Finding, LengthStatistics, SideStatistics
from regard.text.doctor.mispaired import MIN_PAIRS, Pairing, PairSample
from regard.text.lines import ReadNotes, read_lines, read_lines_or_none, require_file
from regard.text.normalise import normalise

ProgressCallback = Callable[[int, int | None], None]
"""Called with the number of bytes read, and the total (None for compressed files)."""

MAX_HASHES = 10_000_000  # 8 bytes each; later pairs are not checked for duplicates
_PROGRESS_LINES = 2_000
_ORDER = {"spoils": 0, "warning": 1, "note": 2}
_Row = tuple[str | None, str | None]


def examine(
    corpus: Corpus, *, against: Sequence[str | Path | Corpus] = (), progress: ProgressCallback | None = None
) -> CorpusReport:
    """Examine a corpus. `against` are test or validation sets whose lines should not be in it."""
    return read_corpus(corpus, against=against, progress=progress).report()


def read_corpus(
    corpus: Corpus, *, against: Sequence[str | Path | Corpus] = (), progress: ProgressCallback | None = None
) -> "Examination":
    """Reads a corpus once, from which a report can be made, or a clean copy."""
    for path in (*corpus.files, *(path for data in against for path in _files(data))):
        require_file(path)
    examination = Examination(corpus, [test_set for data in against for test_set in _test_sets(data)])
    total = _n_bytes(corpus)
    for number, row in enumerate(examination.rows(), start=1):
        examination.add(number, row)
        if progress is not None and number % _PROGRESS_LINES == 0:
            progress(min(examination.n_bytes, total) if total else examination.n_bytes, total)
    if progress is not None and total:
        progress(total, total)
    return examination


class _TestLines:
    """Hashes of the lines that should not be in the training data."""

    def __init__(self, name: str, lines: Iterable[str]) -> None:
        self.name = name
        self.hashes: dict[int, int] = {}  # hash → number of the first line with it
        for number, line in enumerate(lines, start=1):
            clean = normalise(line)
            if clean:
                self.hashes.setdefault(text_hash(clean.casefold()), number)


def _files(data: str | Path | Corpus) -> tuple[Path, ...]:
    return data.files if isinstance(data, Corpus) else (Path(data),)


def _test_sets(data: str | Path | Corpus) -> list[_TestLines]:
    """One per file; for a TSV corpus, one per side."""
    if not isinstance(data, Corpus):
        return [_TestLines(str(data), read_lines(Path(data), on_bad="replace"))]
    if data.tsv is None:
        return [_TestLines(str(path), read_lines(path, on_bad="replace")) for path in data.files]
    rows = [line.split("\t") for line in read_lines(data.tsv, on_bad="replace")]
    return [
        _TestLines(f"{data.tsv} ({side})", (row[i] if len(row) == 2 else "" for row in rows))
        for i, side in enumerate(("source", "target"))
    ]


class Examination:
    """Collects counts and hashes while the corpus is read."""

    def __init__(self, corpus: Corpus, test_sets: list[_TestLines]) -> None:
        self.corpus = corpus
        self.test_sets = test_sets
        self.test_hashes = frozenset(digest for test_set in test_sets for digest in test_set.hashes)
        self.leaked: tuple[set[int], set[int]] = (set(), set())  # test hashes that occur on each side
        self.sides = (SideChecks(), SideChecks())
        self.features = (SideFeatures(), SideFeatures())
        self.notes = (ReadNotes(), ReadNotes())
        self.n_pairs = self.n_bytes = 0
        self.equal_sides, self.one_side_blank, self.bad_tabs = Occurrences(), Occurrences(), Occurrences()
        self.pair_hashes, self.source_hashes = array("Q"), array("Q")
        self.ratios, self.ratio_lines = array("f"), array("I")
        self.sample = PairSample()

    def rows(self, *, again: bool = False) -> Iterator[_Row]:
        """Source and target of each line; None for a line that is not valid text, or missing.

        What is noted about the files is only counted the first time.
        """
        notes, bad_tabs = ((ReadNotes(), ReadNotes()), Occurrences()) if again else (self.notes, self.bad_tabs)
        if self.corpus.tsv is None:
            source, target = (
                read_lines_or_none(path, notes=part) for path, part in zip(self.corpus.files, notes, strict=True)
            )
            yield from zip_longest(source, target)
            return
        for number, line in enumerate(read_lines_or_none(self.corpus.tsv, notes=notes[0]), start=1):
            cells = [] if line is None else line.split("\t")
            if line is not None and len(cells) != 2:
                bad_tabs.add(number)
            yield (cells[0], cells[1]) if len(cells) == 2 else (None, None)

    def add(self, number: int, row: _Row) -> None:
        hashed = []
        for i, line in enumerate(row):
            raw = line or ""
            clean = normalise(raw)
            folded = clean.casefold()
            digest = text_hash(folded)
            if line is not None:
                self.n_bytes += len(raw.encode("utf-8")) + 1
                self.sides[i].add(number, raw, clean)
            self.features[i].add(folded)
            if clean and digest in self.test_hashes:
                self.leaked[i].add(digest)
            hashed.append((clean, digest))
        if row[0] is not None and row[1] is not None:
            self.n_pairs += 1
            self._add_pair(number, *hashed[0], *hashed[1])

    def _add_pair(self, number: int, source: str, source_hash: int, target: str, target_hash: int) -> None:
        if not source or not target:
            if source or target:
                self.one_side_blank.add(number)
            return
        self.sample.add(number, source, target)
        if source_hash == target_hash:
            self.equal_sides.add(number)
        if len(self.source_hashes) >= MAX_HASHES:
            return
        self.source_hashes.append(source_hash)
        self.pair_hashes.append((source_hash * 3 + target_hash) & 0xFFFFFFFFFFFFFFFF)
        self.ratios.append(len(target) / len(source))
        self.ratio_lines.append(number if max(len(source), len(target)) >= checks.MIN_LENGTH_TO_COMPARE else 0)

    def judge_pairs(self) -> None:
        """Read the corpus again where a sample of it has mispaired lines, so that the report names them all."""
        if self.pairing is not None:
            self.pairing.judge(
                (number, source, target)
                for number, row in enumerate(self.rows(again=True), start=1)
                if (source := normalise(row[0] or "")) and (target := normalise(row[1] or ""))
            )

    def report(self) -> CorpusReport:
        """All findings, the most severe first."""
        findings = [*self._counts(), *self._alignment(), *self._repeats(), *self._leaks()]
        for name, side, notes in zip(self._side_names(), self.sides, self.notes, strict=True):
            findings += checks.reading_findings(name, notes)
            findings += side.findings(name)
        findings.sort(key=lambda finding: _ORDER[finding.severity])
        return CorpusReport(self.n_pairs, self._side(0), self._side(1), tuple(findings))

    @cached_property
    def pairing(self) -> Pairing | None:
        """How well lines match by their words; None for a few lines. Of a finished examination."""
        return Pairing(self.sample) if len(self.sample.rows) >= MIN_PAIRS else None

    def _side_names(self) -> tuple[str, str]:
        if self.corpus.tsv is not None:
            return f"{self.corpus.tsv} (source)", f"{self.corpus.tsv} (target)"
        return str(self.corpus.source), str(self.corpus.target)

    def _side(self, i: int) -> SideStatistics:
        side = self.sides[i]
        notes = self.notes[0] if self.corpus.tsv is not None else self.notes[i]
        return SideStatistics(
            name=self._side_names()[i],
            n_lines=notes.n_lines,
            n_blank=side.blank.count,
            n_crlf=notes.n_crlf,
            has_bom=notes.has_bom,
            compression=notes.compression,
            characters=LengthStatistics.from_counts(side.characters),
            words=LengthStatistics.from_counts(side.words),
        )

    def _counts(self) -> Iterator[Finding]:
        n_source, n_target = (notes.n_lines for notes in self.notes)
        if self.corpus.tsv is None and n_source != n_target:
            yield checks.unequal_counts(self._side_names(), n_source, n_target)
        if not self.source_hashes:
            yield checks.empty()
        yield from checks.pair_findings(self.bad_tabs, self.one_side_blank, self.equal_sides, self.n_pairs)

    def _alignment(self) -> Iterator[Finding]:
        alignment = align(*self.features)
        pairing = self.pairing
        if alignment is not None:
            yield from checks.alignment_findings(alignment, self._side_names())
        yield from checks.pairing_findings(pairing, alignment)
        if pairing is not None:
            yield from checks.limited("pairs whose words do not match", pairing.n_judged, pairing.n_pairs)
        n_lines = max(notes.n_lines for notes in self.notes)
        yield from checks.limited("lines where the sides stop matching", min(n_lines, MAX_LINES), n_lines)

    def _repeats(self) -> Iterator[Finding]:
        lines = np.array(self.ratio_lines, np.int64)
        yield from checks.length_ratio_outliers(np.array(self.ratios, np.float64), lines)
        for unit, hashes in (("pairs", self.pair_hashes), ("sources", self.source_hashes)):
            n_repeated = len(hashes) - len(np.unique(np.array(hashes, np.uint64)))
            yield from checks.duplicates(unit, n_repeated, len(hashes))
        yield from checks.limited("pairs repeated, or of unusual length", len(self.source_hashes), self.sample.n_seen)

    def _leaks(self) -> Iterator[Finding]:
        for test in self.test_sets:
            by_side = [[line for digest, line in test.hashes.items() if digest in side] for side in self.leaked]
            lines = max(by_side, key=len)
            if lines:
                yield checks.leak(test.name, len(lines), len(test.hashes), sorted(lines)[:MAX_EXAMPLES])


def _n_bytes(corpus: Corpus) -> int | None:
    """The total size of the files; None if one is compressed or not a regular file."""
    total = 0
    try:
        for path in corpus.files:
            if not path.is_file():
                return None
            with path.open("rb") as file:
                if file.read(2) in (b"\x1f\x8b", b"\x28\xb5"):
                    return None
            total += path.stat().st_size
    except OSError:  # reading the file will report it
        return None
    return total
