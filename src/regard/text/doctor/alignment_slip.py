"""Finds where two files stop being parallel: near which line one of them lost or gained a line.

No dictionary is needed. Lines that translate each other have related lengths, and share numbers, names and punctuation.
How strongly is estimated from the files themselves, in contrast to lines some distance apart. The Viterbi algorithm
then finds the most likely sequence of offsets between the files. A change of offset has a cost, so that good files show
no change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.text.code_points import CodeLines, code_table

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bins = NDArray[np.uint8]

MAX_OFFSET = 5
WINDOW_LINES = 1_000_000  # memory per line is 12 bytes for each side, and about 100 while a window is examined
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
_SIGN = 3  # kind of a token; each sign is one
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
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


@dataclass(frozen=True)
class SideFeatures:
    """For each line of one side, its length and a 64-bit signature of its tokens."""

    lengths: Floats
    signatures: NDArray[np.uint64]

    @classmethod
    def of(cls, lines: CodeLines) -> "SideFeatures":
        """Lines without upper case. Tokens are equal if their kind and their first letters are."""
        codes = lines.codes
        kinds = _kinds()[codes]
        is_start = kinds > 0
        is_start[1:] &= (kinds[1:] != kinds[:-1]) | (kinds[1:] == _SIGN)
        starts = np.flatnonzero(is_start)
        padded_codes, padded_kinds = (
            np.concatenate([values, np.zeros(_PREFIX, values.dtype)]) for values in (codes, kinds)
        )
        hashes, inside = codes[starts].astype(np.uint64), kinds[starts] != _SIGN
        for place in range(1, _PREFIX):
            inside &= padded_kinds[starts + place] == kinds[starts]
            hashes = hashes * _FACTOR + np.where(inside, padded_codes[starts + place], 0)
        bits = np.uint64(1) << ((hashes * _FACTOR) >> np.uint64(58))
        ends = np.searchsorted(starts, lines.ends)  # of the tokens of each line
        begins = np.concatenate([[0], ends[:-1]])[: len(ends)]
        has_tokens = begins < ends
        signatures = np.zeros(len(lines.ends), np.uint64)
        if len(starts):
            signatures[has_tokens] = np.bitwise_or.reduceat(bits, begins[has_tokens])
        return cls(lines.lengths.astype(np.float32), signatures)

    @classmethod
    def join(cls, parts: Sequence["SideFeatures"]) -> "SideFeatures":
        """Several blocks of lines as one."""
        return cls(
            np.concatenate([part.lengths for part in parts]), np.concatenate([part.signatures for part in parts])
        )

    def __getitem__(self, lines: slice) -> "SideFeatures":
        return SideFeatures(self.lengths[lines], self.signatures[lines])

    def __len__(self) -> int:
        return len(self.lengths)


@lru_cache
def _kinds() -> Bins:
    """Of each code point: a digit, a letter, a sign, or 0 for what separates tokens."""
    kinds = np.zeros(0x110000, np.uint8)
    for kind, pattern in enumerate((r"\d", r"[^\W\d_]", r"[^\w\s.,]"), start=1):
        kinds[code_table(pattern)] = kind
    return kinds


class AlignmentScan:
    """Finds the slips of files of any length, window by window, in bounded memory."""

    def __init__(self) -> None:
        self._parts: list[tuple[SideFeatures, SideFeatures]] = []
        self._n_waiting = self._n_done = 0
        self._row = MAX_OFFSET  # at the end of the last window
        self._changes = [_Change(0, MAX_OFFSET, True)]
        self._related = False

    def add(self, source: SideFeatures, target: SideFeatures) -> None:
        """Add a block of lines: equally many of both sides, except at the end."""
        self._parts.append((source, target))
        self._n_waiting += min(len(source), len(target))
        if self._n_waiting >= WINDOW_LINES + WINDOW_LINES // 2:
            self._examine(WINDOW_LINES)

    def finish(self) -> Alignment | None:
        """The slips; None if the files are too short to decide."""
        if self._n_waiting >= _MIN_LINES:
            self._examine(self._n_waiting)
        if not self._n_done:
            return None
        return Alignment(_slips(self._changes) if self._related else (), self._related)

    def _examine(self, n: int) -> None:
        source, target = (SideFeatures.join(side) for side in zip(*self._parts, strict=True))
        pairs = _Pairs(source, target, n)
        path, guess = pairs.first_guess(), None
        for _ in range(3):
            if guess is not None and (path == guess).all():
                break
            guess, scores = path, pairs.scores(path)
            path = _best_path(scores, self._row)
        if pairs.are_related(path):
            self._related = True
            changes = [_Change(line, row, True) for line, row in _changes(path, scores, self._row)]
            changes = [change._replace(is_shown=pairs.is_shown(change, changes)) for change in changes]
        else:
            changes = [_Change(0, _NO_MATCH, True)] if self._row != _NO_MATCH else []
        self._changes += [change._replace(line=self._n_done + change.line) for change in changes]
        self._row = self._changes[-1].row
        self._parts = [(source[n:], target[n:])]
        self._n_done += n
        self._n_waiting -= n


class _Change(NamedTuple):
    """From a line on, counted from 0, another offset."""

    line: int
    row: int
    is_shown: bool


class _Pairs:
    """Both sides as arrays, and how well their lines match."""

    def __init__(self, source: SideFeatures, target: SideFeatures, n: int) -> None:
        self.n = n
        self.source_bins, self.target_bins = (_length_bins(side.lengths, n) for side in (source, target))
        self.source_bits, self.target_bits = (side.signatures[:n] for side in (source, target))
        self._bins: dict[int, tuple[Bins, Bins]] = {}

    def bins(self, offset: int) -> tuple[Bins, Bins]:
        """For each source line and the target line at this offset, the bin of their lengths and of their overlap."""
        if offset not in self._bins:
            target = np.clip(np.arange(self.n) + offset, 0, self.n - 1)
            a, b = self.source_bits, self.target_bits[target]
            shared = np.bitwise_count(a & b)
            n_a, n_b = np.bitwise_count(a), np.bitwise_count(b)
            lengths = self.source_bins * _LENGTH_BINS + self.target_bins[target]
            self._bins[offset] = lengths, _overlap_table()[shared, n_a, n_b]
        return self._bins[offset]

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

    def is_shown(self, change: "_Change", changes: list["_Change"]) -> bool:
        """Whether lines without a match really match nothing; unusual text that is still parallel is not a slip."""
        if change.row != _NO_MATCH:
            return True
        later = (other.line for other in changes if other.line > change.line and other.row == MAX_OFFSET)
        low, high = change.line, next(later, self.n)
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


@lru_cache
def _overlap_table() -> Bins:
    """(65, 65, 65) bin of the overlap of two signatures, by the number of bits in both, in one, and in the other."""
    n = np.arange(65, dtype=np.float32)
    by_chance = n[:, None] * n / np.float32(64)
    bins = np.clip(np.round((n[:, None, None] - by_chance) * np.float32(1.5)) + 4, 0, _OVERLAP_BINS - 1)
    return np.asarray(bins, np.uint8)


def _log_ratio(matched: Ints, unmatched: Ints) -> Floats:
    """log P(bin | match) / P(bin | chance), smoothed towards 0 where counts are small."""
    chance = (unmatched + 1) / (unmatched.sum() + len(unmatched))
    strength = 20.0
    match = (matched + strength * chance) / (matched.sum() + strength)
    ratio: Floats = np.log(match / chance).astype(np.float32)
    return ratio


def _length_bins(lengths: Floats, n: int) -> Bins:
    """Deciles of the log length relative to the neighbouring lines, so that files sorted by length work too."""
    logs = np.log1p(lengths[:n].astype(np.float64))
    reach = min(50, n // 4)
    sums = np.concatenate([[0.0], np.cumsum(logs)])
    low, high = np.maximum(np.arange(n) - reach, 0), np.minimum(np.arange(n) + reach + 1, n)
    relative = logs - (sums[high] - sums[low]) / (high - low)
    edges = np.quantile(relative, np.arange(1, _LENGTH_BINS) / _LENGTH_BINS)
    bins: Bins = np.searchsorted(edges, relative).astype(np.uint8)
    return bins


def _best_path(scores: Floats, first: int) -> Ints:
    """The most likely row (offset) for each line, with a cost for each change: Viterbi over blocks of lines.

    The path comes from the row `first`.
    """
    n = scores.shape[1]
    starts = np.arange(0, n, _BLOCK)
    blocks = np.add.reduceat(scores, starts, axis=1).T  # (blocks, offsets)
    cost = _CHANGE_COST + np.log(max(n, 1))
    if _largest_gain(blocks, first) < cost:
        return np.full(n, first)
    previous = np.empty(blocks.shape, np.int8)
    stay = np.arange(blocks.shape[1])
    value = blocks[0] - cost * (stay != first)
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


def _largest_gain(blocks: Floats, row: int) -> float:
    """The most that consecutive blocks can gain by another row: below the cost of a change, no change is worth it."""
    gain = np.cumsum(blocks - blocks[:, row, None], axis=0, dtype=np.float64)
    lowest = np.minimum(np.minimum.accumulate(gain), 0)
    return float((gain - np.vstack([np.zeros(gain.shape[1]), lowest[:-1]])).max())


def _changes(path: Ints, scores: Floats, first: int) -> list[tuple[int, int]]:
    """Where the path has another row than before, and which; moved to the line nearby that fits best."""
    changes = [(0, int(path[0]))] if path[0] != first else []
    for change in (int(i) + 1 for i in np.flatnonzero(np.diff(path))):
        before, after = int(path[change - 1]), int(path[change])
        low, high = max(0, change - 4 * _BLOCK), min(len(path), change + 4 * _BLOCK)
        gain = np.cumsum(scores[before, low:high] - scores[after, low:high])
        changes.append((low + int(np.concatenate([[0.0], gain]).argmax()), after))
    return changes


def _slips(changes: list[_Change]) -> tuple[Slip, ...]:
    slips = []
    for i, change in enumerate(changes):
        if change.row != MAX_OFFSET and change.is_shown:
            until = next((later.line + 1 for later in changes[i + 1 :] if later.row == MAX_OFFSET), None)
            offset = None if change.row == _NO_MATCH else change.row - MAX_OFFSET
            slips.append(Slip(line=change.line + 1, offset=offset, until=until))
    return tuple(slips)
