"""What a language looks like: the frequencies of its commonest letter sequences, small enough to travel with a model.

A profile is one line of text, n-grams and how often each comes in a hundred thousand: `e 9120 _t 3120 _th 2904 …`;
`_` is the edge of a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any

from regard.text.languages import is_language_code

MAX_NGRAMS = 400
LONGEST = 3
_A_HUNDRED_THOUSAND = 100_000
_RARER = log(0.3 / _A_HUNDRED_THOUSAND)  # what an n-gram counts that is in no profile
_MAX_CHARACTERS = 2_000_000  # of the text that a profile is made from
_MAX_ASKED = 2_000  # of a text whose language is asked for: more would not change the answer
_MAX_PROFILES = 100  # of a model from a stranger
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Profile:
    """log p of each n-gram that is common in a language."""

    log_probs: Mapping[str, float]

    @classmethod
    def of_text(cls, text: str) -> Profile | None:
        """Read back what `make_profile` wrote; None when it is anything else, or too much."""
        parts = text.split()
        if not parts or len(parts) % 2 or len(parts) > 2 * MAX_NGRAMS:
            return None
        grams, counts = parts[::2], parts[1::2]
        if not all(len(gram) <= LONGEST for gram in grams):
            return None
        if not all(re.fullmatch("[0-9]{1,6}", count) and int(count) for count in counts):
            return None
        pairs = zip(grams, counts, strict=True)
        return cls({gram: log(min(1.0, int(count) / _A_HUNDRED_THOUSAND)) for gram, count in pairs})

    def log_likelihood(self, grams: Mapping[str, int]) -> float:
        """log p(grams); each letter is in several n-grams, which must not count as if they were independent."""
        total = sum(count * max(self.log_probs.get(gram, _RARER), _RARER) for gram, count in grams.items())
        return total / LONGEST


def make_profile(lines: Iterable[str]) -> str | None:
    """The profile of a language from lines of its text, always the same for the same lines; None without letters."""
    counts: Counter[str] = Counter()
    left = _MAX_CHARACTERS
    for line in lines:
        counts.update(count_ngrams(line[:left]))
        left -= len(line)
        if left <= 0:
            break
    total = counts.total()
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_NGRAMS]
    shares = [(gram, round(_A_HUNDRED_THOUSAND * count / total)) for gram, count in common]
    return " ".join(f"{gram} {share}" for gram, share in shares if share) or None


def count_ngrams(text: str) -> Counter[str]:
    """Sequences of one to three letters, lower-case; the edges of words count as letters."""
    counts: Counter[str] = Counter()
    for word in _WORD.findall(text.lower()):
        counts.update(word)
        edged = f"_{word}_"
        for size in range(2, LONGEST + 1):
            counts.update(edged[place : place + size] for place in range(len(edged) - size + 1))
    return counts


def sample_ngrams(text: str) -> Counter[str]:
    """The n-grams of a text whose language is asked for."""
    return count_ngrams(text[:_MAX_ASKED])


def read_profiles(facts: Mapping[str, Any]) -> dict[str, Profile]:
    """Language → profile from a model's facts, which anybody may have written: what makes no sense is left out."""
    found = facts.get("profiles")
    if not isinstance(found, dict) or len(found) > _MAX_PROFILES:
        return {}
    texts = {code: text for code, text in found.items() if is_language_code(code) and isinstance(text, str)}
    profiles = {code: Profile.of_text(text) for code, text in texts.items()}
    return {code: profile for code, profile in profiles.items() if profile is not None}
