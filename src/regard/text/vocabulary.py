"""Making a vocabulary: how many sub-words, and which, from the lines of a corpus."""

import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import exp, log
from typing import Literal

import sentencepiece

from regard.errors import DataError
from regard.text.normalise import normalise

Kind = Literal["unigram", "bpe"]

PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
N_FIXED = 4 + 256  # pad, unk, bos, eos, and a piece for every byte: any text can be written
SPACE = "\u2581"  # what SentencePiece writes for a space

_MAX_LINES = 1_000_000
_MAX_CHARACTERS = 100_000_000
_MAX_LINE_CHARACTERS = 10_000
_MAX_COUNTED = 200_000
# (lines of both sides together, pieces): read off what works on Multi30k, Tatoeba and WMT 2014 (37,000 in the paper).
_SIZES = (
    (200, 400),
    (2_000, 1_200),
    (20_000, 4_000),
    (58_000, 8_000),
    (330_000, 11_000),
    (2_000_000, 32_000),
    (9_000_000, 37_000),
)
_TOO_SMALL = re.compile(r"(\d+) vs (\d+)")


def default_vocab_size(n_lines: int) -> int:
    """Pieces in a vocabulary for `n_lines` lines (of both sides, when it is joint); more lines, never fewer pieces."""
    smallest, largest = _SIZES[0], _SIZES[-1]
    if n_lines <= smallest[0]:
        return smallest[1]
    for (low, low_size), (high, high_size) in pairwise(_SIZES):
        if n_lines <= high:
            part = log(n_lines / low) / log(high / low)
            return 100 * round(low_size * exp(part * log(high_size / low_size)) / 100)
    return largest[1]


def tag_piece(tag: str) -> str:
    """How a target language stands in a vocabulary: `>>de<<`."""
    return f">>{tag}<<"


def train_tokenizer(
    lines: Iterable[str],
    *,
    size: int | None = None,
    kind: Kind = "bpe",
    tags: Sequence[str] = (),
    seed: int = 1,
) -> bytes:
    """Train SentencePiece on the lines and give its model file as bytes: same lines, same bytes.

    `size` counts every piece, the special ones and the 256 bytes included. It is chosen from the number of lines when
    not given, and shrinks when the corpus has no more pieces to give. A long corpus is sampled.
    """
    sample, n_lines = _sample(lines, seed)
    if not sample:
        raise DataError("there is no text to make a vocabulary from", hint="the training files are empty or blank")
    characters = _count_characters(sample)
    # An alphabet is covered whole. Of thousands of characters the rarest are left to be written as bytes.
    coverage = 1.0 if len(characters) <= 300 else 0.9995
    wanted = size if size is not None else max(default_vocab_size(n_lines), _room_for(characters, coverage, len(tags)))
    tag_pieces = [tag_piece(tag) for tag in tags]
    try:
        return _train(sample, wanted, kind, coverage, tag_pieces)
    except RuntimeError as error:
        raise _in_words(error, wanted) from error


def _train(sample: list[str], size: int, kind: Kind, coverage: float, tag_pieces: list[str]) -> bytes:
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sample),
        model_writer=writer,
        vocab_size=size,
        model_type=kind,
        hard_vocab_limit=False,
        byte_fallback=True,
        character_coverage=coverage,
        normalization_rule_name="identity",  # normalise() has run, and what goes in must come out
        remove_extra_whitespaces=False,
        pad_id=PAD_ID,
        unk_id=UNK_ID,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        control_symbols=tag_pieces,  # unlike user-defined ones, no text can forge them
        max_sentence_length=4 * _MAX_LINE_CHARACTERS,
        num_threads=2,  # written into the model, so it must not follow the machine
        minloglevel=3,
    )
    return writer.getvalue()


def _sample(lines: Iterable[str], seed: int) -> tuple[list[str], int]:
    """At most about a million lines, chosen by place and seed alone, and how many there were."""
    kept: list[tuple[int, str]] = []
    n_lines = n_characters = 0
    limit = 1 << 64
    for n_lines, line in enumerate(_usable(lines), start=1):
        place = _place(n_lines, seed) if limit < 1 << 64 else 0
        if place >= limit:
            continue
        kept.append((n_lines, line))
        n_characters += len(line)
        while len(kept) > _MAX_LINES or n_characters > _MAX_CHARACTERS:
            limit //= 2
            kept = [(number, text) for number, text in kept if _place(number, seed) < limit]
            n_characters = sum(len(text) for _, text in kept)
    return [line for _, line in kept], n_lines


def _usable(lines: Iterable[str]) -> Iterator[str]:
    """Lines as the tokenizer will meet them, without blank ones; of a very long one its beginning."""
    for line in lines:
        clean = normalise(line[:_MAX_LINE_CHARACTERS]).replace(SPACE, " ").strip()
        if clean:
            yield clean


def _place(number: int, seed: int) -> int:
    """A number below 2**64 for each line, evenly spread."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{number}".encode(), digest_size=8).digest(), "big")


def _count_characters(sample: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in sample[:: 1 + len(sample) // _MAX_COUNTED]:
        counts.update(line)
    return counts


def _room_for(characters: Counter[str], coverage: float, n_tags: int) -> int:
    """The least size that holds the fixed pieces, the characters to be covered, and some words."""
    to_cover, n_characters = coverage * characters.total(), 0
    for _, count in characters.most_common():
        if to_cover <= 0:
            break
        to_cover -= count
        n_characters += 1
    return N_FIXED + n_tags + round(n_characters * 1.1) + 16


def _in_words(error: RuntimeError, size: int) -> DataError:
    if "required_chars" in str(error) and (found := _TOO_SMALL.search(str(error))):
        return DataError(f"a vocabulary of {size} is too small for this corpus", hint=f"give at least {found[2]}")
    return DataError(f"no vocabulary could be made ({error})", hint="is there enough text in the training files?")
