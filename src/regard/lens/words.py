"""Pieces, and how they join to words: what stands beside a map."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import SPACE

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# Thai to Myanmar, Khmer, kana, Han: written without spaces, so that a piece is as much of a word as there is
_NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True)
class Piece:
    """A sub-word as it stands in the vocabulary."""

    text: str
    id: int
    word: int
    special: bool  # begin, end, or the target language


@dataclass(frozen=True)
class Word:
    """Pieces that belong together, as a person would write them."""

    text: str
    pieces: tuple[int, ...]
    special: bool


@dataclass(frozen=True)
class Side:
    """One sequence of symbols that the model saw or made."""

    text: str
    pieces: tuple[Piece, ...]
    words: tuple[Word, ...]

    @property
    def ids(self) -> list[int]:
        return [piece.id for piece in self.pieces]

    def labels(self, level: str) -> list[str]:
        """Of its words or of its pieces."""
        return [one.text for one in (self.words if level == "words" else self.pieces)]

    def members(self) -> NDArray[np.float32]:
        """(words, pieces): 1 where a piece belongs to a word."""
        belongs = np.zeros((len(self.words), len(self.pieces)), dtype=np.float32)
        belongs[[piece.word for piece in self.pieces], np.arange(len(self.pieces))] = 1
        return belongs

    def to_dict(self) -> dict[str, Any]:
        """Pieces and words, without the text."""
        return {
            "pieces": [vars(piece) for piece in self.pieces],
            "words": [{"text": word.text, "pieces": list(word.pieces), "special": word.special} for word in self.words],
        }


def side_of(tokenizer: Tokenizer, ids: Sequence[int]) -> Side:
    """Ids as pieces and words. Special symbols are words of their own."""
    texts = [tokenizer.piece(one) for one in ids]
    special = _special_ids(tokenizer)
    groups: list[list[int]] = []
    for place, one in enumerate(ids):
        apart = place == 0 or one in special or ids[place - 1] in special
        if apart or texts[place].startswith(SPACE) or _stands_alone(texts, groups[-1], place):
            groups.append([place])
        else:
            groups[-1].append(place)
    words = tuple(_word(tokenizer, [ids[i] for i in group], group, special) for group in groups)
    word_of = {place: number for number, group in enumerate(groups) for place in group}
    pieces = tuple(
        Piece(text, one, word_of[i], one in special) for i, (text, one) in enumerate(zip(texts, ids, strict=True))
    )
    return Side(tokenizer.decode(ids), pieces, words)


def _special_ids(tokenizer: Tokenizer) -> frozenset[int]:
    tags = [tokenizer.encode("", tag=tag)[0] for tag in tokenizer.tags]
    return frozenset([tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, *tags])


def _word(tokenizer: Tokenizer, ids: list[int], places: list[int], special: frozenset[int]) -> Word:
    joined = "".join(map(tokenizer.piece, ids))
    if ids[0] in special:
        return Word(joined, tuple(places), True)
    return Word(tokenizer.decode(ids) or joined, tuple(places), False)


def _stands_alone(texts: Sequence[str], before: Sequence[int], place: int) -> bool:
    """Whether a piece without a space in front is a word all the same: in a script that writes none."""
    if all(texts[i] == SPACE for i in before):
        return False  # a space that is a piece of its own belongs to what follows
    return _NO_SPACES.match(_first_character(texts, place)) is not None


def _first_character(texts: Sequence[str], place: int) -> str:
    """The character that begins at a piece, also where it is spelled as bytes; nothing inside a character."""
    raw = bytearray()
    for text in texts[place : place + 4]:
        if (byte := _BYTE.fullmatch(text)) is None:
            break
        raw.append(int(byte[1], 16))
    if raw and raw[0] & 0xC0 == 0x80:
        return ""
    return raw.decode(errors="ignore")[:1] if raw else texts[place][:1]
