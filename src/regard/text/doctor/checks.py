"""What the data doctor looks for, how much of it is too much, and the words for it."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.text.doctor.alignment_slip import Alignment, Slip
from regard.text.doctor.findings import Finding, Severity
from regard.text.lines import ReadNotes

MAX_EXAMPLES = 5
MIN_LONG = 20  # characters: below this, lengths of a good pair can differ by any factor
_VERY_LONG = 2_000  # characters: far beyond a sentence
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_ODD = {
    "line separators": re.compile("[\x0b\x0c\r\x1c-\x1f\x85\u2028\u2029]"),
    "control characters": re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]"),
    "replacement characters (U+FFFD)": re.compile("\ufffd"),
    "private-use characters": re.compile(f"[{_PRIVATE}]"),
    "byte order marks inside the text": re.compile("\ufeff"),
    "signs of a wrong encoding, as in 'Ã¼' for 'ü'": re.compile("[ÃÂ][\x80-\xbf]|â€"),
}
_ANY_ODD = re.compile("|".join(pattern.pattern for pattern in _ODD.values()))
_ODD_ADVICE = "such characters become spaces or stay as noise; clean them at the source if you can"


class Places:
    """How often something was seen, and where first."""

    def __init__(self) -> None:
        self.count = 0
        self.lines: list[int] = []

    def add(self, number: int) -> None:
        """Count one line."""
        self.count += 1
        if len(self.lines) < MAX_EXAMPLES:
            self.lines.append(number)

    def finding(self, kind: str, severity: Severity, message: str, advice: str) -> Finding:
        """In words."""
        return Finding(kind, severity, self.count, tuple(self.lines), message, advice)


class SideSymptoms:
    """What is counted on one side."""

    def __init__(self) -> None:
        self.characters: Counter[int] = Counter()
        self.words: Counter[int] = Counter()
        self.blank, self.long = Places(), Places()
        self.odd: dict[str, Places] = {}

    def see(self, number: int, raw: str, clean: str) -> None:
        """Take in one line, as it stands and as it is normalised."""
        if not clean:
            self.blank.add(number)
        self.characters[len(clean)] += 1
        self.words[clean.count(" ") + 1 if clean else 0] += 1
        if len(clean) > _VERY_LONG:
            self.long.add(number)
        if not (raw.isascii() and raw.isprintable()) and _ANY_ODD.search(raw):
            for name, pattern in _ODD.items():
                if pattern.search(raw):
                    self.odd.setdefault(name, Places()).add(number)

    def findings(self, name: str) -> Iterator[Finding]:
        """Blank lines, very long lines and odd characters of this side."""
        n_lines = self.characters.total()
        if self.blank.count:
            severity: Severity = "warning" if self.blank.count > 0.01 * n_lines else "note"
            yield self.blank.finding(
                "blank", severity, f"{name}: {_lines(self.blank.count)} blank", "blank lines are left out of training"
            )
        if self.long.count:
            message = f"{name}: {_lines(self.long.count)} longer than {_VERY_LONG} characters"
            yield self.long.finding("very-long", "warning", message, "split them, one sentence on a line")
        for what, places in self.odd.items():
            severity = "warning" if places.count > 0.01 * n_lines else "note"
            yield places.finding("odd-characters", severity, f"{name}: {_lines(places.count)} with {what}", _ODD_ADVICE)


def key_of(text: str) -> int:
    """A 64-bit hash that is the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")


def of_reading(name: str, notes: ReadNotes) -> Iterator[Finding]:
    """Line ends, byte order mark and invalid text."""
    if notes.n_bad:
        message = f"{name}: {_lines(notes.n_bad)} not valid text ({notes.bad_examples[0]})"
        advice = "convert the file to UTF-8, or mend or remove these lines on both sides"
        yield Finding("invalid-text", "spoils", notes.n_bad, tuple(notes.bad_lines), message, advice)
    if notes.has_bom:
        yield Finding("bom", "note", 1, (1,), f"{name}: starts with a byte order mark", "it is removed when reading")
    if notes.n_crlf:
        message = f"{name}: {_lines(notes.n_crlf)} with a Windows line end (CRLF)"
        yield Finding("crlf", "note", notes.n_crlf, (), message, "it is removed when reading")


def empty() -> Finding:
    """No pair with text on both sides."""
    return Finding(
        "empty", "spoils", 0, (), "there is no pair with text on both sides", "check that these are the files"
    )


def unequal(names: Sequence[str], n_source: int, n_target: int) -> Finding:
    """Two files of different length."""
    message = f"{names[0]} has {n_source} lines, {names[1]} has {n_target}"
    advice = "line i of one must be the translation of line i of the other; look where the alignment slips"
    return Finding(
        "unequal-counts", "spoils", abs(n_source - n_target), (min(n_source, n_target) + 1,), message, advice
    )


def bad_tabs(places: Places) -> Iterator[Finding]:
    """Lines of a TSV that are not two cells."""
    if places.count:
        message = f"{_lines(places.count)} without exactly one tab"
        yield places.finding("tabs", "spoils", message, "every line of a TSV is source, one tab, target")


def one_blank(places: Places, n_pairs: int) -> Iterator[Finding]:
    """Text on one side only."""
    if places.count:
        severity: Severity = "spoils" if places.count > 0.2 * n_pairs else "warning"
        message = f"{_lines(places.count)} blank on one side only"
        yield places.finding("one-side-blank", severity, message, "translate or remove these lines on both sides")


def equal_sides(places: Places, n_pairs: int) -> Iterator[Finding]:
    """Source and target are the same text."""
    if places.count:
        share = places.count / n_pairs
        severity: Severity = "spoils" if share > 0.2 and n_pairs >= 20 else "warning" if share > 0.01 else "note"
        message = f"{_lines(places.count)} the same on both sides ({share:.1%}), apart from case"
        yield places.finding("source-equals-target", severity, message, "a model learns to copy from too many of these")


def duplicates(what: str, count: int, n_pairs: int) -> Iterator[Finding]:
    """Pairs, or sources, that come again."""
    if count:
        share = count / n_pairs
        severity: Severity = "warning" if what == "pairs" and share > 0.1 else "note"
        advice = "repeated lines count more in training; remove them unless that is meant"
        yield Finding(
            f"duplicate-{what}", severity, count, (), f"{_many(count, what)} seen before ({share:.1%})", advice
        )


def ratio_outliers(ratios: NDArray[np.float64], lines: NDArray[np.int64]) -> Iterator[Finding]:
    """Pairs whose lengths do not fit, measured by what is usual in this corpus."""
    if len(ratios) < MIN_LONG:
        return
    logs = np.log(ratios)
    middle = float(np.median(logs))
    spread = 1.4826 * float(np.median(np.abs(logs - middle)))
    odd = lines[(np.abs(logs - middle) > max(6 * spread, np.log(2.5))) & (lines > 0)]
    if len(odd):
        severity: Severity = "warning" if len(odd) > 0.02 * len(ratios) else "note"
        message = f"{_many(len(odd), 'pairs')} whose lengths do not fit (usual target/source: {np.exp(middle):.2f})"
        first = tuple(int(line) for line in odd[:MAX_EXAMPLES])
        yield Finding(
            "length-ratio", severity, len(odd), first, message, "look at them: often wrong or missing translations"
        )


def leak(name: str, n_found: int, n_lines: int, lines: list[int]) -> Finding:
    """Lines of a test set that are in the training data; line numbers are those of the test set."""
    share = n_found / n_lines
    severity: Severity = "spoils" if share > 0.01 and n_found > 1 else "warning"
    message = f"{name}: {n_found:,} of its {n_lines:,} different lines stand in the training data ({share:.1%})"
    advice = "remove them from the training data, or scores on this set will be too good"
    return Finding("leak", severity, n_found, tuple(lines), message, advice)


def of_alignment(alignment: Alignment, names: Sequence[str]) -> Iterator[Finding]:
    """Where the two sides are out of step."""
    if not alignment.related:
        message = "lines in the same place fit no better than lines far apart"
        yield Finding("unrelated", "warning", 1, (), message, "are these two files translations of each other?")
    for slip in alignment.slips[:MAX_EXAMPLES]:
        until = f" until line {slip.until}" if slip.until else ""
        if slip.offset is None:
            message = f"near line {slip.line} the two sides stop matching{until}"
            yield Finding("slip", "warning", 1, (slip.line,), message, "look there for missing or added lines")
        else:
            yield Finding("slip", "spoils", 1, (slip.line,), _slip_message(slip, names) + until, _SLIP_ADVICE)


_SLIP_ADVICE = "compare both files around that line and put back, or take out, what is missing"


def _slip_message(slip: Slip, names: Sequence[str]) -> str:
    assert slip.offset is not None
    number = abs(slip.offset)
    short = names[0] if slip.offset > 0 else names[1]
    missing = "1 line too few" if number == 1 else f"{number} lines too few"
    return f"the alignment slips near line {slip.line}: {short} has {missing} from there on"


def _lines(count: int) -> str:
    return _many(count, "lines")


def _many(count: int, plural: str) -> str:
    return f"1 {plural.removesuffix('s')}" if count == 1 else f"{count:,} {plural}"
