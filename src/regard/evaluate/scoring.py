"""How good are these translations?"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from regard.errors import UserError
from regard.evaluate.measures import Array, Measured, Measures, measures
from regard.evaluate.significance import DEFAULT_SEED, Interval, interval_95, resampled_sums


@dataclass(frozen=True)
class Score:
    """One measure of a set of translations."""

    name: str
    value: float
    interval: Interval
    signature: str


@dataclass(frozen=True)
class Scores:
    """sacreBLEU's three measures, and chrF++ of each sentence."""

    n_sentences: int
    bleu: Score
    chrf: Score
    ter: Score
    sentence_chrf: tuple[float, ...]

    @property
    def all(self) -> tuple[Score, Score, Score]:
        """In the order in which they are shown."""
        return self.bleu, self.chrf, self.ter

    def worst(self, n: int) -> list[int]:
        """The n sentences with the lowest chrF++, lowest first, counted from 0."""
        return sorted(range(self.n_sentences), key=self.sentence_chrf.__getitem__)[:n]

    def to_dict(self) -> dict[str, object]:
        """As plain values, without the sentences."""
        return {"n_sentences": self.n_sentences, "scores": [asdict(one) for one in self.all]}


def score(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    n_bootstrap: int = 1000,
    seed: int = DEFAULT_SEED,
) -> Scores:
    """Score translations against one or more lists of references: values as sacreBLEU's, with 95% intervals.

    An interval says how far the score would move if other sentences of the same kind had been chosen for the test.
    """
    check_lengths(references, outputs=outputs)
    bound = measures(references, lowercase=lowercase, tokenize=tokenize)
    found = [measure.measure(outputs) for measure in bound.all]
    sums = resampled_sums(np.hstack([one.statistics for one in found]), n_bootstrap, seed)
    scores = []
    for measure, one, drawn in zip(bound.all, found, split(sums, found), strict=True):
        signature = measure.signature(bs=n_bootstrap, seed=seed)
        scores.append(Score(measure.name, one.value, interval_95(measure.values(drawn)), signature))
    bleu, chrf, ter = scores
    by_sentence = sentence_chrf(bound, found[1], outputs, references)
    return Scores(len(outputs), bleu, chrf, ter, tuple(by_sentence.tolist()))


def sentence_chrf(
    bound: Measures, found: Measured, outputs: Sequence[str], references: Sequence[Sequence[str]]
) -> Array:
    """chrF++ of each sentence; a blank line that should be blank is right, though chrF has nothing to count there."""
    by_sentence = bound.chrf.values(found.statistics)
    for number, output in enumerate(outputs):
        if not output.strip() and any(not reference[number].strip() for reference in references):
            by_sentence[number] = 100.0
    return by_sentence


def split(sums: np.ndarray, found: Sequence[Measured]) -> list[np.ndarray]:
    """Columns that were joined for one multiplication, apart again."""
    widths = [one.statistics.shape[1] for one in found]
    return np.split(sums, np.cumsum(widths)[:-1], axis=1)


def check_lengths(references: Sequence[Sequence[str]], **lists: Sequence[str]) -> None:
    """Every list has as many lines as the first reference, and at least one."""
    if not references or not references[0]:
        raise UserError("there is nothing to score against", hint="give at least one reference with at least one line")
    n_lines = len(references[0])
    named = {f"reference {number}": lines for number, lines in enumerate(references, start=1)} | lists
    for name, lines in named.items():
        if len(lines) != n_lines:
            raise UserError(f"{name}: {len(lines)} lines, but reference 1 has {n_lines}", hint="they go line by line")
