"""A text as sub-words and words: the labels of attention weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.text.tokenizer import Tokenizer
from regard.text.words import group_words


@dataclass(frozen=True)
class Piece:
    """A sub-word as spelled in the vocabulary."""

    text: str
    id: int
    word: int
    special: bool  # begin, end, or the target language


@dataclass(frozen=True)
class Word:
    """A word, with the positions of its sub-words."""

    text: str
    pieces: tuple[int, ...]
    special: bool


@dataclass(frozen=True)
class TokenizedText:
    """A sequence of tokens that the model read or produced."""

    text: str
    pieces: tuple[Piece, ...]
    words: tuple[Word, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> TokenizedText:
        """Sub-words and words of a sequence of ids. A special symbol is a word of its own."""
        groups = group_words(tokenizer, ids, split_unspaced=True)
        words = tuple(_word(tokenizer, [ids[i] for i in group], group) for group in groups)
        word_of = {position: number for number, group in enumerate(groups) for position in group}
        pieces = tuple(
            Piece(tokenizer.piece(piece_id), piece_id, word_of[i], piece_id in tokenizer.special_ids)
            for i, piece_id in enumerate(ids)
        )
        return cls(tokenizer.decode(ids), pieces, words)

    @property
    def ids(self) -> list[int]:
        return [piece.id for piece in self.pieces]

    def labels(self, level: str) -> list[str]:
        """The texts of the words or of the pieces."""
        return [word.text for word in self.words] if level == "words" else [piece.text for piece in self.pieces]

    def membership(self) -> NDArray[np.float32]:
        """(words, pieces): 1 where a piece belongs to a word."""
        matrix = np.zeros((len(self.words), len(self.pieces)), dtype=np.float32)
        matrix[[piece.word for piece in self.pieces], np.arange(len(self.pieces))] = 1
        return matrix

    def to_dict(self) -> dict[str, Any]:
        """Pieces and words, without the text."""
        return {
            "pieces": [vars(piece) for piece in self.pieces],
            "words": [{"text": word.text, "pieces": list(word.pieces), "special": word.special} for word in self.words],
        }


def _word(tokenizer: Tokenizer, ids: list[int], positions: list[int]) -> Word:
    joined = "".join(map(tokenizer.piece, ids))
    if ids[0] in tokenizer.special_ids:
        return Word(joined, tuple(positions), True)
    return Word(tokenizer.decode(ids) or joined, tuple(positions), False)
