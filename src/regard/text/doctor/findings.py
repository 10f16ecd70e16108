"""What the data doctor found: plain records, ready for a table or for JSON."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["note", "warning", "spoils"]


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing about a corpus."""

    kind: str
    severity: Severity
    count: int
    lines: tuple[int, ...]
    """A few line numbers to look at, counted from 1."""
    message: str
    advice: str


@dataclass(frozen=True)
class Lengths:
    """How long the lines of one side are."""

    mean: float
    median: int
    p95: int
    max: int

    @classmethod
    def of(cls, counts: Counter[int]) -> "Lengths":
        """From how often each length occurs."""
        n = counts.total()
        if not n:
            return cls(0.0, 0, 0, 0)
        mean = sum(length * count for length, count in counts.items()) / n
        return cls(round(mean, 2), _quantile(counts, 0.5), _quantile(counts, 0.95), max(counts))


@dataclass(frozen=True)
class Side:
    """One of the two sides of a corpus."""

    name: str
    n_lines: int
    n_blank: int
    n_crlf: int
    has_bom: bool
    compression: str | None
    characters: Lengths
    words: Lengths


@dataclass(frozen=True)
class CorpusReport:
    """The whole examination; the worst findings come first."""

    n_pairs: int
    source: Side
    target: Side
    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        """Whether anything here would spoil a training."""
        return any(finding.severity == "spoils" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"spoils": self.has_errors, **asdict(self)}


def _quantile(counts: Counter[int], share: float) -> int:
    left = share * counts.total()
    for length in sorted(counts):
        left -= counts[length]
        if left <= 0:
            return length
    return max(counts)
