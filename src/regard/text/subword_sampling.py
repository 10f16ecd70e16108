"""Samples segmentations of a word into sub-words, as regularisation: BPE-dropout and unigram sampling.

A word has its leading space mark; a character without a piece becomes bytes.

SentencePiece samples too, but its random numbers differ in every process. Here a segmentation is a function of the
text, the strength and the seed, so that a resumed training run sees the same data as an uninterrupted one.
"""

from collections.abc import Mapping
from math import exp, log, log1p
from random import Random

_MAX_CACHED = 100_000
_MAX_WORD_LENGTH = 200  # characters that are segmented together, because the time is quadratic
_UNKNOWN_PENALTY = 10.0  # as in SentencePiece: subtracted from the worst score, for a character without a piece

Pieces = Mapping[str, tuple[int, float]]  # piece → id, score


def spell(text: str, pieces: Pieces, byte_ids: list[int]) -> list[int]:
    """The id of a piece, or the ids of its bytes."""
    piece = pieces.get(text)
    return [piece[0]] if piece else [byte_ids[byte] for byte in text.encode("utf-8")]


class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020): each merge is skipped with the given probability."""

    def __init__(self, pieces: Pieces, byte_ids: list[int]) -> None:
        self._pieces = pieces
        self._byte_ids = byte_ids
        self._cache: dict[str, tuple[list[int], int]] = {}  # word → ids without dropout, number of merges

    def sample(self, word: str, strength: float, rng: Random) -> list[int]:
        """Draws the gaps between dropped merges (geometric), which needs fewer random numbers than one per merge."""
        cached = self._cache.get(word)
        if cached is None:
            parts, n_merges = self._merge(word, None)
            cached = self._ids(parts), n_merges
            if len(self._cache) < _MAX_CACHED:
                self._cache[word] = cached
        ids, n_merges = cached
        if strength <= 0 or not n_merges:
            return list(ids)
        gaps = _Gaps(strength, rng)
        if gaps.remaining >= n_merges:
            return list(ids)
        return self._ids(self._merge(word, gaps)[0])

    def _ids(self, parts: list[str]) -> list[int]:
        return [piece_id for part in parts for piece_id in spell(part, self._pieces, self._byte_ids)]

    def _merge(self, word: str, gaps: "_Gaps | None") -> tuple[list[str], int]:
        """Merge neighbours by score, best and leftmost first, until no merge is possible."""
        parts = list(word)
        pieces = self._pieces
        dropped: set[tuple[int, str]] = set()  # (start, piece) of dropped merges
        n_merges = 0
        while len(parts) > 1:
            best, best_score, start = -1, float("-inf"), 0
            best_start = 0
            for i in range(len(parts) - 1):
                merged = parts[i] + parts[i + 1]
                piece = pieces.get(merged)
                if piece and piece[1] > best_score and (start, merged) not in dropped:
                    best, best_score, best_start = i, piece[1], start
                start += len(parts[i])
            if best < 0:
                break
            merged = parts[best] + parts[best + 1]
            if gaps is not None and gaps.drop():
                dropped.add((best_start, merged))
                continue
            parts[best : best + 2] = [merged]
            n_merges += 1
        return parts, n_merges


class _Gaps:
    """Decides for each event in turn whether it is dropped. Draws one random number per dropped event."""

    def __init__(self, probability: float, rng: Random) -> None:
        self._scale = 1 / log1p(-min(probability, 0.999999))
        self._rng = rng
        self.remaining = self._draw()

    def _draw(self) -> int:
        return int(log(1.0 - self._rng.random()) * self._scale)

    def drop(self) -> bool:
        if self.remaining:
            self.remaining -= 1
            return False
        self.remaining = self._draw()
        return True


class UnigramSampling:
    """Sub-word regularisation (Kudo 2018): draws a segmentation s with probability proportional to P(s) ** strength."""

    def __init__(self, pieces: Pieces, byte_ids: list[int]) -> None:
        self._pieces = pieces
        self._byte_ids = byte_ids
        self._max_length = max(map(len, pieces), default=1)
        self._unknown = min((score for _, score in pieces.values()), default=0.0) - _UNKNOWN_PENALTY
        self._lattices: dict[tuple[str, float], list[list[tuple[float, int]]]] = {}

    def sample(self, word: str, strength: float, rng: Random) -> list[int]:
        """Forward filtering, cached per word; then backward sampling, with one random number per piece."""
        lattice = self._lattices.get((word, strength))
        if lattice is None:
            lattice = self._filter(word, strength)
            if len(self._lattices) < _MAX_CACHED:
                self._lattices[word, strength] = lattice
        end, parts = len(word), []
        while end:
            drawn = rng.random()
            start = next((start for up_to, start in lattice[end] if drawn < up_to), lattice[end][-1][1])
            parts.append(word[start:end])
            end = start
        return [i for part in reversed(parts) for i in spell(part, self._pieces, self._byte_ids)]

    def _filter(self, word: str, strength: float) -> list[list[tuple[float, int]]]:
        """For each end of a piece, the cumulative probabilities of its starts."""
        total = [0.0] * (len(word) + 1)  # log of the total weight of all segmentations of word[:end]
        lattice: list[list[tuple[float, int]]] = [[]]
        for end in range(1, len(word) + 1):
            candidates = []
            for start in range(max(0, end - self._max_length), end):
                piece = self._pieces.get(word[start:end])
                if piece:
                    candidates.append((total[start] + strength * piece[1], start))
                elif start == end - 1:
                    candidates.append((total[start] + strength * self._unknown, start))
            top = max(weight for weight, _ in candidates)
            summed = sum(exp(weight - top) for weight, _ in candidates)
            total[end] = top + log(summed)
            up_to, cumulative = 0.0, []
            for weight, start in candidates:
                up_to += exp(weight - top) / summed
                cumulative.append((up_to, start))
            lattice.append(cumulative)
        return lattice


def split_long_word(word: str) -> list[str]:
    """A word in parts of bounded length."""
    return [word[i : i + _MAX_WORD_LENGTH] for i in range(0, len(word), _MAX_WORD_LENGTH)]
