"""Trains a SentencePiece vocabulary: of sub-words, of characters or of words."""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from math import exp, log
from typing import Any, Literal

import numpy as np
import sentencepiece

from regard.errors import DataError
from regard.text.normalise import normalise

TokenizerKind = Literal["unigram", "bpe", "char", "word", "imported"]

PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
N_SPECIAL = 4  # pad, unk, bos, eos
N_FIXED = N_SPECIAL + 256  # and a piece for each byte, so that any text can be encoded; words do without
NO_ID_MARK = "<no id>"  # in an imported vocabulary, pieces behind it have no id of their own: they are unknown
UNKNOWN_WORD = "<unk>"  # what a word outside a vocabulary of words becomes; in a text, it is the same symbol
MAX_SIZE = 1_000_000
SPACE = "\u2581"  # the space mark of SentencePiece
MASK = "[MASK]"  # in place of a hidden word

_MAX_LINES = 1_000_000
_MAX_CHARACTERS = 100_000_000
_MAX_LINE_CHARACTERS = 10_000
_MAX_LINES_COUNTED = 200_000
_LINES_AT_ONCE = 10_000
# (lines of both sides, pieces): sizes that work on Multi30k, Tatoeba and WMT 2014 (37,000 in the paper)
_SIZES = (
    (200, 400),
    (2_000, 1_200),
    (20_000, 4_000),
    (58_000, 8_000),
    (330_000, 11_000),
    (2_000_000, 32_000),
    (9_000_000, 37_000),
)
_MAX_WORDS, _MIN_COUNT = 50_000, 2  # a word that occurs once is unknown, so that the unknown word is learned too
MIN_SIZES: dict[TokenizerKind, int] = {
    "unigram": 270,
    "bpe": 270,
    "char": N_FIXED + 1,
    "word": N_SPECIAL + 1,
    "imported": 5,
}
_REQUIRED_SIZE = re.compile(r"(\d+) vs (\d+)")


def default_vocab_size(n_lines: int) -> int:
    """The vocabulary size for `n_lines` lines (of both sides if it is joint); never falls as `n_lines` grows."""
    smallest, largest = _SIZES[0], _SIZES[-1]
    if n_lines <= smallest[0]:
        return smallest[1]
    for (low, low_size), (high, high_size) in pairwise(_SIZES):
        if n_lines <= high:
            position = log(n_lines / low) / log(high / low)
            return 100 * round(low_size * exp(position * log(high_size / low_size)) / 100)
    return largest[1]


def check_vocabulary(kind: TokenizerKind, size: int | None, sampling: float) -> None:
    """Raises ValueError for settings of a recipe that do not go together."""
    if size is not None and size < MIN_SIZES[kind]:
        raise ValueError(f"a vocabulary of {size} is too small for kind = '{kind}': use at least {MIN_SIZES[kind]}")
    if sampling and kind not in ("unigram", "bpe"):
        raise ValueError("sampling is for sub-words: kind = 'bpe' or 'unigram'")


def tag_piece(tag: str) -> str:
    """The piece for a target language: `>>de<<`."""
    return f">>{tag}<<"


def train_tokenizer(
    lines: Iterable[str],
    *,
    size: int | None = None,
    kind: TokenizerKind = "bpe",
    tags: Sequence[str] = (),
    mask: bool = False,
    seed: int = 1,
    normalised: bool = False,
    n_lines: int | None = None,
) -> bytes:
    """Train SentencePiece on the lines and return its model file. Deterministic.

    `size` includes the special pieces and the 256 bytes, which words do not have. By default it depends on the number
    of lines; it is all characters, or all words that occur twice. The vocabulary is smaller if the corpus has fewer
    pieces. A large corpus is sampled. With `mask`, there is a piece for hidden words. `normalised` lines are
    not normalised again. `n_lines` is the number of all lines, if `lines` are only some of them.
    """
    if kind == "imported":
        raise DataError("text.kind = 'imported' is the vocabulary of an imported model", hint="start --from that model")
    controls = [*map(tag_piece, tags), *([MASK] if mask else [])]
    sample, n_given = _sample(_usable(lines, normalised), seed)
    if not sample:
        raise DataError(
            "there is no text to train a vocabulary on", hint="check the training files: they are empty or blank"
        )
    characters = _count_characters(sample)
    # An alphabet is covered completely. Of thousands of characters, the rarest are encoded as bytes.
    coverage = 1.0 if len(characters) <= 300 or kind == "word" else 0.9995
    if kind == "word":
        sample = _without_unknown_word(sample)
    if size is None:
        minimum = _min_size(characters, coverage, len(controls))
        size = _default_size(kind, sample, len(controls), max(default_vocab_size(n_lines or n_given), minimum))
    if kind in ("char", "word") and size < (smallest := MIN_SIZES[kind] + len(controls)):
        raise DataError(f"a vocabulary of {size} is too small for this corpus", hint=f"use at least {smallest}")
    try:
        return _train(sample, size, kind, coverage, controls)
    except RuntimeError as error:
        raise _data_error(error, size) from error


def _train(sample: list[str], size: int, kind: TokenizerKind, coverage: float, controls: list[str]) -> bytes:
    lines = iter(sample)
    options: dict[str, Any] = {"unk_surface": f" {UNKNOWN_WORD} "} if kind == "word" else {"byte_fallback": True}
    if kind != "unigram":  # the others learn from words and their counts, which is faster with the same pieces
        lines = (f"{word}\t{count}" for word, count in _count_words(sample).items())
        options["input_format"] = "tsv"
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines,
        model_writer=writer,
        vocab_size=size,
        model_type=kind,
        hard_vocab_limit=False,
        **options,
        character_coverage=coverage,
        normalization_rule_name="identity",  # normalise() has run, and encoding has to be lossless
        remove_extra_whitespaces=False,
        pad_id=PAD_ID,
        unk_id=UNK_ID,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        control_symbols=controls,  # unlike user-defined symbols, they are never part of a text
        max_sentence_length=4 * _MAX_LINE_CHARACTERS,
        num_threads=2,  # fixed, because it is written into the model
        minloglevel=3,
    )
    return writer.getvalue()


def _count_words(lines: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for first in range(0, len(lines), _LINES_AT_ONCE):
        counts.update(" ".join(lines[first : first + _LINES_AT_ONCE]).split(" "))
    return counts


def _sample(lines: Iterable[str], seed: int) -> tuple[list[str], int]:
    """A sample of at most about a million lines, chosen by line number and seed, and the number of lines."""
    sample: list[str] = []
    hashes: list[bytes] = []  # of the lines of the sample, as soon as some lines are left out
    n_lines = n_characters = 0
    threshold = 1 << 64
    limit = b""  # the same as bytes
    for n_lines, line in enumerate(lines, start=1):
        if limit:
            line_hash = _line_hash(n_lines, seed)
            if line_hash >= limit:
                continue
            hashes.append(line_hash)
        sample.append(line)
        n_characters += len(line)
        while len(sample) > _MAX_LINES or n_characters > _MAX_CHARACTERS:
            hashes = hashes or [_line_hash(number, seed) for number in range(1, n_lines + 1)]
            threshold //= 2
            limit = threshold.to_bytes(8, "big")
            sample = [text for line_hash, text in zip(hashes, sample, strict=True) if line_hash < limit]
            hashes = [line_hash for line_hash in hashes if line_hash < limit]
            n_characters = sum(map(len, sample))
    return sample, n_lines


def _usable(lines: Iterable[str], normalised: bool) -> Iterator[str]:
    """Normalised lines that are not blank; very long ones are truncated."""
    for line in lines:
        if normalised and len(line) <= _MAX_LINE_CHARACTERS and SPACE not in line:
            clean = line
        else:
            start = line[:_MAX_LINE_CHARACTERS]
            clean = " ".join((start if normalised else normalise(start)).replace(SPACE, " ").split())
        if clean:
            yield clean


def _without_unknown_word(sample: list[str]) -> list[str]:
    """The lines without the word `<unk>`, so that it is unknown."""
    lines = (" ".join(word for word in line.split(" ") if word != UNKNOWN_WORD) for line in sample)
    return [line for line in lines if line]


def _default_size(kind: TokenizerKind, sample: list[str], n_controls: int, n_subwords: int) -> int:
    if kind == "char":
        return MAX_SIZE  # all that are covered
    if kind == "word":
        n_words = sum(count >= _MIN_COUNT for count in _count_words(sample).values())
        if not n_words:
            raise DataError("no word of the training text occurs twice", hint="use sub-words: text.kind = 'bpe'")
        return N_SPECIAL + n_controls + min(_MAX_WORDS, n_words)
    return n_subwords


def _line_hash(number: int, seed: int) -> bytes:
    """A uniform number of 64 bits for each line, the highest byte first."""
    return blake2b(b"%d:%d" % (seed, number), digest_size=8).digest()


def _count_characters(sample: list[str]) -> Counter[str]:
    lines = sample[:: 1 + len(sample) // _MAX_LINES_COUNTED]
    counts = np.zeros(0, np.int64)
    for first in range(0, len(lines), _LINES_AT_ONCE):
        text = "".join(lines[first : first + _LINES_AT_ONCE])
        part = np.bincount(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32), minlength=len(counts))
        part[: len(counts)] += counts
        counts = part
    return Counter({chr(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()})


def _min_size(characters: Counter[str], coverage: float, n_controls: int) -> int:
    """The smallest size that fits the fixed pieces, the characters to be covered, and some words."""
    to_cover, n_characters = coverage * characters.total(), 0
    for _, count in characters.most_common():
        if to_cover <= 0:
            break
        to_cover -= count
        n_characters += 1
    return N_FIXED + n_controls + round(n_characters * 1.1) + 16


def _data_error(error: RuntimeError, size: int) -> DataError:
    if "required_chars" in str(error) and (match := _REQUIRED_SIZE.search(str(error))):
        return DataError(f"a vocabulary of {size} is too small for this corpus", hint=f"use at least {match[2]}")
    return DataError(f"no vocabulary could be trained ({error})", hint="check that the training files have enough text")
