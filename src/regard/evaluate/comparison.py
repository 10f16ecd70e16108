"""Compares two sets of translations: significance, scores by length, examples."""

# N sentences, R trials, K statistics of all measures

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from operator import eq
from typing import Literal

import numpy as np

from regard.evaluate.by_length import LengthBucket, measured_side, value
from regard.evaluate.measures import Measured, Measures, build_measures
from regard.evaluate.scoring import check_lengths, sentence_chrf, split_columns
from regard.evaluate.significance import DEFAULT_SEED, Interval, interval_95, p_value, resampled_sums, swapped_sums

Side = Literal["A", "B"]

SIGNIFICANCE_LEVEL = 0.05
_TIE = 1e-6  # smaller differences of chrF++ are rounding errors


@dataclass(frozen=True)
class Difference:
    """The difference between two systems by one measure."""

    name: str
    lower_is_better: bool
    a: float
    b: float
    interval: Interval
    """95% interval of b - a, by the paired bootstrap."""
    p_bootstrap: float
    p_randomization: float
    signature: str

    @property
    def difference(self) -> float:
        return self.b - self.a

    @property
    def better(self) -> Side | None:
        """The better system, or None if the difference is not significant (approximate randomisation)."""
        if self.p_randomization >= SIGNIFICANCE_LEVEL:
            return None
        return "B" if (self.difference > 0) != self.lower_is_better else "A"


@dataclass(frozen=True)
class Bucket:
    """Scores of the sentences of similar length."""

    label: str
    mean_length: float
    n_sentences: int
    bleu_a: float
    bleu_b: float
    chrf_a: float
    chrf_b: float
    interval: Interval
    """95% interval of the difference in BLEU, by the paired bootstrap."""


@dataclass(frozen=True)
class Example:
    """One sentence with both translations and their chrF++."""

    line: int
    source: str | None
    references: tuple[str, ...]
    a: str
    b: str
    chrf_a: float
    chrf_b: float


@dataclass(frozen=True)
class Comparison:
    """Two systems compared. A win is a sentence with the higher chrF++; examples start with the largest difference."""

    n_sentences: int
    n_identical: int
    changes: tuple[Difference, ...]
    length_of: Literal["source", "reference"]
    """Whose lengths the buckets are of: the source's, if it is given."""
    buckets: tuple[Bucket, ...]
    a_wins: int
    ties: int
    b_wins: int
    better_in_a: tuple[Example, ...]
    better_in_b: tuple[Example, ...]

    @property
    def verdict(self) -> str:
        """One sentence: which system is better, and by which measures."""
        names = {side: [change.name for change in self.changes if change.better == side] for side in ("B", "A", None)}
        clauses = [f"{side} is better by {_listed(names[side])}" for side in ("B", "A") if names[side]]
        if not clauses:
            return "No significant difference by any measure."
        if names[None]:
            clauses.append(f"no significant difference by {_listed(names[None])}")
        return "; ".join(clauses) + "."

    def with_examples(self, n: int) -> "Comparison":
        """A copy with at most n examples per side."""
        return replace(self, better_in_a=self.better_in_a[:n], better_in_b=self.better_in_b[:n])

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        plain = asdict(self)
        for change, values in zip(self.changes, plain["changes"], strict=True):
            values |= {"difference": change.difference, "better": change.better}
        return plain


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if names[1:] else names[0]


def compare(
    a: Sequence[str],
    b: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    sources: Sequence[str] | None = None,
    n_examples: int = 25,
    lowercase: bool = False,
    tokenize: str = "13a",
    n_bootstrap: int = 1000,
    n_shuffles: int = 10_000,
    seed: int = DEFAULT_SEED,
) -> Comparison:
    """Compare two translations of the same sentences, with up to `n_examples` examples per side."""
    check_lengths(references, a=a, b=b, **({} if sources is None else {"sources": sources}))
    measures = build_measures(references, lowercase=lowercase, tokenize=tokenize)
    measured_a = [measure.measure(a) for measure in measures]
    measured_b = [measure.measure(b) for measure in measures]
    chrf_a = sentence_chrf(measures, measured_a[1], a, references)
    chrf_b = sentence_chrf(measures, measured_b[1], b, references)
    gain = chrf_b - chrf_a
    order = np.argsort(gain, kind="stable")

    def example(i: int) -> Example:
        source = None if sources is None else sources[i]
        own_references = tuple(lines[i] for lines in references)
        return Example(i + 1, source, own_references, a[i], b[i], float(chrf_a[i]), float(chrf_b[i]))

    length_of, length_buckets = measured_side(measures, sources, references)
    return Comparison(
        n_sentences=len(a),
        n_identical=sum(map(eq, a, b)),
        changes=_changes(measures, measured_a, measured_b, n_bootstrap, n_shuffles, seed),
        length_of=length_of,
        buckets=tuple(
            _bucket(bucket, measures, measured_a, measured_b, n_bootstrap, seed) for bucket in length_buckets
        ),
        a_wins=int((gain < -_TIE).sum()),
        ties=int((np.abs(gain) <= _TIE).sum()),
        b_wins=int((gain > _TIE).sum()),
        better_in_a=tuple(example(i) for i in order[:n_examples].tolist() if gain[i] < -_TIE),
        better_in_b=tuple(example(i) for i in order[::-1][:n_examples].tolist() if gain[i] > _TIE),
    )


def _changes(
    measures: Measures, a: list[Measured], b: list[Measured], n_bootstrap: int, n_shuffles: int, seed: int
) -> tuple[Difference, ...]:
    rows_a, rows_b = (np.hstack([results.statistics for results in measured]) for measured in (a, b))  # (N, K)
    resampled = np.split(resampled_sums(np.hstack([rows_a, rows_b]), n_bootstrap, seed), 2, axis=1)
    swapped = swapped_sums(rows_a, rows_b, n_shuffles, seed)
    changes = []
    trials = zip(*(split_columns(sums, a) for sums in (*resampled, *swapped)), strict=True)
    for measure, in_a, in_b, (boot_a, boot_b, swapped_a, swapped_b) in zip(measures, a, b, trials, strict=True):
        bootstrap = measure.values(boot_b) - measure.values(boot_a)
        shuffled = measure.values(swapped_b) - measure.values(swapped_a)
        observed = abs(in_b.value - in_a.value)
        changes.append(
            Difference(
                name=measure.name,
                lower_is_better=measure.lower_is_better,
                a=in_a.value,
                b=in_b.value,
                interval=interval_95(bootstrap),
                p_bootstrap=p_value(np.abs(bootstrap) - np.abs(bootstrap).mean(), observed),
                p_randomization=p_value(np.abs(shuffled), observed),
                signature=measure.signature(bs=n_bootstrap, ar=n_shuffles, seed=seed),
            )
        )
    return tuple(changes)


def _bucket(
    bucket: LengthBucket, measures: Measures, a: list[Measured], b: list[Measured], n_bootstrap: int, seed: int
) -> Bucket:
    bleu_a, bleu_b, chrf_a, chrf_b = (
        value(measure, measured[i], bucket) for i, measure in enumerate(measures[:2]) for measured in (a, b)
    )
    rows = np.hstack([measured[0].statistics[bucket.inside] for measured in (a, b)])
    drawn_a, drawn_b = np.split(resampled_sums(rows, n_bootstrap, seed), 2, axis=1)
    interval = interval_95(measures.bleu.values(drawn_b) - measures.bleu.values(drawn_a))
    return Bucket(bucket.label, bucket.mean_length, len(rows), bleu_a, bleu_b, chrf_a, chrf_b, interval)
