"""Warnings about a translation: signs that it cannot be trusted, and how unusual they have to be.

What a sign measures is compared with a threshold that was fitted on validation sentences at the end of training, all
together, so that few ordinary sentences get any warning. docs/trust.md says what each means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf, isfinite, log, sqrt
from typing import Any

from regard.decoding.options import DecodingOptions, Hypothesis, gnmt
from regard.engines.engine import Engine
from regard.text import Tokenizer, TokenizerPair
from regard.text.language_profile import MAX_NGRAM_LENGTH, read_profiles, word_ngrams, words_with_ngrams
from regard.text.languages import Languages
from regard.text.words import word_numbers
from regard.translator.details import has_loop
from regard.translator.protected import KEPT_NUMBERS, Protection

FACT = "warnings"  # the thresholds, among the facts about a model
MAX_FLAGGED = 0.02  # of the sentences that the thresholds are fitted on
MIN_SENTENCES = 100  # with fewer, thresholds are not fitted

# Without fitted thresholds: a model of 0.1.0, or one with too little validation text.
DEFAULT_THRESHOLDS = {"unsure": 2.5, "unknown": 0.75, "capitals": 0.75, "length": log(4)}
# Below, nothing is suspicious however rare it is.
_FLOORS = {"capitals": 0.5, "length": log(2), "left-out": 0.2, "other-language": 0.0, "unknown": 0.1}
_WARNING_OF = {"other-language": "language", "pieces": "unknown"}  # signs without a name of their own
_MIN_IDS = 8  # shorter sentences may be copied, or differ in length, without being wrong
_ROUNDED_UP = 5e-5  # or a value would be above its own threshold
_MIN_CHARACTERS = 20  # a shorter text may be a few rare words
_MIN_LETTERS = 8  # shorter text may have any capitals, and any letters
_CACHED_WORDS = 50_000
_MIN_ATTENTION = 0.15  # a source word to which no target token attends more was left out
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_LETTER = re.compile(r"[^\W\d_]")  # inside a word: at its start there is a space before it


class WarningSigns:
    """Measures sentences of a model and their translations."""

    def __init__(self, facts: Mapping[str, Any], tokenizers: TokenizerPair) -> None:
        self._source = tokenizers.source
        self._is_spelled = [_is_spelled(self._source, i) for i in range(self._source.size)]
        languages, profiles = Languages.from_facts(facts), read_profiles(facts)
        self._profile = profiles.get(languages.source or "")
        self._count_letters = lru_cache(_CACHED_WORDS)(self._log_likelihoods)
        self._others = [profile for code, profile in profiles.items() if code != languages.source]
        stored = facts.get(FACT)
        self._thresholds = _numbers(stored) if isinstance(stored, dict) else DEFAULT_THRESHOLDS

    def warnings(
        self, text: str, ids: Sequence[int], translation: str, hypothesis: Hypothesis, alpha: float
    ) -> list[str]:
        """The names of the signs that are above their thresholds, and of those that need none."""
        measured = self.measure(text, ids, hypothesis, alpha)
        fitted = [
            _WARNING_OF.get(name, name) for name, value in measured.items() if value > self._thresholds.get(name, inf)
        ]
        return list(dict.fromkeys(fitted + certain_signs(text, ids, translation, hypothesis)))

    def measure(self, text: str, ids: Sequence[int], hypothesis: Hypothesis, alpha: float) -> dict[str, float]:
        """Sign → how unusual this translation is."""
        length = len(hypothesis.ids) + 1
        total = sum(hypothesis.log_probs) if hypothesis.log_probs else hypothesis.score * gnmt(length, alpha)
        n_ids = max(1, len(ids))
        return {
            "unsure": -total / length,
            "detached": -total,
            "unknown": sum([self._is_spelled[i] for i in ids]) / n_ids,
            "pieces": n_ids / len(text) if len(text) >= _MIN_CHARACTERS else 0.0,
            **self._measure_letters(text),
            "capitals": 0.0 if text[1:].islower() else _share_of_capitals(text),
            "length": abs(log(length / n_ids)) if max(length, n_ids) >= _MIN_IDS else 0.0,
            "left-out": 0.0 if hypothesis.attention is None else self._left_out(ids, hypothesis.attention),
        }

    def _measure_letters(self, text: str) -> dict[str, float]:
        """By how many standard deviations, roughly, the letters are less likely than usual in the source language.

        And by how many they are more likely in another language of the model.
        """
        measured = {"language": 0.0, "other-language": 0.0}
        counted = [self._count_letters(word) for word in words_with_ngrams(text)]
        n_letters, likelihood, *others = map(sum, zip(*counted, strict=True)) if counted else (0.0, 0.0)
        if self._profile is not None and n_letters >= _MIN_LETTERS:
            root = sqrt(n_letters)
            measured["language"] = -likelihood / root - self._profile.surprise * root
            measured["other-language"] = (max(others, default=likelihood) - likelihood) / root
        return measured

    def _log_likelihoods(self, word: str) -> tuple[float, ...]:
        """The number of letters, then the log-likelihood in the source language and in each of the others."""
        if self._profile is None:
            return 0.0, 0.0
        ngrams = word_ngrams(word)
        profiles = (self._profile, *self._others)
        return len(ngrams) / MAX_NGRAM_LENGTH, *(profile.word_log_likelihood(ngrams) for profile in profiles)

    def _left_out(self, ids: Sequence[int], attention: Sequence[Sequence[float]]) -> float:
        """The share of source words to which no target token attends."""
        words: dict[int, float] = {}
        for position, word in enumerate(word_numbers(self._source, ids)):
            if word is not None:
                most = max((row[position] for row in attention), default=0.0)
                words[word] = max(words.get(word, 0.0), most)
        return sum(most < _MIN_ATTENTION for most in words.values()) / max(1, len(words))


def _share_of_capitals(text: str) -> float:
    n_upper, n_lower = sum(map(str.isupper, text)), sum(map(str.islower, text))
    return n_upper / (n_upper + n_lower) if n_upper + n_lower >= _MIN_LETTERS else 0.0


def certain_signs(text: str, ids: Sequence[int], translation: str, hypothesis: Hypothesis) -> list[str]:
    """Signs that need no threshold."""
    is_copied = len(ids) >= _MIN_IDS and text.casefold() == translation.casefold()
    return ["loops"] * has_loop(hypothesis.ids) + ["copied"] * is_copied


def fit_thresholds(measured: Sequence[Mapping[str, float]], n_flagged: int = 0) -> dict[str, float]:
    """Thresholds above which at most MAX_FLAGGED of the sentences are, by any sign, with the `n_flagged` others.

    Every sign flags about as many of them. Empty for too few sentences.
    """
    if len(measured) < MIN_SENTENCES:
        return {}
    ranked = {name: sorted((values[name] for values in measured), reverse=True) for name in measured[0]}

    def thresholds(n: int) -> dict[str, float]:
        return {name: max(values[n], _FLOORS.get(name, -inf)) for name, values in ranked.items()}

    def flagged(n: int) -> int:
        limits = thresholds(n)
        return sum(any(value > limits[name] for name, value in values.items()) for values in measured)

    most = int(MAX_FLAGGED * len(measured)) - n_flagged
    n = max((n for n in range(most + 1) if flagged(n) <= most), default=0)
    return {name: round(value + _ROUNDED_UP, 4) for name, value in thresholds(n).items()}


def warning_facts(
    engine: Engine,
    tokenizers: TokenizerPair,
    facts: Mapping[str, Any],
    sources: Sequence[Sequence[int]],
    options: DecodingOptions,
) -> dict[str, Any]:
    """Fits the thresholds of a model to its own translations of validation sentences; facts to store with the model."""
    signs, protection = WarningSigns(facts, tokenizers), Protection(kept_numbers=facts.get(KEPT_NUMBERS))
    measured, n_flagged = [], 0
    ranked = engine.translate(sources, replace(options, n_best=1), with_attention=True)
    for ids, (hypothesis,) in zip(sources, ranked, strict=True):
        text, translation = tokenizers.source.decode(ids), tokenizers.target.decode(hypothesis.ids)
        measured.append(signs.measure(text, ids, hypothesis, options.length_penalty))
        lost = protection.lost(text, translation)
        n_flagged += bool(lost.warnings or certain_signs(text, ids, translation, hypothesis))
    thresholds = fit_thresholds(measured, n_flagged)
    return {FACT: thresholds} if thresholds else {}


def _numbers(stored: Mapping[Any, Any]) -> dict[str, float]:
    """The thresholds in a model, which may come from an untrusted source."""
    return {
        str(name): float(value)
        for name, value in stored.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    }


def _is_spelled(tokenizer: Tokenizer, piece_id: int) -> bool:
    """Whether a piece is unknown, or a part of a word that the vocabulary only spells: a byte, a single letter."""
    piece = tokenizer.piece(piece_id)
    is_letter = len(piece) == 1 and _LETTER.match(piece) is not None
    return is_letter or piece_id == tokenizer.unk_id or _BYTE.fullmatch(piece) is not None
