"""Details of a translation: its tokens, the alignment of its words, and whether it loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

from regard.decoding.options import Hypothesis
from regard.text.tokenizer import Tokenizer
from regard.text.words import word_numbers

# A sequence of up to 8 tokens that is repeated 4 times or more is a loop.
_MIN_REPEATS = 4
_MAX_LOOP_LENGTH = 8


class Token(NamedTuple):
    """A sub-word of the vocabulary and its probability."""

    piece: str
    probability: float


def tokens_of(tokenizer: Tokenizer, hypothesis: Hypothesis) -> tuple[Token, ...]:
    """The sub-words of a hypothesis with their probabilities."""
    pairs = zip(hypothesis.ids, hypothesis.log_probs, strict=False)  # there may be one more, for the end symbol
    return tuple(Token(tokenizer.piece(piece_id), exp(log_prob)) for piece_id, log_prob in pairs)


def align_words(
    source: Tokenizer, target: Tokenizer, source_ids: Sequence[int], hypothesis: Hypothesis
) -> tuple[tuple[int, int], ...]:
    """(source word, target word): for each target word the source word with the largest sum of attention weights."""
    if hypothesis.attention is None:
        return ()
    source_words, target_words = word_numbers(source, source_ids), word_numbers(target, hypothesis.ids)
    weights: dict[int, dict[int, float]] = {}
    for word, row in zip(target_words, hypothesis.attention, strict=True):
        if word is None:
            continue
        for source_word, weight in zip(source_words, row, strict=False):  # without the end symbol
            if source_word is not None:
                sums = weights.setdefault(word, {})
                sums[source_word] = sums.get(source_word, 0.0) + weight
    return tuple((max(sums, key=sums.__getitem__), word) for word, sums in sorted(weights.items()))


def has_loop(ids: Sequence[int]) -> bool:
    """Whether a short sequence is repeated many times in a row."""
    if len(ids) - len(set(ids)) < _MIN_REPEATS - 1:
        return False
    for size in range(1, min(_MAX_LOOP_LENGTH, len(ids) // _MIN_REPEATS) + 1):
        n_equal = 0
        for position in range(size, len(ids)):
            n_equal = n_equal + 1 if ids[position] == ids[position - size] else 0
            if n_equal >= size * (_MIN_REPEATS - 1):
                return True
    return False
