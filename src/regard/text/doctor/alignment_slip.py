"""Where two files stop being parallel: the line near which one of them lost or gained a line.

No dictionary is needed. Lines that translate each other have related lengths, and share numbers, names and punctuation.
How strongly they do is learnt from the files themselves, against lines that stand a little apart. Then the most likely
course of the offset between the files is found: it begins anywhere, and every change of it has to be paid for with
evidence, so that good files show no change.
"""

import re
import zlib
from array import array
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Cells = NDArray[np.uint8]  # small numbers, many of them

MAX_OFFSET = 5
MAX_LINES = 5_000_000  # 12 bytes a line and side, and 80 in the end; what comes after is not looked at
_OFFSETS = np.arange(-MAX_OFFSET, MAX_OFFSET + 1)
_APART = (23, -29, 38, -44)  # odd and even offsets at which nothing can match: what chance looks like
_NOWHERE = len(_OFFSETS)  # the row for lines that match nothing near
_BLOCK = 8
_WINDOW = 400
_LENGTH_BINS = 10
_OVERLAP_BINS = 12
_MIN_LINES = 60
_MIN_LOST = 200  # lines without any match that are worth a word
_PRICE = 30.0  # nats of evidence for a change of the offset
_CLIP = 2.5  # nats that one line can say at most
_TOKEN = re.compile(r"\d+|[^\W\d_]+|[^\w\s.,]")
_PREFIX = 4  # letters of a word that count: "Kamera" and "Kameras" are one


@dataclass(frozen=True)
class Slip:
    """From `line` on (counted from 1), target line i + offset matches source line i; no near line when it is None."""

    line: int
    offset: int | None
    until: int | None = None
    """The line at which the files are in step again, if they ever are."""


@dataclass(frozen=True)
class Alignment:
    """How well two files go together, line by line."""

    slips: tuple[Slip, ...]
    related: bool
    """Whether lines in the same place match better than lines that stand apart."""


class SideFeatures:
    """What is kept of each line of one side: its length, and 64 bits that show which tokens it has."""

    def __init__(self) -> None:
        self.log_lengths = array("f")
        self.signatures = array("Q")

    def add(self, line: str) -> None:
        """Remember one line."""
        if len(self.signatures) >= MAX_LINES:
            return
        signature = 0
        for token in _TOKEN.findall(line):
            signature |= _bit(token[:_PREFIX])
        self.signatures.append(signature)
        self.log_lengths.append(len(line))


@lru_cache(maxsize=200_000)
def _bit(token: str) -> int:
    return 1 << (zlib.crc32(token.encode("utf-8", "replace")) & 63)


def align(source: SideFeatures, target: SideFeatures) -> Alignment | None:
    """The course of the offset between the sides; no slips for files that are parallel, None for very short ones."""
    n = min(len(source.signatures), len(target.signatures))
    if n < _MIN_LINES:
        return None
    pairs = _Pairs(source, target, n)
    path = pairs.first_guess()
    for _ in range(3):
        scores = pairs.scores(path)
        path = _best_path(scores)
    if not pairs.related(path):
        return Alignment((), related=False)
    slips = [slip for slip in _changes(path, scores) if slip.offset is not None or pairs.is_lost(slip)]
    return Alignment(tuple(slips), related=True)


class _Pairs:
    """Both sides as arrays, and what a line of one says about a line of the other."""

    def __init__(self, source: SideFeatures, target: SideFeatures, n: int) -> None:
        self.n = n
        self.source_bins, self.target_bins = (_length_bins(side.log_lengths, n) for side in (source, target))
        self.source_bits, self.target_bits = (np.array(side.signatures[:n], np.uint64) for side in (source, target))

    def at(self, offset: int) -> tuple[Cells, Cells]:
        """For every source line the cell of the length table, and of the overlap table, at this offset."""
        other = np.clip(np.arange(self.n) + offset, 0, self.n - 1)
        lengths = self.source_bins * _LENGTH_BINS + self.target_bins[other]
        a, b = self.source_bits, self.target_bits[other]
        shared = np.bitwise_count(a & b).astype(np.float32)
        by_chance = np.bitwise_count(a).astype(np.float32) * np.bitwise_count(b) / np.float32(64)
        overlap = np.clip(np.round((shared - by_chance) * np.float32(1.5)) + 4, 0, _OVERLAP_BINS - 1)
        return lengths, overlap.astype(np.uint8)

    def agreement(self, offset: int) -> Floats:
        """For every source line a rough sign of a match with the target line at this offset."""
        lengths, overlap = self.at(offset)
        apart = np.abs((lengths // _LENGTH_BINS).astype(np.int8) - (lengths % _LENGTH_BINS).astype(np.int8))
        return np.asarray(overlap / np.float32(_OVERLAP_BINS) - apart / np.float32(_LENGTH_BINS), np.float32)

    def first_guess(self) -> Ints:
        """An offset for each window by plain agreement, or none where it is nearer to chance than to good windows."""
        starts = np.arange(0, self.n, _WINDOW)
        n_lines = np.diff(np.append(starts, self.n))
        each = [np.add.reduceat(self.agreement(int(offset)), starts) / n_lines for offset in _OFFSETS]
        chance = float(np.mean([self.agreement(offset).mean() for offset in _APART]))
        best, value = np.argmax(each, axis=0), np.max(each, axis=0)
        weak = value < (chance + np.quantile(value, 0.9)) / 2
        return np.repeat(np.where(weak, _NOWHERE, best), _WINDOW)[: self.n]

    def related(self, path: Ints) -> bool:
        """Whether lines at the offsets of the path agree better than lines far apart do at any offset."""
        chosen = self.agreement(0)
        for row, offset in enumerate(_OFFSETS):
            if offset and (here := path == row).any():
                chosen[here] = self.agreement(int(offset))[here]
        return self._better_than_chance(chosen, 0, self.n)

    def is_lost(self, slip: Slip) -> bool:
        """Whether really nothing matches after the slip: a stretch of other text in step is no slip."""
        low, high = slip.line - 1, (slip.until or self.n + 1) - 1
        return high - low >= _MIN_LOST and not self._better_than_chance(self.agreement(0)[low:high], low, high)

    def _better_than_chance(self, signs: Floats, low: int, high: int) -> bool:
        chance = max(float(self.agreement(offset)[low:high].mean()) for offset in _APART)
        doubt = 4 * float(signs.std()) / float(np.sqrt(max(1, high - low)))
        return float(signs.mean()) > chance + doubt

    def scores(self, path: Ints) -> Floats:
        """Evidence, in nats, that a source line matches the target line at each offset: (offsets, lines).

        A last row of zeros stands for no match at all.
        """
        cells = [self.at(int(offset)) for offset in _OFFSETS]
        chance = [self.at(offset) for offset in _APART]
        total = np.zeros((len(_OFFSETS) + 1, self.n), np.float32)
        for kind, size in ((0, _LENGTH_BINS**2), (1, _OVERLAP_BINS)):
            matched = sum(np.bincount(cell[kind][path == row], minlength=size) for row, cell in enumerate(cells))
            unmatched = sum(np.bincount(cell[kind], minlength=size) for cell in chance)
            ratio = _log_ratio(np.asarray(matched), np.asarray(unmatched))
            for row, cell in enumerate(cells):
                total[row] += ratio[cell[kind]]
        return np.clip(total, -_CLIP, _CLIP, out=total)


def _log_ratio(matched: Ints, unmatched: Ints) -> Floats:
    """log P(cell | match) / P(cell | chance), drawn to 0 where little was seen."""
    chance = (unmatched + 1) / (unmatched.sum() + len(unmatched))
    strength = 20.0
    seen = (matched + strength * chance) / (matched.sum() + strength)
    ratio: Floats = np.log(seen / chance).astype(np.float32)
    return ratio


def _length_bins(lengths: "array[float]", n: int) -> Cells:
    """Tenths of the log length, after what the neighbourhood has in common is taken away (files sorted by length)."""
    logs = np.log1p(np.array(lengths[:n], np.float64))
    reach = min(50, n // 4)
    sums = np.concatenate([[0.0], np.cumsum(logs)])
    low, high = np.maximum(np.arange(n) - reach, 0), np.minimum(np.arange(n) + reach + 1, n)
    rest = logs - (sums[high] - sums[low]) / (high - low)
    edges = np.quantile(rest, np.arange(1, _LENGTH_BINS) / _LENGTH_BINS)
    bins: Cells = np.searchsorted(edges, rest).astype(np.uint8)
    return bins


def _best_path(scores: Floats) -> Ints:
    """The course of the offset (a row for each line) with most evidence, each change paid for: Viterbi, in blocks."""
    n = scores.shape[1]
    starts = np.arange(0, n, _BLOCK)
    blocks = np.add.reduceat(scores, starts, axis=1).T  # (blocks, offsets)
    price = _PRICE + np.log(max(n, 1))
    came_from = np.empty(blocks.shape, np.int8)
    stay = np.arange(blocks.shape[1])
    value = blocks[0] - price * (stay != MAX_OFFSET)
    for step in range(1, len(blocks)):
        best = int(value.argmax())
        moves = value[best] - price > value
        came_from[step] = np.where(moves, best, stay)
        value = np.where(moves, value[best] - price, value) + blocks[step]
    row = int(value.argmax())
    rows = np.empty(len(blocks), np.int64)
    for step in range(len(blocks) - 1, -1, -1):
        rows[step] = row
        row = int(came_from[step, row]) if step else row
    return np.repeat(rows, _BLOCK)[:n]


def _changes(path: Ints, scores: Floats) -> list[Slip]:
    """The places where the path changes its offset, each moved to the line that fits best."""
    changes = [(0, int(path[0]))]
    for place in (int(at) + 1 for at in np.flatnonzero(np.diff(path))):
        before, after = int(path[place - 1]), int(path[place])
        low, high = max(0, place - 4 * _BLOCK), min(len(path), place + 4 * _BLOCK)
        gain = np.cumsum(scores[before, low:high] - scores[after, low:high])
        changes.append((low + int(np.concatenate([[0.0], gain]).argmax()), after))
    slips = []
    for i, (line, row) in enumerate(changes):
        if row != MAX_OFFSET:
            back = next((later + 1 for later, new in changes[i + 1 :] if new == MAX_OFFSET), None)
            slips.append(Slip(line=line + 1, offset=None if row == _NOWHERE else row - MAX_OFFSET, until=back))
    return slips
