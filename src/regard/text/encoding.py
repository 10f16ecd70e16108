"""Parallel lines → ids, a block at a time: decoded, normalised, and split into training and held-out pairs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from math import ceil

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError
from regard.text.blocks import PairBlock, RawBlock, decode_block
from regard.text.code_points import SPACE, CodeLines, Hashes, hash_lines, normalise_lines
from regard.text.corpus import TSV_HINT, Corpus, OnBadPair
from regard.text.tokenizer import Tokenizer, TokenizerPair

MAX_CACHED_WORDS = 300_000
_MAX_CACHED_IDS = 4_000_000

Ids = NDArray[np.integer]
Lengths = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class EncodedSide:
    """The source or the target sentences of a block."""

    ids: Ids  # of all sentences, concatenated, without bos and eos; small integers, as they go through pipes
    lengths: Lengths  # (n_pairs,)

    def select(self, keep: Mask) -> "EncodedSide":
        if keep.all():
            return self
        return EncodedSide(self.ids[np.repeat(keep, self.lengths)], self.lengths[keep])


@dataclass(frozen=True, eq=False)
class EncodedBlock:
    """Encoded pairs, without blank and too long ones."""

    source: EncodedSide
    target: EncodedSide
    corpora: NDArray[np.uint8]  # (n_pairs,) index of the corpus
    target_hashes: Hashes  # (n_pairs,) of the text without upper case
    n_read: int
    n_blank: int
    n_too_long: int

    @classmethod
    def of(
        cls,
        source: EncodedSide,
        target: EncodedSide,
        corpora: NDArray[np.uint8],
        target_hashes: Hashes,
        has_text: Mask,
        max_length: int,
    ) -> "EncodedBlock":
        """Leaves out pairs with an empty side, and those with more than `max_length` ids on one side."""
        filled = has_text & (source.lengths > 0) & (target.lengths > 0)
        short = np.maximum(source.lengths, target.lengths) <= max_length
        keep = filled & short
        n_too_long = int((filled & ~short).sum())
        sides = source.select(keep), target.select(keep)
        return cls(*sides, corpora[keep], target_hashes[keep], len(keep), int((~filled).sum()), n_too_long)

    def select(self, keep: Mask) -> "EncodedBlock":
        """Some of the pairs."""
        sides = self.source.select(keep), self.target.select(keep)
        counts = self.n_read, self.n_blank, self.n_too_long
        return EncodedBlock(*sides, self.corpora[keep], self.target_hashes[keep], *counts)

    def of_corpus(self, number: int) -> "EncodedBlock":
        """The same pairs, with the index of their corpus."""
        return replace(self, corpora=np.full(len(self.corpora), number, np.uint8))


@dataclass(frozen=True)
class Split:
    """Which pairs are held out for validation: a share of those with different sources."""

    share: float
    seed: int

    def held_out(self, clean: str) -> Mask:
        """(n_lines,) whether each line of a normalised text is held out, as by `is_held_out`."""
        lines = clean.casefold().encode("utf-8").split(b"\n")[:-1]
        if not self.share:
            return np.zeros(len(lines), np.bool_)
        key = self.seed.to_bytes(16, "big", signed=True)
        limit = min(ceil(self.share * 2**64), 2**64 - 1).to_bytes(8, "big")
        hashes = (blake2b(line, digest_size=8, key=key).digest() for line in lines)
        return np.fromiter((digest < limit for digest in hashes), np.bool_, len(lines))


@dataclass(frozen=True)
class Encoding:
    """How the pairs of a corpus become ids. Pickled for other processes."""

    corpus: Corpus
    on_bad: OnBadPair
    split: Split
    tokenizers: TokenizerPair
    max_length: int


def encode_block(encodings: Sequence[Encoding], task: tuple[int, RawBlock]) -> tuple[int, EncodedBlock, EncodedBlock]:
    """The number of the corpus, the training pairs and the held-out pairs of one of its blocks.

    Raises DataError for a line that is not valid.
    """
    number, raw = task
    how = encodings[number]
    block = decode_pairs(raw, how.corpus, how.on_bad)
    rows = block.is_pair
    cleaned = [normalise_lines(CodeLines.of(side.text), side.text) for side in block.sides]
    held_out = how.split.held_out(cleaned[0][1])
    source, target = (
        line_encoder(tokenizer).encode(side.text, *clean)
        for tokenizer, side, clean in zip(
            (how.tokenizers.source, how.tokenizers.target), block.sides, cleaned, strict=True
        )
    )
    if how.corpus.tag is not None:
        source = _tagged(source, how.tokenizers.source.encode("", tag=how.corpus.tag))
    has_text = (cleaned[0][0].lengths > 0) & (cleaned[1][0].lengths > 0)
    hashes = hash_lines(cleaned[1][0])
    train, held = (
        EncodedBlock.of(
            source.select(chosen),
            target.select(chosen),
            np.full(int(chosen.sum()), number, np.uint8),
            hashes[chosen],
            has_text[chosen],
            how.max_length,
        )
        for chosen in (rows & ~held_out, rows & held_out)
    )
    return number, train, held


def training_lines(
    corpora: Sequence[tuple[Corpus, Split]], on_bad: OnBadPair, task: tuple[int, RawBlock]
) -> tuple[list[str], list[str]]:
    """The normalised source and target lines of a block that are not held out, for the vocabulary."""
    number, raw = task
    corpus, split = corpora[number]
    block = decode_pairs(raw, corpus, on_bad)
    source, target = (normalise_lines(CodeLines.of(side.text), side.text)[1] for side in block.sides)
    keep = block.is_pair & ~split.held_out(source)
    sides = (text.split("\n")[:-1] for text in (source, target))
    sources, targets = ([line for line, is_kept in zip(side, keep, strict=True) if is_kept] for side in sides)
    return sources, targets


def decode_pairs(raw: RawBlock, corpus: Corpus, on_bad: OnBadPair) -> PairBlock:
    """The pairs of a block; raises DataError for a line that is not valid, unless such lines are skipped."""
    block = decode_block(raw)
    if on_bad == "raise":
        for _, message, hint in sorted(_problems(block, corpus))[:1]:
            raise DataError(message, hint=hint)
    return block


def _problems(block: PairBlock, corpus: Corpus) -> Iterator[tuple[int, str, str]]:
    files = corpus.files * (3 - len(corpus.files))
    for path, side in zip(files, block.sides, strict=True):
        for number, problem, hint in side.bad:
            yield number, f"{path}:{number}: {problem}", hint
    for number, n_tabs in block.bad_tabs:
        yield number, f"{corpus.tsv}:{number}: {n_tabs} tabs instead of one", TSV_HINT


def _tagged(side: EncodedSide, tag_ids: list[int]) -> EncodedSide:
    """With the ids of a language in front of every sentence."""
    starts = np.cumsum(side.lengths) - side.lengths
    ids = np.insert(side.ids, np.repeat(starts, len(tag_ids)), np.tile(tag_ids, len(starts)))
    return EncodedSide(ids, side.lengths + len(tag_ids))


@lru_cache(maxsize=4)
def line_encoder(tokenizer: Tokenizer) -> "LineEncoder":
    """The encoder of a tokenizer, with the words that it has seen."""
    return LineEncoder(tokenizer)


class LineEncoder:
    """Encodes many lines at once, with the ids of `Tokenizer.encode_many`.

    No piece of our vocabularies continues behind a space, so that BPE encodes every word alone, and it has to
    encode a word only once. In a unigram vocabulary the rounding of sums could decide between equally good
    segmentations, so lines are encoded as a whole, as they are by an imported vocabulary.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        own = tokenizer.kind == "word" or (tokenizer.kind in ("bpe", "char") and tokenizer.has_bytes)
        self._id_type = np.uint16 if tokenizer.size <= 1 << 16 else np.uint32
        self._by_word = own and not any("\u2581" in piece[1:] for piece in tokenizer.symbols)
        self._forget()

    def _forget(self) -> None:
        self._words = _Places()  # in the next two
        self._ids: Ids = np.zeros(0, self._id_type)
        self._starts = np.zeros(1, np.int64)  # of each word in `_ids`, and the end

    def encode(self, text: str, clean: CodeLines, clean_text: str) -> EncodedSide:
        """The ids of all lines of a text, which is given as it is and normalised."""
        if not self._by_word:
            encoded = concatenate(self._tokenizer.encode_many(text.split("\n")[:-1]))
            return EncodedSide(encoded.ids.astype(self._id_type), encoded.lengths)
        if len(self._words) > MAX_CACHED_WORDS or len(self._ids) > _MAX_CACHED_IDS:
            self._forget()
        words = clean_text.split()
        places = np.fromiter(map(self._words.__getitem__, words), np.int64, len(words))
        self._learn()
        starts, lengths = self._starts[places], self._starts[places + 1] - self._starts[places]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        ids = self._ids[np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths)]
        n_words = np.where(clean.lengths > 0, clean.count(clean.codes == SPACE) + 1, 0)
        return EncodedSide(ids, np.diff(ends[np.concatenate([[0], np.cumsum(n_words)])]))

    def _learn(self) -> None:
        """Encode the words that are new."""
        encoded = concatenate(self._tokenizer.encode_many(self._words.new))
        self._words.new.clear()
        self._starts = np.concatenate([self._starts, len(self._ids) + np.cumsum(encoded.lengths)])
        self._ids = np.concatenate([self._ids, encoded.ids.astype(self._id_type)])


class _Places(dict[str, int]):
    """Numbers words in the order in which they are first looked up."""

    def __init__(self) -> None:
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        self[word] = place = len(self)
        self.new.append(word)
        return place


def concatenate(sentences: list[list[int]]) -> EncodedSide:
    """Lists of ids as arrays."""
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    ids = np.fromiter((piece for sentence in sentences for piece in sentence), np.int64, int(lengths.sum()))
    return EncodedSide(ids, lengths)
