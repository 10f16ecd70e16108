"""Is one set of translations better than another, and where?"""

# N sentences, R trials, K statistics of all measures side by side

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np

from regard.evaluate.measures import Array, Measure, Measured, Measures, measures
from regard.evaluate.scoring import check_lengths, sentence_chrf, split
from regard.evaluate.significance import DEFAULT_SEED, Interval, interval_95, p_value, resampled_sums, swapped_sums

Side = Literal["A", "B"]

SIGNIFICANT = 0.05
_EDGES = (0, 6, 11, 21, 31)
_TIE = 1e-6  # of chrF++: less is the rounding of sums


@dataclass(frozen=True)
class Difference:
    """One measure of both systems."""

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
        """From A to B."""
        return self.b - self.a

    @property
    def better(self) -> Side | None:
        """Which system is better, or None where chance explains the difference (approximate randomisation)."""
        if self.p_randomization >= SIGNIFICANT:
            return None
        return "B" if (self.difference > 0) != self.lower_is_better else "A"


@dataclass(frozen=True)
class Bucket:
    """Sentences whose reference is of similar length."""

    label: str
    n_sentences: int
    bleu_a: float
    bleu_b: float
    chrf_a: float
    chrf_b: float


@dataclass(frozen=True)
class Example:
    """One sentence in both translations; its chrF++ in each."""

    line: int
    source: str | None
    references: tuple[str, ...]
    a: str
    b: str
    chrf_a: float
    chrf_b: float


@dataclass(frozen=True)
class Comparison:
    """B beside A. Wins are sentences with the higher chrF++; examples begin with the largest difference."""

    n_sentences: int
    n_identical: int
    changes: tuple[Difference, ...]
    buckets: tuple[Bucket, ...]
    a_wins: int
    ties: int
    b_wins: int
    better_in_a: tuple[Example, ...]
    better_in_b: tuple[Example, ...]

    @property
    def verdict(self) -> str:
        """Which system is better, by which measures, in one sentence."""
        by_side = {side: [one.name for one in self.changes if one.better == side] for side in ("B", "A", None)}
        said = [f"{side} is better by {_listed(by_side[side])}" for side in ("B", "A") if by_side[side]]
        if not said:
            return "No measure shows a difference that chance would not explain."
        if by_side[None]:
            said.append(f"by {_listed(by_side[None])}, chance explains the difference")
        return "; ".join(said) + "."

    def with_examples(self, n: int) -> "Comparison":
        """The same with at most n examples of each side."""
        return replace(self, better_in_a=self.better_in_a[:n], better_in_b=self.better_in_b[:n])

    def to_dict(self) -> dict[str, object]:
        """As plain values."""
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
    """Compare two translations of the same sentences; `n_examples` are kept of each side's best."""
    check_lengths(references, a=a, b=b, **({} if sources is None else {"sources": sources}))
    bound = measures(references, lowercase=lowercase, tokenize=tokenize)
    found_a = [measure.measure(a) for measure in bound.all]
    found_b = [measure.measure(b) for measure in bound.all]
    chrf_a, chrf_b = (sentence_chrf(bound, found[1], out, references) for found, out in ((found_a, a), (found_b, b)))
    gain = chrf_b - chrf_a
    order = np.argsort(gain, kind="stable")
    example = partial(_example, a, b, chrf_a, chrf_b, references, sources)
    return Comparison(
        n_sentences=len(a),
        n_identical=sum(one == other for one, other in zip(a, b, strict=True)),
        changes=_changes(bound, found_a, found_b, n_bootstrap, n_shuffles, seed),
        buckets=_buckets(bound, found_a, found_b, bound.n_tokens(references[0])),
        a_wins=int((gain < -_TIE).sum()),
        ties=int((np.abs(gain) <= _TIE).sum()),
        b_wins=int((gain > _TIE).sum()),
        better_in_a=tuple(example(i) for i in order[:n_examples].tolist() if gain[i] < -_TIE),
        better_in_b=tuple(example(i) for i in order[::-1][:n_examples].tolist() if gain[i] > _TIE),
    )


def _example(
    a: Sequence[str],
    b: Sequence[str],
    chrf_a: Array,
    chrf_b: Array,
    references: Sequence[Sequence[str]],
    sources: Sequence[str] | None,
    i: int,
) -> Example:
    source = None if sources is None else sources[i]
    same_line = tuple(lines[i] for lines in references)
    return Example(i + 1, source, same_line, a[i], b[i], float(chrf_a[i]), float(chrf_b[i]))


def _changes(
    bound: Measures, a: list[Measured], b: list[Measured], n_bootstrap: int, n_shuffles: int, seed: int
) -> tuple[Difference, ...]:
    rows_a, rows_b = (np.hstack([one.statistics for one in found]) for found in (a, b))  # (N, K)
    resampled = np.split(resampled_sums(np.hstack([rows_a, rows_b]), n_bootstrap, seed), 2, axis=1)
    swapped = swapped_sums(rows_a, rows_b, n_shuffles, seed)
    changes = []
    parts = zip(*(split(sums, a) for sums in (*resampled, *swapped)), strict=True)
    for measure, one, other, (drawn_a, drawn_b, swapped_a, swapped_b) in zip(bound.all, a, b, parts, strict=True):
        drawn = measure.values(drawn_b) - measure.values(drawn_a)
        shuffled = measure.values(swapped_b) - measure.values(swapped_a)
        observed = abs(other.value - one.value)
        changes.append(
            Difference(
                name=measure.name,
                lower_is_better=measure.lower_is_better,
                a=one.value,
                b=other.value,
                interval=interval_95(drawn),
                p_bootstrap=p_value(np.abs(drawn) - np.abs(drawn).mean(), observed),
                p_randomization=p_value(np.abs(shuffled), observed),
                signature=measure.signature(bs=n_bootstrap, ar=n_shuffles, seed=seed),
            )
        )
    return tuple(changes)


def _buckets(bound: Measures, a: list[Measured], b: list[Measured], lengths: list[int]) -> tuple[Bucket, ...]:
    """Both systems by the length of the first reference; lengths that do not occur are left out."""
    placed = np.searchsorted(_EDGES, lengths, side="right") - 1
    labels = [f"{low or 1}–{next_low - 1}" for low, next_low in pairwise(_EDGES)] + [f"{_EDGES[-1]}+"]
    buckets = []
    for number, label in enumerate(labels):
        inside = placed == number
        if inside.any():
            bleu_a, bleu_b = (_value(bound.bleu, found[0], inside) for found in (a, b))
            chrf_a, chrf_b = (_value(bound.chrf, found[1], inside) for found in (a, b))
            buckets.append(Bucket(label, int(inside.sum()), bleu_a, bleu_b, chrf_a, chrf_b))
    return tuple(buckets)


def _value(measure: Measure, found: Measured, inside: np.ndarray) -> float:
    return float(measure.values(found.statistics[inside].sum(axis=0, keepdims=True))[0])
