"""What can be said of a translation besides its text: tokens, which word came from which, and what looks wrong."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

from regard.decoding.options import Hypothesis
from regard.text.tokenizer import Tokenizer
from regard.text.words import word_numbers

# A sequence of so many symbols that comes so many times in a row is a loop, not language.
_LOOP_TIMES = 4
_LOOP_LONGEST = 8
_FEWEST_TO_JUDGE = 8  # symbols; shorter texts may well be copied, or differ much in length
_FAR_TOO = 4.0  # times longer or shorter


class Token(NamedTuple):
    """A sub-word as it stands in the vocabulary, and how sure the model was of it."""

    piece: str
    probability: float


def tokens_of(tokenizer: Tokenizer, found: Hypothesis) -> tuple[Token, ...]:
    """The sub-words of a hypothesis with their probabilities."""
    pairs = zip(found.ids, found.log_probs, strict=False)  # the last log-probability may be the end symbol's
    return tuple(Token(tokenizer.piece(one), exp(log_prob)) for one, log_prob in pairs)


def align_words(
    source: Tokenizer, target: Tokenizer, source_ids: Sequence[int], found: Hypothesis
) -> tuple[tuple[int, int], ...]:
    """(source word, target word): each target word with the source word that its sub-words looked at most."""
    if found.attention is None:
        return ()
    source_words, target_words = word_numbers(source, source_ids), word_numbers(target, found.ids)
    looked: dict[int, dict[int, float]] = {}
    for word, row in zip(target_words, found.attention, strict=True):
        if word is None:
            continue
        for source_word, weight in zip(source_words, row, strict=False):  # the end symbol is nobody's partner
            if source_word is not None:
                sums = looked.setdefault(word, {})
                sums[source_word] = sums.get(source_word, 0.0) + weight
    return tuple((max(sums, key=lambda one: sums[one]), word) for word, sums in sorted(looked.items()))


def warnings_of(source: str, text: str, source_ids: Sequence[int], ids: Sequence[int]) -> tuple[str, ...]:
    """Signs that the model made something up."""
    found = []
    if loops(ids):
        found.append("loops")
    if len(source_ids) >= _FEWEST_TO_JUDGE and source == text:
        found.append("copies")
    if len(source_ids) >= _FEWEST_TO_JUDGE and len(ids) * _FAR_TOO < len(source_ids):
        found.append("short")
    if len(ids) >= _FEWEST_TO_JUDGE and len(ids) > _FAR_TOO * len(source_ids):
        found.append("long")
    return tuple(found)


def loops(ids: Sequence[int]) -> bool:
    """Whether some short sequence comes again and again without a break."""
    for size in range(1, min(_LOOP_LONGEST, len(ids) // _LOOP_TIMES) + 1):
        run = 0
        for place in range(size, len(ids)):
            run = run + 1 if ids[place] == ids[place - size] else 0
            if run >= size * (_LOOP_TIMES - 1):
                return True
    return False
