"""Finds where two files stop being parallel: near which line one of them lost or gained a line.

No dictionary is needed. Lines that translate each other have related lengths, and share numbers, names and punctuation.
How strongly is estimated from the files themselves, in contrast to lines some distance apart. The Viterbi algorithm
then finds the most likely sequence of offsets between the files. A change of offset has a cost, so that good files show
no change.
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
Bins = NDArray[np.uint8]

MAX_OFFSET = 5
MAX_LINES = 5_000_000  # later lines are ignored; memory per line is 12 bytes for each side, and finally 80
_OFFSETS = np.arange(-MAX_OFFSET, MAX_OFFSET + 1)
_CHANCE_OFFSETS = (23, -29, 38, -44)  # odd and even; so far apart that lines match only by chance
_NO_MATCH = len(_OFFSETS)  # the row for lines that match no line nearby
_BLOCK = 8
_WINDOW = 400
_LENGTH_BINS = 10
_OVERLAP_BINS = 12
_MIN_LINES = 60
_MIN_UNMATCHED = 200  # lines in a row without a match, to be reported
_CHANGE_COST = 30.0  # nats of evidence needed for a change of offset
_MAX_EVIDENCE = 2.5  # nats per line
_TOKEN = re.compile(r"\d+|[^\W\d_]+|[^\w\s.,]")
_PREFIX = 4  # letters of a token that are compared: "Kamera" and "Kameras" are equal


@dataclass(frozen=True)
class Slip:
    """From `line` on (counted from 1), target line i + offset matches source line i; None if no line nearby does."""

    line: int
    offset: int | None
    until: int | None = None
    """The line at which the files are parallel again, if there is one."""


@dataclass(frozen=True)
class Alignment:
    """Whether two files are parallel, and where they are not."""

    slips: tuple[Slip, ...]
    related: bool
    """Whether aligned lines match better than lines far apart."""


class SideFeatures:
    """For each line of one side, its length and a 64-bit signature of its tokens."""

    def __init__(self) -> None:
        self.lengths = array("f")
        self.signatures = array("Q")

    def add(self, line: str) -> None:
        if len(self.signatures) >= MAX_LINES:
            return
        signature = 0
        for token in _TOKEN.findall(line):
            signature |= _bit(token[:_PREFIX])
        self.signatures.append(signature)
        self.lengths.append(len(line))


@lru_cache(maxsize=200_000)
def _bit(token: str) -> int:
    return 1 << (zlib.crc32(token.encode("utf-8", "replace")) & 63)


def align(source: SideFeatures, target: SideFeatures) -> Alignment | None:
    """The slips between the sides; None if the files are too short to decide."""
    n = min(len(source.signatures), len(target.signatures))
    if n < _MIN_LINES:
        return None
    pairs = _Pairs(source, target, n)
    path = pairs.first_guess()
    for _ in range(3):
        scores = pairs.scores(path)
        path = _best_path(scores)
    if not pairs.are_related(path):
        return Alignment((), related=False)
    slips = [slip for slip in _slips(path, scores) if slip.offset is not None or pairs.is_unmatched(slip)]
    return Alignment(tuple(slips), related=True)


class _Pairs:
    """Both sides as arrays, and how well their lines match."""

    def __init__(self, source: SideFeatures, target: SideFeatures, n: int) -> None:
        self.n = n
        self.source_bins, self.target_bins = (_length_bins(side.lengths, n) for side in (source, target))
        self.source_bits, self.target_bits = (np.array(side.signatures[:n], np.uint64) for side in (source, target))

    def bins(self, offset: int) -> tuple[Bins, Bins]:
        """For each source line and the target line at this offset, the bin of their lengths and of their overlap."""
        target = np.clip(np.arange(self.n) + offset, 0, self.n - 1)
        lengths = self.source_bins * _LENGTH_BINS + self.target_bins[target]
        a, b = self.source_bits, self.target_bits[target]
        shared = np.bitwise_count(a & b).astype(np.float32)
        by_chance = np.bitwise_count(a).astype(np.float32) * np.bitwise_count(b) / np.float32(64)
        overlap = np.clip(np.round((shared - by_chance) * np.float32(1.5)) + 4, 0, _OVERLAP_BINS - 1)
        return lengths, overlap.astype(np.uint8)

    def agreement(self, offset: int) -> Floats:
        """For each source line, roughly how well it matches the target line at this offset."""
        lengths, overlap = self.bins(offset)
        difference = np.abs((lengths // _LENGTH_BINS).astype(np.int8) - (lengths % _LENGTH_BINS).astype(np.int8))
        return np.asarray(overlap / np.float32(_OVERLAP_BINS) - difference / np.float32(_LENGTH_BINS), np.float32)

    def first_guess(self) -> Ints:
        """The offset that agrees best in each window; no match where it agrees little better than chance."""
        starts = np.arange(0, self.n, _WINDOW)
        n_lines = np.diff(np.append(starts, self.n))
        means = [np.add.reduceat(self.agreement(int(offset)), starts) / n_lines for offset in _OFFSETS]
        chance = float(np.mean([self.agreement(offset).mean() for offset in _CHANCE_OFFSETS]))
        best, value = np.argmax(means, axis=0), np.max(means, axis=0)
        weak = value < (chance + np.quantile(value, 0.9)) / 2
        return np.repeat(np.where(weak, _NO_MATCH, best), _WINDOW)[: self.n]

    def are_related(self, path: Ints) -> bool:
        """Whether lines at the offsets of the path agree better than lines far apart."""
        agreement = self.agreement(0)
        for row, offset in enumerate(_OFFSETS):
            if offset and (here := path == row).any():
                agreement[here] = self.agreement(int(offset))[here]
        return self._better_than_chance(agreement, 0, self.n)

    def is_unmatched(self, slip: Slip) -> bool:
        """Whether the lines after the slip match nothing; unusual text that is still parallel is not a slip."""
        low, high = slip.line - 1, (slip.until or self.n + 1) - 1
        return high - low >= _MIN_UNMATCHED and not self._better_than_chance(self.agreement(0)[low:high], low, high)

    def _better_than_chance(self, agreement: Floats, low: int, high: int) -> bool:
        chance = max(float(self.agreement(offset)[low:high].mean()) for offset in _CHANCE_OFFSETS)
        margin = 4 * float(agreement.std()) / float(np.sqrt(max(1, high - low)))
        return float(agreement.mean()) > chance + margin

    def scores(self, path: Ints) -> Floats:
        """(offsets + 1, lines): evidence, in nats, that a source line matches the target line at each offset.

        The last row, for no match, is zero.
        """
        bins = [self.bins(int(offset)) for offset in _OFFSETS]
        chance = [self.bins(offset) for offset in _CHANCE_OFFSETS]
        total = np.zeros((len(_OFFSETS) + 1, self.n), np.float32)
        for kind, size in ((0, _LENGTH_BINS**2), (1, _OVERLAP_BINS)):
            matched = sum(np.bincount(pair[kind][path == row], minlength=size) for row, pair in enumerate(bins))
            unmatched = sum(np.bincount(pair[kind], minlength=size) for pair in chance)
            ratio = _log_ratio(np.asarray(matched), np.asarray(unmatched))
            for row, pair in enumerate(bins):
                total[row] += ratio[pair[kind]]
        return np.clip(total, -_MAX_EVIDENCE, _MAX_EVIDENCE, out=total)


def _log_ratio(matched: Ints, unmatched: Ints) -> Floats:
    """log P(bin | match) / P(bin | chance), smoothed towards 0 where counts are small."""
    chance = (unmatched + 1) / (unmatched.sum() + len(unmatched))
    strength = 20.0
    match = (matched + strength * chance) / (matched.sum() + strength)
    ratio: Floats = np.log(match / chance).astype(np.float32)
    return ratio


def _length_bins(lengths: "array[float]", n: int) -> Bins:
    """Deciles of the log length relative to the neighbouring lines, so that files sorted by length work too."""
    logs = np.log1p(np.array(lengths[:n], np.float64))
    reach = min(50, n // 4)
    sums = np.concatenate([[0.0], np.cumsum(logs)])
    low, high = np.maximum(np.arange(n) - reach, 0), np.minimum(np.arange(n) + reach + 1, n)
    relative = logs - (sums[high] - sums[low]) / (high - low)
    edges = np.quantile(relative, np.arange(1, _LENGTH_BINS) / _LENGTH_BINS)
    bins: Bins = np.searchsorted(edges, relative).astype(np.uint8)
    return bins


def _best_path(scores: Floats) -> Ints:
    """The most likely row (offset) for each line, with a cost for each change: Viterbi over blocks of lines."""
    n = scores.shape[1]
    starts = np.arange(0, n, _BLOCK)
    blocks = np.add.reduceat(scores, starts, axis=1).T  # (blocks, offsets)
    cost = _CHANGE_COST + np.log(max(n, 1))
    previous = np.empty(blocks.shape, np.int8)
    stay = np.arange(blocks.shape[1])
    value = blocks[0] - cost * (stay != MAX_OFFSET)
    for step in range(1, len(blocks)):
        best = int(value.argmax())
        moves = value[best] - cost > value
        previous[step] = np.where(moves, best, stay)
        value = np.where(moves, value[best] - cost, value) + blocks[step]
    row = int(value.argmax())
    rows = np.empty(len(blocks), np.int64)
    for step in range(len(blocks) - 1, -1, -1):
        rows[step] = row
        row = int(previous[step, row]) if step else row
    return np.repeat(rows, _BLOCK)[:n]


def _slips(path: Ints, scores: Floats) -> list[Slip]:
    """The slips of a path; each change of offset is moved to the line nearby that fits best."""
    changes = [(0, int(path[0]))]
    for change in (int(i) + 1 for i in np.flatnonzero(np.diff(path))):
        before, after = int(path[change - 1]), int(path[change])
        low, high = max(0, change - 4 * _BLOCK), min(len(path), change + 4 * _BLOCK)
        gain = np.cumsum(scores[before, low:high] - scores[after, low:high])
        changes.append((low + int(np.concatenate([[0.0], gain]).argmax()), after))
    slips = []
    for i, (line, row) in enumerate(changes):
        if row != MAX_OFFSET:
            until = next((later + 1 for later, new in changes[i + 1 :] if new == MAX_OFFSET), None)
            slips.append(Slip(line=line + 1, offset=None if row == _NO_MATCH else row - MAX_OFFSET, until=until))
    return slips
