"""What the doctor has to know of a block of lines. Blocks are examined in parallel, and added up in order."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.text.blocks import PairBlock, RawBlock, decode_block
from regard.text.code_points import SPACE, CodeLines, Ints, code_table, fold_table, hash_lines, normalise_lines
from regard.text.doctor.alignment_slip import SideFeatures
from regard.text.doctor.checks import ANY_ODD, MAX_SENTENCE_LENGTH, ODD
from regard.text.doctor.mispaired import SampledPair, sample_pairs

Hashes = NDArray[np.uint64]


class Histogram(NamedTuple):
    """How often each length occurs."""

    lengths: Ints
    counts: Ints


@dataclass(frozen=True)
class SideFacts:
    """One side of a block. Line numbers are those of the file."""

    n_crlf: int
    bad: tuple[tuple[int, str, str], ...]
    n_bytes: int
    characters: Histogram
    words: Histogram
    blank: Ints
    long: Ints
    odd: dict[str, list[int]]
    leaked: Hashes
    features: SideFeatures


@dataclass(frozen=True)
class BlockFacts:
    """A block: counts, and for each pair with text on both sides its hashes and lengths."""

    n_bytes: int  # of both files
    n_pairs: int
    sides: tuple[SideFacts, SideFacts]
    bad_tabs: list[int]
    one_side_blank: Ints
    equal_sides: Ints
    lines: Ints  # (n_filled,) of the pairs with text on both sides
    source_hashes: Hashes
    pair_hashes: Hashes
    lengths: tuple[Ints, Ints]  # (n_filled,) in characters
    sample: list[SampledPair]


class _Side(NamedTuple):
    facts: SideFacts
    text: str  # normalised
    lengths: Ints
    hashes: Hashes


def examine_block(test_hashes: Hashes, task: tuple[RawBlock, int]) -> BlockFacts:
    """The facts about a block. `test_hashes` are sorted; the task has the thinning of the sample of pairs."""
    raw, thinning = task
    block = decode_block(raw)
    source, target = (_examine_side(block, i, test_hashes) for i in (0, 1))
    numbers = block.first + np.arange(block.n_lines)
    is_pair = block.is_pair
    has_source, has_target = source.lengths > 0, target.lengths > 0
    filled = np.flatnonzero(is_pair & has_source & has_target)
    hashes = source.hashes[filled], target.hashes[filled]
    return BlockFacts(
        n_bytes=sum(map(len, raw.files)),
        n_pairs=int(is_pair.sum()),
        sides=(source.facts, target.facts),
        bad_tabs=[number for number, _ in block.bad_tabs],
        one_side_blank=numbers[is_pair & (has_source != has_target)],
        equal_sides=numbers[filled][hashes[0] == hashes[1]],
        lines=numbers[filled],
        source_hashes=hashes[0],
        pair_hashes=hashes[0] * np.uint64(3) + hashes[1],
        lengths=(source.lengths[filled], target.lengths[filled]),
        sample=sample_pairs(block.first, filled, source.text, target.text, thinning),
    )


def _examine_side(block: PairBlock, i: int, test_hashes: Hashes) -> _Side:
    side = block.sides[i]
    raw = CodeLines.of(side.text)
    clean, text = normalise_lines(raw, side.text)
    folded = CodeLines(fold_table()[clean.codes])
    hashes, lengths = hash_lines(clean), clean.lengths
    valid = side.is_text
    n_words = np.where(lengths > 0, clean.count(clean.codes == SPACE) + 1, 0)
    places = np.minimum(np.searchsorted(test_hashes, hashes), max(0, len(test_hashes) - 1))
    is_test = (test_hashes[places] == hashes) & (lengths > 0) if len(test_hashes) else np.zeros(len(hashes), np.bool_)
    facts = SideFacts(
        n_crlf=side.n_crlf,
        bad=side.bad,
        n_bytes=len(raw.codes),
        characters=Histogram(*np.unique(lengths[valid], return_counts=True)),
        words=Histogram(*np.unique(n_words[valid], return_counts=True)),
        blank=block.first + np.flatnonzero(valid & (lengths == 0)),
        long=block.first + np.flatnonzero(lengths > MAX_SENTENCE_LENGTH),
        odd=_odd_lines(raw, block.first),
        leaked=np.unique(hashes[is_test]),
        features=SideFeatures.of(folded),
    )
    return _Side(facts, text, lengths, hashes)


def _odd_lines(lines: CodeLines, first: int) -> dict[str, list[int]]:
    """The lines with odd characters, by what they are. Only lines that may have some are looked at one by one."""
    found: dict[str, list[int]] = {}
    for i in lines.lines_with(code_table(ANY_ODD)[lines.codes]).tolist():
        text = lines.text(i)
        for name, pattern in ODD.items():
            if pattern.search(text):
                found.setdefault(name, []).append(first + i)
    return found
