"""The checks of the data doctor: their thresholds and messages."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.text.doctor.alignment_slip import Alignment
from regard.text.doctor.findings import Finding, Severity
from regard.text.doctor.mispaired import Pairing
from regard.text.lines import ReadNotes

MAX_EXAMPLES = 5
MIN_LENGTH_TO_COMPARE = 20  # characters; the lengths of a short good pair can differ by any factor
_RATIO_STEPS = 1_000  # ratios are distinguished to 0.1%
_MAX_RATIO = 8 * _RATIO_STEPS
_RATIOS = np.arange(-_MAX_RATIO, _MAX_RATIO + 1) / _RATIO_STEPS
_MIN_RATIOS = 20  # pairs; with fewer, no ratio is called unusual
MAX_SENTENCE_LENGTH = 2_000  # characters
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
ODD = {
    "line separators": re.compile("[\x0b\x0c\r\x1c-\x1f\x85\u2028\u2029]"),
    "control characters": re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]"),
    "replacement characters (U+FFFD)": re.compile("\ufffd"),
    "private-use characters": re.compile(f"[{_PRIVATE}]"),
    "byte order marks inside the text": re.compile("\ufeff"),
    "signs of a wrong encoding, as in 'Ã¼' for 'ü'": re.compile("[ÃÂ][\x80-\xbf]|â€"),
}
# a character that all of these have, not to look for all of them in every line
ANY_ODD = f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd{_PRIVATE}ÃÂâ]"
_ODD_ADVICE = "such characters become spaces, or remain as noise; remove them from the original files if you can"


class Occurrences:
    """Counts lines with a problem, and keeps the numbers of the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self.lines: list[int] = []

    def add(self, numbers: Iterable[int]) -> None:
        """Add lines, in ascending order."""
        for number in numbers:
            self.count += 1
            if len(self.lines) < MAX_EXAMPLES:
                self.lines.append(number)

    def add_parts(self, numbers: NDArray[np.int64]) -> None:
        """Add lines that may be before those that were added, in ascending order."""
        self.count += len(numbers)
        self.lines = sorted([*self.lines, *numbers[:MAX_EXAMPLES].tolist()])[:MAX_EXAMPLES]

    def findings(self, kind: str, severity: Severity, message: str, advice: str) -> Iterator[Finding]:
        """A finding about these lines, if there are any."""
        if self.count:
            yield Finding(kind, severity, self.count, tuple(self.lines), message, advice)


class SideChecks:
    """Counts lengths, blank lines, very long lines and odd characters on one side."""

    def __init__(self) -> None:
        self.characters: Counter[int] = Counter()
        self.words: Counter[int] = Counter()
        self.blank, self.long = Occurrences(), Occurrences()
        self.odd: dict[str, Occurrences] = {}

    def findings(self, name: str) -> Iterator[Finding]:
        blank, long = self.blank, self.long
        message = f"{name}: {_many(blank.count, 'blank lines')}"
        yield from blank.findings("blank", self._severity(blank), message, "they are not used in training")
        message = f"{name}: {_lines(long.count)} longer than {MAX_SENTENCE_LENGTH} characters"
        yield from long.findings("very-long", "warning", message, "split them, with one sentence per line")
        for description, odd in self.odd.items():
            message = f"{name}: {_lines(odd.count)} with {description}"
            yield from odd.findings("odd-characters", self._severity(odd), message, _ODD_ADVICE)

    def _severity(self, occurrences: Occurrences) -> Severity:
        return "warning" if occurrences.count > 0.01 * self.characters.total() else "note"


def reading_findings(name: str, notes: ReadNotes) -> Iterator[Finding]:
    """Line ends, byte order mark and invalid text."""
    if notes.n_bad:
        message = f"{name}: {_lines(notes.n_bad)} not valid text ({notes.bad_examples[0]})"
        advice = "convert the file to UTF-8, or fix or remove these lines on both sides"
        yield Finding("invalid-text", "spoils", notes.n_bad, tuple(notes.bad_lines), message, advice)
    if notes.has_bom:
        yield Finding("bom", "note", 1, (1,), f"{name}: starts with a byte order mark", "it is removed when reading")
    if notes.n_crlf:
        message = f"{name}: {_lines(notes.n_crlf)} with a Windows line end (CRLF)"
        yield Finding("crlf", "note", notes.n_crlf, (), message, "it is removed when reading")


def empty() -> Finding:
    """No pair with text on both sides."""
    return Finding("empty", "spoils", 0, (), "no pair has text on both sides", "check that these are the right files")


def unequal_counts(names: Sequence[str], n_source: int, n_target: int) -> Finding:
    """Two files of different length."""
    message = f"{names[0]} has {n_source} lines, {names[1]} has {n_target}"
    advice = "line i of the target must be the translation of line i of the source; look for missing or added lines"
    return Finding(
        "unequal-counts", "spoils", abs(n_source - n_target), (min(n_source, n_target) + 1,), message, advice
    )


_TSV_ADVICE = "each line of a TSV file must be: source, one tab, target; or give two files"


def pair_findings(
    bad_tabs: Occurrences, one_side_blank: Occurrences, equal_sides: Occurrences, n_pairs: int
) -> Iterator[Finding]:
    """Lines without exactly one tab, with text on one side only, and with the same text on both sides."""
    message = f"{_lines(bad_tabs.count)} without exactly one tab"
    yield from bad_tabs.findings("tabs", "spoils", message, _TSV_ADVICE)
    severity: Severity = "spoils" if one_side_blank.count > 0.2 * n_pairs else "warning"
    message = f"{_lines(one_side_blank.count)} blank on one side only"
    advice = "translate or remove these lines on both sides"
    yield from one_side_blank.findings("one-side-blank", severity, message, advice)
    share = equal_sides.count / max(1, n_pairs)
    severity = "spoils" if share > 0.2 and n_pairs >= 20 else "warning" if share > 0.01 else "note"
    message = f"{_lines(equal_sides.count)} the same on both sides ({share:.1%}), apart from case"
    advice = "too many of these teach the model to copy"
    yield from equal_sides.findings("source-equals-target", severity, message, advice)


def duplicates(unit: str, count: int, n_pairs: int, lines: Sequence[int]) -> Iterator[Finding]:
    """Repeated pairs or sources."""
    if count:
        share = count / n_pairs
        severity: Severity = "warning" if unit == "pairs" and share > 0.1 else "note"
        advice = "repeated lines get more weight in training; remove them unless that is intended"
        message = f"{_many(count, unit)} repeated ({share:.1%})"
        yield Finding(f"duplicate-{unit}", severity, count, tuple(lines), message, advice)


def in_other_corpus(name: str, repeated: Occurrences, n_pairs: int) -> Iterator[Finding]:
    """Pairs that are in another corpus too."""
    share = repeated.count / max(1, n_pairs)
    severity: Severity = "warning" if share > 0.1 else "note"
    message = f"{_many(repeated.count, 'pairs')} ({share:.1%}) also in {name}"
    advice = "they get more weight in training; use only one of the two, or remove these lines"
    yield from repeated.findings("in-other-corpus", severity, message, advice)


class LengthRatios:
    """How many times as long targets are as their sources: the logarithms, rounded."""

    def __init__(self) -> None:
        self.counts = np.zeros(2 * _MAX_RATIO + 1, np.int64)
        self.long = np.zeros_like(self.counts)  # of these, those of long pairs
        self._lines: list[list[int]] = [[] for _ in self.counts]  # the first long pairs of each ratio

    def add(self, source: NDArray[np.int64], target: NDArray[np.int64], lines: NDArray[np.int64]) -> None:
        """Add pairs with these lengths in characters."""
        ratios = np.rint(np.log(target / source) * _RATIO_STEPS).astype(np.int64)
        bins = np.clip(ratios, -_MAX_RATIO, _MAX_RATIO) + _MAX_RATIO
        is_long = np.maximum(source, target) >= MIN_LENGTH_TO_COMPARE
        self.counts += np.bincount(bins, minlength=len(self.counts))
        new = bins[is_long & (self.long[bins] < MAX_EXAMPLES)], lines[is_long & (self.long[bins] < MAX_EXAMPLES)]
        for place, line in zip(*map(np.ndarray.tolist, new), strict=True):
            if len(self._lines[place]) < MAX_EXAMPLES:
                self._lines[place].append(line)
        self.long += np.bincount(bins[is_long], minlength=len(self.counts))

    def usual(self) -> tuple[float, float] | None:
        """The logarithm of the usual ratio, and by how much it may differ; None for a few pairs."""
        if self.counts.sum() < _MIN_RATIOS:
            return None
        median = _median(_RATIOS, self.counts)
        spread = 1.4826 * _median(np.abs(_RATIOS - median), self.counts)  # a robust standard deviation
        return median, max(6 * spread, float(np.log(2.5)))

    def outliers(self) -> Iterator[Finding]:
        """Pairs whose ratio is unusual in this corpus."""
        usual = self.usual()
        if usual is None:
            return
        median, limit = usual
        places = np.flatnonzero((np.abs(_RATIOS - median) > limit) & (self.long > 0))
        if len(places):
            count = int(self.long[places].sum())
            severity: Severity = "warning" if count > 0.02 * self.counts.sum() else "note"
            pairs = _many(count, "pairs")
            message = f"{pairs} with an unusual length ratio (median target/source: {np.exp(median):.2f})"
            advice = "check them: often a wrong or incomplete translation"
            first = sorted(line for place in places for line in self._lines[place])[:MAX_EXAMPLES]
            yield Finding("length-ratio", severity, count, tuple(first), message, advice)


def _median(values: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    order = np.argsort(values, kind="stable")
    below = np.cumsum(counts[order])
    return float(values[order[np.searchsorted(below, below[-1] / 2)]])


def leak(name: str, n_leaked: int, n_lines: int, lines: list[int]) -> Finding:
    """Test lines that are also in the training data; line numbers are those of the test set."""
    share = n_leaked / n_lines
    severity: Severity = "spoils" if share > 0.01 and n_leaked > 1 else "warning"
    message = f"{name}: {n_leaked:,} of its {n_lines:,} distinct lines are also in the training data ({share:.1%})"
    advice = "remove them from the training data, or scores on this set will be too high"
    return Finding("leak", severity, n_leaked, tuple(lines), message, advice)


def alignment_findings(alignment: Alignment, names: Sequence[str]) -> Iterator[Finding]:
    """Where the two sides are not parallel."""
    for slip in alignment.slips[:MAX_EXAMPLES]:
        until = f" until line {slip.until}" if slip.until else ""
        message = f"near line {slip.line} the two sides stop matching{until}"
        if slip.offset is None:
            yield Finding("slip", "warning", 1, (slip.line,), message, "look for missing or added lines there")
        else:
            shorter = names[0] if slip.offset > 0 else names[1]
            message += f": {shorter} lacks {_lines(abs(slip.offset))}"
            yield Finding("slip", "spoils", 1, (slip.line,), message, _SLIP_ADVICE)


def pairing_findings(pairing: Pairing | None, alignment: Alignment | None) -> Iterator[Finding]:
    """Lines that are not translations of each other, by their words or, where words cannot tell, by their lengths."""
    if pairing is not None and pairing.is_telling:
        if not pairing.related:
            yield Finding("unrelated", "spoils", pairing.n_pairs, (), _UNRELATED, _UNRELATED_ADVICE)
        elif pairing.lines:
            yield _mispaired(pairing)
    elif alignment is not None and not alignment.related:
        yield Finding("unrelated", "warning", 1, (), _UNRELATED, _UNRELATED_ADVICE)


def _mispaired(pairing: Pairing) -> Finding:
    share = len(pairing.lines) / pairing.n_judged
    severity: Severity = "spoils" if share >= 0.5 else "warning" if share > 0.01 else "note"
    count = round(share * pairing.n_pairs)
    about = "" if pairing.n_judged == pairing.n_pairs else "about "
    message = f"{about}{_many(count, 'pairs')} ({share:.1%}) whose words do not match"
    return Finding("mispaired", severity, count, tuple(pairing.lines[:MAX_EXAMPLES]), message, _MISPAIRED_ADVICE)


def sampled(n_examined: int, n_all: int) -> Iterator[Finding]:
    """Words are compared in a sample only."""
    if n_examined < n_all:
        message = f"pairs whose words do not match: only {n_examined:,} of {n_all:,} were examined"
        yield Finding("limited", "note", n_all - n_examined, (), message, "`--write DIR` examines all of them")


_UNRELATED = "lines match no better in place than elsewhere"
_UNRELATED_ADVICE = "check that the two files are translations of each other, in the same order"
_MISPAIRED_ADVICE = "look at these pairs; `regard check --write DIR` writes the corpus without them"
_SLIP_ADVICE = "compare both files around that line, and add the missing line or remove the extra one"


def _lines(count: int) -> str:
    return _many(count, "lines")


def _many(count: int, plural: str) -> str:
    return f"1 {plural.removesuffix('s')}" if count == 1 else f"{count:,} {plural}"
