"""Groups sub-words into words."""

import re
from collections.abc import Sequence

from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import SPACE

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# Thai to Myanmar, Khmer, kana, Han: scripts written without spaces
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]"
)


def group_words(tokenizer: Tokenizer, ids: Sequence[int], *, split_unspaced: bool = False) -> list[list[int]]:
    """The positions of each word's sub-words, in order. A special symbol is a group of its own.

    Words are separated by spaces, as in `text.split()`: a Japanese sentence is one word. With `split_unspaced`, each
    sub-word in a script without spaces is a word, which suits a display of a sentence.
    """
    pieces = [tokenizer.piece(piece_id) for piece_id in ids]
    groups: list[list[int]] = []
    in_word = False  # whether the last group is a word, not a special symbol
    for position, (piece_id, piece) in enumerate(zip(ids, pieces, strict=True)):
        is_special = piece_id in tokenizer.special_ids
        starts = piece.startswith(SPACE) or (split_unspaced and _UNSPACED.match(_first_character(pieces, position)))
        # a space that is a sub-word of its own belongs to the word that follows
        if is_special or not in_word or (starts and any(pieces[i] != SPACE for i in groups[-1])):
            groups.append([position])
        else:
            groups[-1].append(position)
        in_word = not is_special
    return groups


def word_numbers(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int | None]:
    """For each sub-word, the index of its word in `tokenizer.decode(ids).split()`; None outside words.

    Special symbols, such as a language tag, and a space with no word after it are outside words.
    """
    numbers: list[int | None] = []
    current = -1
    for group in group_words(tokenizer, ids):
        pieces = [tokenizer.piece(ids[position]) for position in group]
        if ids[group[0]] in tokenizer.special_ids or all(piece == SPACE for piece in pieces):
            numbers += [None] * len(group)
            continue
        if current < 0 or pieces[0].startswith(SPACE):  # otherwise the word before a special symbol continues
            current += 1
        numbers += [current] * len(group)
    return numbers


def _first_character(pieces: Sequence[str], position: int) -> str:
    """The character that begins at a sub-word, also if it is spelled as bytes; empty inside a character."""
    spelled = bytearray()
    for piece in pieces[position : position + 4]:
        if (byte := _BYTE.fullmatch(piece)) is None:
            break
        spelled.append(int(byte[1], 16))
    if spelled and spelled[0] & 0xC0 == 0x80:  # a continuation byte
        return ""
    return spelled.decode(errors="ignore")[:1] if spelled else pieces[position][:1]
