"""Language profiles: the most frequent letter n-grams of a language, small enough to store in a model.

A profile is one line of text, each n-gram with its count per 100,000: `e 9120 _t 3120 _th 2904 …`; `_` marks the edge
of a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import Any

from regard.text.languages import is_language_code

MAX_NGRAMS = 400
MAX_NGRAM_LENGTH = 3
_SCALE = 100_000
_MIN_LOG_PROB = log(0.3 / _SCALE)  # for an n-gram that is not in the profile
_MAX_TRAINING_CHARACTERS = 2_000_000
_MAX_PROFILES = 100  # per model; the model may come from an untrusted source
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class LanguageProfile:
    """log p of each frequent n-gram of a language."""

    log_probs: Mapping[str, float]

    @classmethod
    def parse(cls, text: str) -> LanguageProfile | None:
        """Parse the output of `make_profile`; None if the text is invalid or too long."""
        parts = text.split()
        if not parts or len(parts) % 2 or len(parts) > 2 * MAX_NGRAMS:
            return None
        ngrams, counts = parts[::2], parts[1::2]
        if not all(len(ngram) <= MAX_NGRAM_LENGTH for ngram in ngrams):
            return None
        if not all(re.fullmatch("[0-9]{1,6}", count) and int(count) for count in counts):
            return None
        pairs = zip(ngrams, counts, strict=True)
        return cls({ngram: log(min(1.0, int(count) / _SCALE)) for ngram, count in pairs})

    @cached_property
    def surprise(self) -> float:
        """-log p of a letter, on average over text of the language."""
        known = {ngram: max(log_prob, _MIN_LOG_PROB) for ngram, log_prob in self.log_probs.items()}
        rest = max(0.0, 1.0 - sum(map(exp, known.values())))
        return -sum(exp(log_prob) * log_prob for log_prob in known.values()) - rest * _MIN_LOG_PROB

    def log_likelihood(self, ngrams: Mapping[str, int]) -> float:
        """log p(ngrams), divided by the number of n-grams that each letter is part of: they are not independent."""
        total = sum(
            count * max(self.log_probs.get(ngram, _MIN_LOG_PROB), _MIN_LOG_PROB) for ngram, count in ngrams.items()
        )
        return total / MAX_NGRAM_LENGTH

    def word_log_likelihood(self, ngrams: Sequence[str]) -> float:
        """The same for the few n-grams of a word, which is faster without counting them."""
        log_prob = self.log_probs.get
        return sum([log_prob(ngram, _MIN_LOG_PROB) for ngram in ngrams]) / MAX_NGRAM_LENGTH


def make_profile(lines: Iterable[str]) -> str | None:
    """The profile of a language from lines of its text, deterministic; None if there are no letters."""
    counts: Counter[str] = Counter()
    n_remaining = _MAX_TRAINING_CHARACTERS
    for line in lines:
        counts.update(count_ngrams(line[:n_remaining]))
        n_remaining -= len(line)
        if n_remaining <= 0:
            break
    total = counts.total()
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_NGRAMS]
    scaled = [(ngram, round(_SCALE * count / total)) for ngram, count in frequent]
    return " ".join(f"{ngram} {count}" for ngram, count in scaled if count) or None


def words_with_ngrams(text: str) -> list[str]:
    """The words of a text, in lower case; its n-grams are those of its words."""
    return _WORD.findall(text.lower())


def count_ngrams(text: str) -> Counter[str]:
    """Sequences of one to three letters, in lower case; the edges of words count as letters."""
    counts: Counter[str] = Counter()
    for word in words_with_ngrams(text):
        counts.update(word_ngrams(word))
    return counts


def word_ngrams(word: str) -> list[str]:
    """The n-grams of a word in lower case."""
    edged = f"_{word}_"
    ngrams = list(word)
    for size in range(2, MAX_NGRAM_LENGTH + 1):
        ngrams += [edged[start : start + size] for start in range(len(edged) - size + 1)]
    return ngrams


def read_profiles(facts: Mapping[str, Any]) -> dict[str, LanguageProfile]:
    """Language → profile from the facts in a model, which may be untrusted; invalid profiles are left out."""
    stored = facts.get("profiles")
    if not isinstance(stored, dict) or len(stored) > _MAX_PROFILES:
        return {}
    texts = {code: text for code, text in stored.items() if is_language_code(code) and isinstance(text, str)}
    profiles = {code: LanguageProfile.parse(text) for code, text in texts.items()}
    return {code: profile for code, profile in profiles.items() if profile is not None}
