"""How likely the words of a line are, given those of its translation: IBM model 1 (Brown et al. 1993), in NumPy."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MAX_WORDS = 40  # per line; more words would add little evidence
_ITERATIONS = 5
_NULL = 0  # the id of the empty word, which words without a counterpart are aligned to


def make_vocabulary(lines: Iterable[Sequence[str]], min_count: int) -> dict[str, int]:
    """Ids, from 1, of the words with at least this many occurrences."""
    counts = Counter(word for line in lines for word in line)
    frequent = (word for word, count in counts.items() if count >= min_count)
    return {word: number for number, word in enumerate(frequent, start=1)}


@dataclass(frozen=True, eq=False)
class WordLines:
    """Lines as word ids, concatenated. Line i is `ids[starts[i] : starts[i + 1]]`."""

    ids: Ints
    starts: Ints
    n_words: int  # in the vocabulary, with the empty word

    @classmethod
    def encode(cls, lines: Sequence[Sequence[str]], vocabulary: dict[str, int]) -> "WordLines":
        """Unknown words are left out."""
        rows = [[vocabulary[word] for word in line if word in vocabulary][:_MAX_WORDS] for line in lines]
        ids = np.fromiter((word for row in rows for word in row), np.int64)
        return cls(ids, np.cumsum([0, *map(len, rows)]), len(vocabulary) + 1)

    @property
    def lengths(self) -> Ints:
        return np.diff(self.starts)

    def take(self, rows: Ints) -> "WordLines":
        """These lines, in this order."""
        lengths = self.lengths[rows]
        starts = np.append(0, np.cumsum(lengths))
        positions = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], lengths)
        return WordLines(self.ids[positions], starts, self.n_words)

    def with_null(self) -> "WordLines":
        """Each line with the empty word before it."""
        ids = np.insert(self.ids, self.starts[:-1], _NULL)
        return WordLines(ids, self.starts + np.arange(len(self.starts)), self.n_words)


def _combinations(source: WordLines, target: WordLines) -> tuple[Ints, Ints]:
    """For each pair, all combinations of its words, as positions in `source.ids` and, ascending, in `target.ids`."""
    n_combinations = np.repeat(source.lengths, target.lengths)  # (target words,)
    target_positions = np.repeat(np.arange(len(target.ids)), n_combinations)
    first = np.append(0, np.cumsum(n_combinations))[:-1] - np.repeat(source.starts[:-1], target.lengths)
    return np.arange(len(target_positions)) - np.repeat(first, n_combinations), target_positions


class WordModel:
    """P(target word | source word), estimated from pairs of lines."""

    def __init__(self, source: WordLines, target: WordLines) -> None:
        source = source.with_null()
        s, t = _combinations(source, target)
        self._keys, key = np.unique(source.ids[s] * target.n_words + target.ids[t], return_inverse=True)
        given = self._keys // target.n_words
        probabilities = np.ones(len(self._keys))
        for _ in range(_ITERATIONS):  # expectation maximisation
            weights = probabilities[key]
            weights /= np.bincount(t, weights, minlength=len(target.ids))[t]
            self._counts = np.bincount(key, weights, minlength=len(self._keys))
            self._totals = np.bincount(given, self._counts, minlength=source.n_words)
            probabilities = self._counts / self._totals[given]
        frequencies = np.bincount(target.ids, minlength=target.n_words)
        self._unigrams = frequencies / max(1, len(target.ids))

    def evidence(self, source: WordLines, target: WordLines) -> Floats:
        """For each pair, log P(target | source) / P(target); words that were never seen count nothing."""
        source = source.with_null()
        s, t = _combinations(source, target)
        unigrams = self._unigrams[target.ids]
        counts = self._lookup(source.ids[s] * target.n_words + target.ids[t])
        counts += unigrams[t]  # smoothing: one more occurrence of each source word, with any translation
        sums = np.bincount(t, counts / (self._totals[source.ids[s]] + 1), minlength=len(target.ids))
        likelihoods = sums / np.repeat(source.lengths, target.lengths)
        seen = unigrams > 0
        ratios = np.log(np.where(seen, likelihoods, 1) / np.where(seen, unigrams, 1))
        lines = np.repeat(np.arange(len(target.lengths)), target.lengths)
        return np.bincount(lines, ratios, minlength=len(target.lengths)).astype(np.float64)

    def _lookup(self, keys: Ints) -> Floats:
        if not len(self._keys):
            return np.zeros(len(keys))
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[places] == keys, self._counts[places], 0.0)
