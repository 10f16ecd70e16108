"""Sampling other ways to cut a word into sub-words (BPE-dropout, unigram sampling), so that a model sees more of them.

SentencePiece can sample too, but its generator gives other numbers in every process. Here the cuts are a function of
the text, the strength and the seed, so that a training that is resumed sees what it would have seen.
"""

from collections.abc import Mapping
from math import exp, log, log1p
from random import Random
from typing import Protocol

_MAX_REMEMBERED = 100_000
_MAX_WORD = 200  # characters of a word that are looked at together; the quadratic part stays small
_UNKNOWN_PENALTY = 10.0  # as SentencePiece: a character without a piece costs this much more than the worst piece

Pieces = Mapping[str, tuple[int, float]]  # piece → id, score


class Sampler(Protocol):
    """Cuts one word (with its leading space mark) into ids; a character that has no piece is spelled in bytes."""

    def sample(self, word: str, strength: float, rng: Random) -> list[int]: ...


def spell(text: str, pieces: Pieces, byte_ids: list[int]) -> list[int]:
    """The id of a piece, or the ids of its bytes."""
    found = pieces.get(text)
    return [found[0]] if found else [byte_ids[byte] for byte in text.encode("utf-8")]


class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020): every merge is left out with the given probability."""

    def __init__(self, pieces: Pieces, byte_ids: list[int]) -> None:
        self._pieces = pieces
        self._byte_ids = byte_ids
        self._usual: dict[str, tuple[list[int], int]] = {}  # word → ids without dropout, number of merges

    def sample(self, word: str, strength: float, rng: Random) -> list[int]:
        """Geometric gaps between dropped merges give the same law as a coin for each merge, with few random numbers."""
        usual = self._usual.get(word)
        if usual is None:
            parts, n_merges = self._merge(word, None)
            usual = self._ids(parts), n_merges
            if len(self._usual) < _MAX_REMEMBERED:
                self._usual[word] = usual
        ids, n_merges = usual
        if strength <= 0 or not n_merges:
            return list(ids)
        gaps = _Gaps(strength, rng)
        if gaps.left >= n_merges:
            return list(ids)
        return self._ids(self._merge(word, gaps)[0])

    def _ids(self, parts: list[str]) -> list[int]:
        return [piece_id for part in parts for piece_id in spell(part, self._pieces, self._byte_ids)]

    def _merge(self, word: str, gaps: "_Gaps | None") -> tuple[list[str], int]:
        """Join neighbours, best score first and leftmost first, until none is left that may be joined."""
        parts = list(word)
        pieces = self._pieces
        dropped: set[tuple[int, str]] = set()  # (start, piece): a dropped merge is not asked again
        n_merges = 0
        while len(parts) > 1:
            best, best_score, start = -1, float("-inf"), 0
            best_start = 0
            for i in range(len(parts) - 1):
                joined = parts[i] + parts[i + 1]
                found = pieces.get(joined)
                if found and found[1] > best_score and (start, joined) not in dropped:
                    best, best_score, best_start = i, found[1], start
                start += len(parts[i])
            if best < 0:
                break
            joined = parts[best] + parts[best + 1]
            if gaps is not None and gaps.drop():
                dropped.add((best_start, joined))
                continue
            parts[best : best + 2] = [joined]
            n_merges += 1
        return parts, n_merges


class _Gaps:
    """Says of each event in turn whether it is dropped, drawing one number per dropped event."""

    def __init__(self, probability: float, rng: Random) -> None:
        self._scale = 1 / log1p(-min(probability, 0.999999))
        self._rng = rng
        self.left = self._draw()

    def _draw(self) -> int:
        return int(log(1.0 - self._rng.random()) * self._scale)

    def drop(self) -> bool:
        if self.left:
            self.left -= 1
            return False
        self.left = self._draw()
        return True


class UnigramSampling:
    """Sub-word regularisation (Kudo 2018): a cut is drawn with probability in proportion to P(cut) ** strength."""

    def __init__(self, pieces: Pieces, byte_ids: list[int]) -> None:
        self._pieces = pieces
        self._byte_ids = byte_ids
        self._longest = max(map(len, pieces), default=1)
        self._unknown = min((score for _, score in pieces.values()), default=0.0) - _UNKNOWN_PENALTY
        self._lattices: dict[tuple[str, float], list[list[tuple[float, int]]]] = {}

    def sample(self, word: str, strength: float, rng: Random) -> list[int]:
        """Forward filtering is remembered for each word; backward sampling draws one number per piece."""
        lattice = self._lattices.get((word, strength))
        if lattice is None:
            lattice = self._filter(word, strength)
            if len(self._lattices) < _MAX_REMEMBERED:
                self._lattices[word, strength] = lattice
        end, parts = len(word), []
        while end:
            drawn = rng.random()
            start = next((start for up_to, start in lattice[end] if drawn < up_to), lattice[end][-1][1])
            parts.append(word[start:end])
            end = start
        return [i for part in reversed(parts) for i in spell(part, self._pieces, self._byte_ids)]

    def _filter(self, word: str, strength: float) -> list[list[tuple[float, int]]]:
        """For each end of a piece: the cumulated probabilities of its starts."""
        total = [0.0] * (len(word) + 1)  # log of the summed weights of all cuts of word[:end]
        lattice: list[list[tuple[float, int]]] = [[]]
        for end in range(1, len(word) + 1):
            ways = []
            for start in range(max(0, end - self._longest), end):
                found = self._pieces.get(word[start:end])
                if found:
                    ways.append((total[start] + strength * found[1], start))
                elif start == end - 1:
                    ways.append((total[start] + strength * self._unknown, start))
            top = max(weight for weight, _ in ways)
            summed = sum(exp(weight - top) for weight, _ in ways)
            total[end] = top + log(summed)
            up_to, cumulated = 0.0, []
            for weight, start in ways:
                up_to += exp(weight - top) / summed
                cumulated.append((up_to, start))
            lattice.append(cumulated)
        return lattice


def cut_long(word: str) -> list[str]:
    """A word in parts of bounded length, since the work grows with the square of the length."""
    return [word[i : i + _MAX_WORD] for i in range(0, len(word), _MAX_WORD)]
