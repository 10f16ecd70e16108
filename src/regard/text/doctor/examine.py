"""Examines a parallel corpus of any size in one pass, in bounded memory and on all cores."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path

import numpy as np

from regard.processes import ordered_map
from regard.text.blocks import RawBlock, read_blocks, total_bytes, useful_processes
from regard.text.code_points import CodeLines, hash_lines, normalise_lines
from regard.text.corpus import Corpus
from regard.text.doctor import checks
from regard.text.doctor.alignment_slip import Alignment, AlignmentScan
from regard.text.doctor.block_facts import BlockFacts, Hashes, Histogram, SideFacts, examine_block
from regard.text.doctor.checks import MAX_EXAMPLES, LengthRatios, Occurrences, SideChecks
from regard.text.doctor.findings import CorpusReport, Finding, LengthStatistics, SideStatistics
from regard.text.doctor.mispaired import MIN_PAIRS, Pairing, PairSample
from regard.text.doctor.repeats import Repeats
from regard.text.lines import ReadNotes, read_lines, read_lines_or_none, require_file
from regard.text.normalise import normalise

ProgressCallback = Callable[[int, int | None], None]
"""Called with the number of bytes read, and the total (None for compressed files)."""

_ORDER = {"spoils": 0, "warning": 1, "note": 2}
_Row = tuple[str | None, str | None]


def examine(
    corpus: Corpus,
    *,
    against: Sequence[str | Path | Corpus] = (),
    earlier: "EarlierPairs | None" = None,
    progress: ProgressCallback | None = None,
) -> CorpusReport:
    """Examine a corpus. `against` are test or validation sets whose lines should not be in it."""
    return read_corpus(corpus, against=against, earlier=earlier, progress=progress).report()


def read_corpus(
    corpus: Corpus,
    *,
    against: Sequence[str | Path | Corpus] = (),
    earlier: "EarlierPairs | None" = None,
    progress: ProgressCallback | None = None,
) -> "Examination":
    """Reads a corpus once, from which a report can be made, or a clean copy.

    Corpora that share `earlier` are compared: the report of each names its pairs that are in those read before it.
    """
    for path in (*corpus.files, *(path for data in against for path in _files(data))):
        require_file(path)
    tests = [test_set for data in against for test_set in _test_sets(data)]
    examination = Examination(corpus, tests, earlier or EarlierPairs())
    total = total_bytes(corpus.files)
    examine = partial(examine_block, examination.test_hashes)
    for facts in ordered_map(examine, examination.tasks(), useful_processes(corpus.files)):
        examination.add(facts)
        if progress is not None:
            progress(min(examination.n_bytes, total) if total else examination.n_bytes, total)
    if progress is not None and total:
        progress(total, total)
    return examination


class EarlierPairs:
    """The pairs of all corpora that have been read."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.repeats = Repeats()

    def begin(self, name: str) -> None:
        """The pairs that follow are of this corpus."""
        if self.names:
            self.repeats.next_corpus()
        self.names.append(name)


class _TestLines:
    """Hashes of the lines that should not be in the training data."""

    def __init__(self, name: str, lines: Iterable[str]) -> None:
        self.name = name
        self.hashes: dict[int, int] = {}  # hash → number of the first line with it
        digests, is_filled = hash_texts(lines)
        for number, (digest, filled) in enumerate(zip(digests, is_filled, strict=True), start=1):
            if filled:
                self.hashes.setdefault(digest, number)


def hash_texts(lines: Iterable[str]) -> tuple[list[int], list[bool]]:
    """Hashes of lines as `examine_block` makes them, and whether they have text."""
    text = "".join(f"{line}\n" for line in lines)
    clean, _ = normalise_lines(CodeLines.of(text), text)
    hashes: list[int] = hash_lines(clean).tolist()
    is_filled: list[bool] = (clean.lengths > 0).tolist()
    return hashes, is_filled


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

    def __init__(self, corpus: Corpus, test_sets: list[_TestLines], earlier: EarlierPairs) -> None:
        self.corpus = corpus
        earlier.begin(corpus.name)
        self._earlier = earlier
        self.test_sets = test_sets
        test_hashes = sorted({digest for test_set in test_sets for digest in test_set.hashes})
        self.test_hashes: Hashes = np.array(test_hashes, np.uint64)
        self.leaked: tuple[set[int], set[int]] = (set(), set())  # test hashes that occur on each side
        self.sides = (SideChecks(), SideChecks())
        self.notes = (ReadNotes(), ReadNotes())
        self.n_pairs = self.n_bytes = 0
        self.equal_sides, self.one_side_blank, self.bad_tabs = Occurrences(), Occurrences(), Occurrences()
        self.repeats = {"pairs": earlier.repeats, "sources": Repeats()}
        self.ratios = LengthRatios()
        self.sample = PairSample()
        self._scan = AlignmentScan()

    def tasks(self) -> Iterator[tuple[RawBlock, int]]:
        """The blocks of the corpus for `examine_block`."""
        for block in read_blocks(self.corpus.files, self.notes[: len(self.corpus.files)]):
            yield block, self.sample.thinning

    def rows(self) -> Iterator[_Row]:
        """Source and target of each line; None for a line that is not valid text, or missing."""
        if self.corpus.tsv is None:
            yield from zip_longest(*map(read_lines_or_none, self.corpus.files))
            return
        for line in read_lines_or_none(self.corpus.tsv):
            cells = [] if line is None else line.split("\t")
            yield (cells[0], cells[1]) if len(cells) == 2 else (None, None)

    def add(self, facts: BlockFacts) -> None:
        """Add the next block."""
        self.n_bytes += facts.n_bytes
        self.n_pairs += facts.n_pairs
        for i, side in enumerate(facts.sides):
            self._add_side(i, side)
        self._scan.add(facts.sides[0].features, facts.sides[1].features)
        self.bad_tabs.add(facts.bad_tabs)
        self.one_side_blank.add(facts.one_side_blank.tolist())
        self.equal_sides.add(facts.equal_sides.tolist())
        self.repeats["pairs"].add(facts.pair_hashes, facts.lines)
        self.repeats["sources"].add(facts.source_hashes, facts.lines)
        self.ratios.add(*facts.lengths, facts.lines)
        self.sample.add(facts.sample, len(facts.lines))

    def _add_side(self, i: int, facts: SideFacts) -> None:
        notes, side = self.notes[i], self.sides[i]
        notes.n_crlf += facts.n_crlf
        for number, problem, _ in facts.bad:
            notes.add_bad(number, problem)
        _add_counts(side.characters, facts.characters)
        _add_counts(side.words, facts.words)
        side.blank.add(facts.blank.tolist())
        side.long.add(facts.long.tolist())
        for name, lines in facts.odd.items():
            side.odd.setdefault(name, Occurrences()).add(lines)
        self.leaked[i].update(facts.leaked.tolist())

    def judge_pairs(self) -> None:
        """Read the corpus again where a sample of it has mispaired lines, so that the report names them all."""
        if self.pairing is not None:
            self.pairing.judge(
                (number, source, target)
                for number, row in enumerate(self.rows(), start=1)
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
        if not self.sample.n_seen:
            yield checks.empty()
        yield from checks.pair_findings(self.bad_tabs, self.one_side_blank, self.equal_sides, self.n_pairs)

    @cached_property
    def alignment(self) -> Alignment | None:
        """Where the sides stop matching; None for a few lines. Of a finished examination."""
        return self._scan.finish()

    def _alignment(self) -> Iterator[Finding]:
        if self.alignment is not None:
            yield from checks.alignment_findings(self.alignment, self._side_names())
        yield from checks.pairing_findings(self.pairing, self.alignment)
        if self.pairing is not None:
            yield from checks.sampled(self.pairing.n_judged, self.pairing.n_pairs)

    def _repeats(self) -> Iterator[Finding]:
        yield from self.ratios.outliers()
        for unit, repeats in self.repeats.items():
            count, first = 0, np.zeros(0, np.int64)
            for lines in repeats.lines():
                count += len(lines)
                first = np.sort(np.concatenate([first, lines[:MAX_EXAMPLES]]))[:MAX_EXAMPLES]
            yield from checks.duplicates(unit, count, repeats.n_lines, first.tolist())
        yield from self._in_other_corpora()

    def _in_other_corpora(self) -> Iterator[Finding]:
        found = {number: Occurrences() for number in range(len(self._earlier.names) - 1)}
        for lines, corpora in self.repeats["pairs"].in_other_corpora() if found else ():
            for number in np.unique(corpora).tolist():
                found[number].add_parts(lines[corpora == number])
        for number, occurrences in found.items():
            yield from checks.in_other_corpus(self._earlier.names[number], occurrences, self.n_pairs)

    def _leaks(self) -> Iterator[Finding]:
        for test in self.test_sets:
            by_side = [[line for digest, line in test.hashes.items() if digest in side] for side in self.leaked]
            lines = max(by_side, key=len)
            if lines:
                yield checks.leak(test.name, len(lines), len(test.hashes), sorted(lines)[:MAX_EXAMPLES])


def _add_counts(total: Counter[int], part: Histogram) -> None:
    for length, count in zip(part.lengths.tolist(), part.counts.tolist(), strict=True):
        total[length] += count
