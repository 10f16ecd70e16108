"""The results of examining a corpus, as records that convert to JSON."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["note", "warning", "spoils"]  # "spoils" is an error; the word is part of the JSON format


@dataclass(frozen=True)
class Finding:
    """A problem of a corpus, or a note about it."""

    kind: str
    severity: Severity
    count: int
    lines: tuple[int, ...]
    """A few line numbers to look at, counted from 1."""
    message: str
    advice: str


@dataclass(frozen=True)
class LengthStatistics:
    """Statistics of the line lengths of one side."""

    mean: float
    median: int
    p95: int
    max: int

    @classmethod
    def from_counts(cls, counts: Counter[int]) -> "LengthStatistics":
        """From the number of lines of each length."""
        n = counts.total()
        if not n:
            return cls(0.0, 0, 0, 0)
        mean = sum(length * count for length, count in counts.items()) / n
        return cls(round(mean, 2), _quantile(counts, 0.5), _quantile(counts, 0.95), max(counts))


@dataclass(frozen=True)
class SideStatistics:
    """Statistics of the source or the target side."""

    name: str
    n_lines: int
    n_blank: int
    n_crlf: int
    has_bom: bool
    compression: str | None
    characters: LengthStatistics
    words: LengthStatistics


@dataclass(frozen=True)
class CorpusReport:
    """The result of `examine`; the most severe findings come first."""

    n_pairs: int
    source: SideStatistics
    target: SideStatistics
    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        """Whether the corpus needs to be fixed before training."""
        return any(finding.severity == "spoils" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        return {"spoils": self.has_errors, **asdict(self)}


def _quantile(counts: Counter[int], share: float) -> int:
    remaining = share * counts.total()
    for length in sorted(counts):
        remaining -= counts[length]
        if remaining <= 0:
            return length
    return max(counts)
