"""Lines as one array of code points: thousands of lines are examined at once, with NumPy."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from regard.text.normalise import SPACES

Codes = NDArray[np.uint32]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

LINE_FEED, SPACE = 0x0A, 0x20
_N_CODES = 0x110000
_MAX_PLACE_BITS = 20  # in longer lines, the random numbers are repeated
_N_CASED = 0x20000  # no letter behind has an upper case


@dataclass(frozen=True, eq=False)
class CodeLines:
    """Lines as code points, each with the line feed at its end."""

    codes: Codes

    @classmethod
    def of(cls, text: str) -> "CodeLines":
        """The lines of a text that is empty or ends with a line feed."""
        return cls(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32))

    @cached_property
    def ends(self) -> Ints:
        """(n_lines,) positions of the line feeds."""
        return np.flatnonzero(self.codes == LINE_FEED)

    @cached_property
    def starts(self) -> Ints:
        """(n_lines,) where the lines begin."""
        return np.concatenate([[0], self.ends[:-1] + 1]) if len(self.ends) else self.ends

    @property
    def lengths(self) -> Ints:
        """(n_lines,) in characters, without the line feed."""
        return self.ends - self.starts

    def text(self, line: int) -> str:
        """One line, counted from 0."""
        return self.codes[self.starts[line] : self.ends[line]].tobytes().decode("utf-32-le", "surrogatepass")

    def count(self, mask: Mask) -> Ints:
        """(n_lines,) how many characters of each line are marked."""
        return np.diff(np.searchsorted(np.flatnonzero(mask), self.ends), prepend=0)

    def lines_with(self, mask: Mask) -> Ints:
        """The lines, counted from 0, that have a marked character."""
        return np.unique(np.searchsorted(self.ends, np.flatnonzero(mask)))


@lru_cache
def code_table(pattern: str) -> Mask:
    """Which code points match a regular expression for one character."""
    everything = np.arange(_N_CODES, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    table = np.zeros(_N_CODES, np.bool_)
    for match in re.finditer(f"(?:{pattern})+", everything):
        table[match.start() : match.end()] = True
    return table


@lru_cache
def fold_table() -> Codes:
    """The code point of each letter without its case; `ß` and the like, which would become two letters, stay."""
    table = np.arange(_N_CODES, dtype=np.uint32)
    folded = (chr(code).casefold() for code in range(_N_CASED))
    table[:_N_CASED] = [ord(text) if len(text) == 1 else code for code, text in enumerate(folded)]
    return table


def normalise_lines(lines: CodeLines, text: str) -> tuple[CodeLines, str]:
    """`normalise` for each line of a text, which is given in both forms; most lines of most texts stay as they are."""
    codes = lines.codes
    if not len(codes):
        return lines, text
    is_changed = False
    if not text.isascii() and not unicodedata.is_normalized("NFC", text):
        lines, is_changed = _composed(lines, text), True
        codes = lines.codes
    blank = code_table(f"(?!\n)[{SPACES}]")[codes]
    if np.count_nonzero(blank) > np.count_nonzero(codes == SPACE):
        codes, is_changed = np.where(blank, np.uint32(SPACE), codes), True
    gap = blank | (codes == LINE_FEED)
    extra = np.empty(len(codes), np.bool_)  # spaces at the beginning of a line, or behind another one
    extra[0], extra[1:] = blank[0], blank[1:] & gap[:-1]
    extra[:-1] |= blank[:-1] & (codes[1:] == LINE_FEED)
    if extra.any():  # what is left of several spaces at the end of a line is the first of them
        codes, is_changed = codes[~extra], True
        last = np.flatnonzero((codes[1:] == LINE_FEED) & (codes[:-1] == SPACE))
        codes = np.delete(codes, last) if len(last) else codes
    if not is_changed:
        return lines, text
    return CodeLines(codes), codes.tobytes().decode("utf-32-le", "surrogatepass")


def _composed(lines: CodeLines, text: str) -> CodeLines:
    """Lines whose characters are composed (NFC)."""
    parts = text.split("\n")
    for i in lines.lines_with(lines.codes > 0x7F).tolist():
        parts[i] = unicodedata.normalize("NFC", parts[i])
    return CodeLines.of("\n".join(parts))


def hash_lines(lines: CodeLines) -> Hashes:
    """(n_lines,) 64-bit hashes of lines without their case, the same on every machine.

    They are sums of random numbers, one for each character, times random numbers by position.
    """
    if not len(lines.ends):
        return np.zeros(0, np.uint64)
    numbers = _random_numbers(min(int(lines.lengths.max()).bit_length(), _MAX_PLACE_BITS))
    places = [numbers[:length] for length in (lines.lengths + 1).tolist()]
    if lines.lengths.max() >= len(numbers):
        places = [np.resize(numbers, length) for length in (lines.lengths + 1).tolist()]
    sums: Hashes = np.add.reduceat(_mixed_table()[lines.codes] * np.concatenate(places), lines.starts)
    sums ^= sums >> np.uint64(29)
    return sums


@lru_cache
def _mixed_table() -> Hashes:
    """A random number for each code point, the same for both cases; 0 for the line feed."""
    mixed = fold_table().astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed[LINE_FEED] = 0
    return mixed


@lru_cache
def _random_numbers(n_bits: int) -> Hashes:
    """The first 2**n_bits of a fixed sequence of odd numbers."""
    x: Hashes = np.arange(1, (1 << n_bits) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # SplitMix64
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    numbers: Hashes = (x ^ (x >> np.uint64(31))) | np.uint64(1)
    return numbers
