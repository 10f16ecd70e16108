"""Scores of a set of translations, and test sets read from files."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from regard.errors import DataError, UserError
from regard.evaluate.by_length import BucketScore, bucket_score, measured_side
from regard.evaluate.measures import Array, Measured, Measures, build_measures
from regard.evaluate.significance import DEFAULT_SEED, Interval, interval_95, resampled_sums
from regard.text.lines import read_lines


@dataclass(frozen=True)
class Score:
    """One measure of a set of translations."""

    name: str
    value: float
    interval: Interval
    signature: str


@dataclass(frozen=True)
class Scores:
    """BLEU, chrF++ and TER of a corpus, and chrF++ of each sentence."""

    n_sentences: int
    bleu: Score
    chrf: Score
    ter: Score
    sentence_chrf: tuple[float, ...]
    length_of: Literal["source", "reference"]
    """Whose lengths `by_length` is by: the source's, if it is given."""
    by_length: tuple[BucketScore, ...]

    @property
    def all(self) -> tuple[Score, Score, Score]:
        """In the order of display."""
        return self.bleu, self.chrf, self.ter

    def worst(self, n: int) -> list[int]:
        """Indices of the n sentences with the lowest chrF++, lowest first."""
        return sorted(range(self.n_sentences), key=self.sentence_chrf.__getitem__)[:n]

    def to_dict(self) -> dict[str, object]:
        """Plain values, without the scores of sentences."""
        plain = {"n_sentences": self.n_sentences, "scores": [asdict(score) for score in self.all]}
        return plain | {"length_of": self.length_of, "by_length": [asdict(bucket) for bucket in self.by_length]}


def score(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    sources: Sequence[str] | None = None,
    lowercase: bool = False,
    tokenize: str = "13a",
    n_bootstrap: int = 1000,
    seed: int = DEFAULT_SEED,
) -> Scores:
    """Score translations against one or more lists of references: sacreBLEU's values, with 95% bootstrap intervals."""
    check_lengths(references, outputs=outputs, **({} if sources is None else {"sources": sources}))
    measures = build_measures(references, lowercase=lowercase, tokenize=tokenize)
    measured = [measure.measure(outputs) for measure in measures]
    sums = resampled_sums(np.hstack([results.statistics for results in measured]), n_bootstrap, seed)
    scores = []
    for measure, results, resampled in zip(measures, measured, split_columns(sums, measured), strict=True):
        signature = measure.signature(bs=n_bootstrap, seed=seed)
        scores.append(Score(measure.name, results.value, interval_95(measure.values(resampled)), signature))
    bleu, chrf, ter = scores
    by_sentence = sentence_chrf(measures, measured[1], outputs, references)
    length_of, buckets = measured_side(measures, sources, references)
    by_length = (bucket_score(bucket, measures, measured[0], measured[1], n_bootstrap, seed) for bucket in buckets)
    return Scores(len(outputs), bleu, chrf, ter, tuple(by_sentence.tolist()), length_of, tuple(by_length))


def sentence_chrf(
    measures: Measures, measured: Measured, outputs: Sequence[str], references: Sequence[Sequence[str]]
) -> Array:
    """chrF++ of each sentence; 100 for a blank output with a blank reference, where chrF has nothing to count."""
    by_sentence = measures.chrf.values(measured.statistics)
    for number, output in enumerate(outputs):
        if not output.strip() and any(not reference[number].strip() for reference in references):
            by_sentence[number] = 100.0
    return by_sentence


def split_columns(sums: np.ndarray, measured: Sequence[Measured]) -> list[np.ndarray]:
    """Split the columns of all measures into those of each."""
    widths = [results.statistics.shape[1] for results in measured]
    return np.split(sums, np.cumsum(widths)[:-1], axis=1)


def check_lengths(references: Sequence[Sequence[str]], **lists: Sequence[str]) -> None:
    """Raise a UserError unless every list has as many lines as the first reference, and at least one."""
    if not references or not references[0]:
        raise UserError("no reference to score against", hint="pass at least one reference with at least one line")
    n_lines = len(references[0])
    named = {f"reference {number}": lines for number, lines in enumerate(references, start=1)} | lists
    for name, lines in named.items():
        if len(lines) != n_lines:
            raise UserError(
                f"{name}: {len(lines)} lines, but reference 1 has {n_lines}",
                hint="line i of each must belong to the same sentence",
            )


@dataclass(frozen=True)
class TestSet:
    """References, and optionally sources, of the same sentences."""

    __test__ = False  # pytest would collect it as a test class

    references: tuple[list[str], ...]
    sources: list[str] | None
    reference_path: Path
    """The first reference file: all files must have as many lines."""

    def read_outputs(self, path: Path) -> list[str]:
        """Read translations of this set from a file."""
        return _read_aligned(path, len(self.references[0]), self.reference_path)


def read_test_set(references: Sequence[Path], source: Path | None) -> TestSet:
    """Read the files; raises a DataError if they have different numbers of lines."""
    if not references:
        raise DataError("no reference to score against", hint="add --reference FILE, or name test FILES after RUN")
    first = list(read_lines(references[0]))
    if not first:
        raise DataError(f"{references[0]}: the file is empty", hint="a reference file has one translation per line")
    more = [_read_aligned(path, len(first), references[0]) for path in references[1:]]
    sources = None if source is None else _read_aligned(source, len(first), references[0])
    return TestSet((first, *more), sources, references[0])


def _read_aligned(path: Path, n_lines: int, reference: Path) -> list[str]:
    lines = list(read_lines(path))
    if len(lines) != n_lines:
        raise DataError(
            f"{path} has {len(lines)} lines, but {reference} has {n_lines}",
            hint="line i of each file must belong to the same sentence; keep blank lines",
        )
    return lines
