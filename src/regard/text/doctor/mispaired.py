"""Finds pairs of lines that are not translations of each other, from the corpus itself.

A word model of each half of the pairs scores those of the other half: a model that has seen a wrong pair would find it
plausible. The same lines, paired at random, show how wrong pairs score. So nothing depends on the languages.
"""

import re
import zlib
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from regard.text.doctor.word_model import Floats, Ints, WordLines, WordModel, make_vocabulary

MAX_PAIRS = 10_000  # in the sample that the models are fitted to
MAX_JUDGED = 200_000  # by `judge`: about 15 seconds
MIN_PAIRS = 100  # to tell whether the files match at all
MIN_PAIRS_FOR_LINES = 500  # to tell which lines do not match
_CHUNK = 5_000
_MAX_COMBINATIONS = 4_000_000  # of a source word and a target word; about 50 bytes each
_MAX_CHARACTERS = 1_000  # per line
_MIN_COUNT = 2  # a rarer word cannot be in both halves
_CERTAINTY = 2.5  # a pair is reported if it is mispaired with a probability above 1 / 2.5
# Standard errors between the scores of real and random pairs: 14 or more for 100 lines of parallel text, and 25 or more
# for 100 lines paired with themselves
_MIN_Z = 5.0
_MIN_SELF_Z = 20.0
_MAX_GOOD_SHARE = 0.02  # the estimated share of mispaired lines where there are none
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_HANGUL = "\uac00-\ud7a3"
# One or two characters of a script without spaces, or the start of a word, because endings and particles differ, or
# a sign
_WORD = re.compile(rf"[{_UNSPACED}]{{1,2}}|([{_HANGUL}]{{1,2}}|[^\W{_UNSPACED}]{{1,4}})[^\W{_UNSPACED}]*|[^\w\s]")


def split_words(line: str) -> list[str]:
    """The distinct words of a line, shortened to their first letters."""
    matches = _WORD.finditer(line[:_MAX_CHARACTERS].casefold())
    return list(dict.fromkeys(match[1] or match[0] for match in matches))


SampledPair = tuple[int, str, str]  # number, source, target


class PairSample:
    """A uniform sample of the pairs of a corpus, of any length."""

    def __init__(self) -> None:
        self.n_seen = 0
        self.rows: list[SampledPair] = []
        self.thinning = 1

    def add(self, rows: Iterable[SampledPair], n_seen: int) -> None:
        """Add what `sample_pairs` has chosen among `n_seen` pairs."""
        self.n_seen += n_seen
        self.rows += [row for row in rows if _is_kept(row[0], self.thinning)]
        while len(self.rows) > MAX_PAIRS:
            self.thinning *= 2
            self.rows = [row for row in self.rows if _is_kept(row[0], self.thinning)]


def sample_pairs(first: int, lines: Ints, source: str, target: str, thinning: int) -> list[SampledPair]:
    """Some of the given lines of a block, whose numbers begin with `first`; with a higher thinning, fewer."""
    kept = [i for i in lines.tolist() if _is_kept(first + i, thinning)]
    if not kept:
        return []
    sides = source.split("\n"), target.split("\n")
    return [(first + i, sides[0][i][:_MAX_CHARACTERS], sides[1][i][:_MAX_CHARACTERS]) for i in kept]


def _is_kept(number: int, thinning: int) -> bool:
    return thinning == 1 or zlib.crc32(b"%d" % number) % thinning == 0


class PairScorer:
    """Word models of both halves of a sample, in both directions."""

    def __init__(self, source: Sequence[str], target: Sequence[str]) -> None:
        sides = [[split_words(line) for line in lines] for lines in (source, target)]
        self._vocabularies = [make_vocabulary(lines, _MIN_COUNT) for lines in sides]
        halves = _halves(source)
        a, b = self._encode(sides)
        self._models = []
        for half in (0, 1):  # model i is fitted to the other half, and scores this one
            seen = [side.take(np.flatnonzero(halves != half)) for side in (a, b)]
            self._models.append((WordModel(*seen), WordModel(*reversed(seen))))
        self.real = self._score(a, b, halves)
        self.random = self._score(a, b.take(_shuffled(halves)), halves)
        self.share = min(1.0, 2 * float(np.mean(self.real <= np.median(self.random))))
        """Few good pairs score below the median of random ones, but half of the mispaired do."""
        self.threshold = _threshold(self.real, self.random, self.share)

    @property
    def z(self) -> float:
        """By how many standard errors real pairs score better than random ones."""
        error = np.sqrt((self.real.var() + self.random.var()) / max(1, len(self.real)))
        return float((self.real.mean() - self.random.mean()) / error) if error else 0.0

    def score(self, source: Sequence[str], target: Sequence[str]) -> Floats:
        """The evidence that each pair matches, in nats, by the model that has not seen it."""
        sides = [[split_words(line) for line in lines] for lines in (source, target)]
        a, b = self._encode(sides)
        return self._score(a, b, _halves(source))

    def _encode(self, sides: list[list[list[str]]]) -> list[WordLines]:
        return [WordLines.encode(lines, words) for lines, words in zip(sides, self._vocabularies, strict=True)]

    def _score(self, source: WordLines, target: WordLines, half: Ints) -> Floats:
        scores = np.zeros(len(half))
        for number, (forward, backward) in enumerate(self._models):
            rows = np.flatnonzero(half == number)
            a, b = source.take(rows), target.take(rows)
            scores[rows] = forward.evidence(a, b) + backward.evidence(b, a)
        return scores


class Pairing:
    """How well the lines of a sample match."""

    def __init__(self, sample: PairSample) -> None:
        n_combinations = sum(len(source.split()) * len(target.split()) for _, source, target in sample.rows)
        rows = sample.rows[:: 1 + n_combinations // _MAX_COMBINATIONS]
        source, target = [row[1] for row in rows], [row[2] for row in rows]
        self.n_judged, self.n_pairs = len(rows), sample.n_seen
        self._scorer = scorer = PairScorer(source, target)
        self.related = scorer.z >= _MIN_Z
        """Whether lines match better in place than elsewhere."""
        suspicious = not self.related or scorer.share > _MAX_GOOD_SHARE
        self.is_telling = not suspicious or (_is_telling(source) and _is_telling(target))
        """Whether the text has enough repeated words to trust the other results."""
        enough = self.is_telling and len(rows) >= MIN_PAIRS_FOR_LINES
        self._threshold = scorer.threshold if enough else -np.inf
        order = np.argsort(scorer.real)
        worst = order[scorer.real[order] <= self._threshold]
        self.lines = [rows[row][0] for row in worst]
        """The lines that do not match, the worst first: of the sample, or of more after `judge`."""

    def judge(self, pairs: Iterable[tuple[int, str, str]]) -> None:
        """Judge these pairs (number, source, target) instead of the sample, up to a maximum, if it had wrong ones."""
        if not self.lines or self.n_judged == self.n_pairs:
            return
        n_judged, found, rows = 0, list[tuple[float, int]](), islice(pairs, MAX_JUDGED)
        while chunk := list(islice(rows, _CHUNK)):
            numbers, source, target = zip(*chunk, strict=True)
            scores = self._scorer.score(source, target)
            found += [(scores[row], numbers[row]) for row in np.flatnonzero(scores <= self._threshold)]
            n_judged += len(chunk)
        self.n_judged, self.lines = n_judged, [number for _, number in sorted(found)]

    def is_mispaired(self, source: Sequence[str], target: Sequence[str]) -> NDArray[np.bool_]:
        """Which pairs do not match. They need not be in the sample."""
        return self._scorer.score(source, target) <= self._threshold


def _is_telling(lines: list[str]) -> bool:
    """Whether lines have enough words in common to learn translations from: paired with themselves, they must match."""
    scorer = PairScorer(lines, lines)
    return scorer.z >= _MIN_SELF_Z and scorer.share <= _MAX_GOOD_SHARE


def _halves(source: Sequence[str]) -> Ints:
    """0 or 1 for each line; the same for equal lines, so that a repeated wrong pair is not seen before it is scored."""
    return np.array([zlib.crc32(line.encode("utf-8", "replace")) & 1 for line in source], np.int64)


def _shuffled(half: Ints) -> Ints:
    """An order in which every line has another place in its half."""
    order = np.arange(len(half))
    for number in (0, 1):
        rows = np.random.default_rng(number).permutation(np.flatnonzero(half == number))
        order[rows] = np.roll(rows, 1)
    return order


def _threshold(real: Floats, random: Floats, share: float) -> float:
    """The score up to which the most mispaired pairs are found with the fewest others."""
    scores = np.sort(np.concatenate([real, random]))
    below_real, below_random = (
        np.searchsorted(np.sort(values), scores, side="right") / len(values) for values in (real, random)
    )
    gain = _CERTAINTY * share * below_random - below_real
    best = int(gain.argmax())
    return float(scores[best]) if gain[best] > 0 else -np.inf
