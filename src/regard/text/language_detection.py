"""Detects which of the served languages a text is in: by script, and where several fit, by letter n-grams."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import exp
from typing import Any, NamedTuple

from regard.text.language_profile import MAX_NGRAM_LENGTH, LanguageProfile, count_ngrams, read_profiles
from regard.text.languages import Languages

_MAX_CHARACTERS = 2_000  # of a text; more would not change the result
_SCRIPT_TOLERANCE = 0.2  # languages whose scripts cover this much less of the text than the best are still candidates
_NO_PROFILE_LOG_PROB = -7.0  # per n-gram, for a language without a profile: between a right and a wrong language
# Below this, per n-gram, a text is in none of the languages: in the right one it is -7.2 at worst for text of another
# kind, and in a wrong one -7.6; a short text can be either
_UNKNOWN_LOG_PROB = -7.5
_MIN_NGRAMS = 40  # about three words
_MIN_SCRIPT_SHARE = 0.1  # of the letters in a profile, for a script to count as one of the language's own

# The Unicode name of a letter begins with its script; first word → script. Letters of other scripts are ignored.
_SCRIPT_NAMES = {
    "CJK": "Han", "HIRAGANA": "Kana", "KATAKANA": "Kana", "HALFWIDTH": "Kana", "HANGUL": "Hangul", "LATIN": "Latin",
    "FULLWIDTH": "Latin", "MYANMAR": "Burmese", "CANADIAN": "Syllabics",
} | {
    name.upper(): name
    for name in (
        "Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati",
        "Gurmukhi", "Hebrew", "Kannada", "Khmer", "Lao", "Malayalam", "Oriya", "Sinhala", "Tamil", "Telugu", "Thaana",
        "Thai", "Tibetan", "Tifinagh", "Yi",
    )
}  # fmt: skip

# script → the languages written in it; every other language is assumed to use the Latin script
_SCRIPT_LANGUAGES = {
    "Arabic": "ar ckb fa ks ps sd ug ur", "Armenian": "hy", "Bengali": "as bn", "Burmese": "my",
    "Cyrillic": "ab av ba be bg ce cv kk kv ky mk mn os ru rus sah sr tg tt uk ukr",
    "Devanagari": "bho hi mai mr ne sa", "Ethiopic": "am ti", "Georgian": "ka", "Greek": "el", "Gujarati": "gu",
    "Gurmukhi": "pa", "Han": "cmn ja jpn yue zh zho", "Hangul": "ko kor", "Hebrew": "he yi", "Kana": "ja jpn",
    "Kannada": "kn", "Khmer": "km", "Lao": "lo", "Latin": "kab sr", "Malayalam": "ml", "Oriya": "or", "Sinhala": "si",
    "Syllabics": "cr iu oj", "Tamil": "ta", "Telugu": "te", "Thaana": "dv", "Thai": "th", "Tibetan": "bo dz",
    "Tifinagh": "kab", "Yi": "ii",
}  # fmt: skip
_SCRIPT_SUBTAGS = {  # as in `sr-Latn`
    "Cyrl": "Cyrillic", "Latn": "Latin", "Arab": "Arabic", "Hans": "Han", "Hant": "Han", "Deva": "Devanagari",
}  # fmt: skip


class Detected(NamedTuple):
    """A language and the confidence in it, from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Detects the languages of some models, using the profiles stored in them. Source languages come first."""

    def __init__(self, models: Iterable[tuple[Languages, Mapping[str, Any]]]) -> None:
        models = list(models)
        sources = [languages.source for languages, _ in models if languages.source is not None]
        targets = [target for languages, _ in models for target in languages.targets]
        self.languages = tuple(dict.fromkeys([*sources, *targets]))
        self._profiles: dict[str, list[LanguageProfile]] = {code: [] for code in self.languages}
        for _, facts in models:
            for code, profile in read_profiles(facts).items():
                if code in self._profiles:
                    self._profiles[code].append(profile)
        self._scripts = {code: self._scripts_of(code) for code in self.languages}

    def detect(self, text: str, among: Sequence[str] | None = None) -> list[Detected]:
        """The plausible languages, best first. A text without letters gives the first language with confidence 0."""
        text = text[:_MAX_CHARACTERS]
        codes = [code for code in self.languages if among is None or code in among]
        if not codes:
            return []
        coverage = self._script_coverage(text, codes)
        best = max(coverage.values())
        if best == 0:
            return [Detected(codes[0], 0.0)]
        candidates = [code for code in codes if coverage[code] >= best - _SCRIPT_TOLERANCE]
        probabilities = self._probabilities(text, candidates) if len(candidates) > 1 else {candidates[0]: 1.0}
        detected = [Detected(code, round(100 * p * coverage[code], 1)) for code, p in probabilities.items()]
        detected.sort(key=lambda entry: -entry.confidence)  # stable: of equal ones, the source first
        return [entry for rank, entry in enumerate(detected) if rank == 0 or entry.confidence > 0]

    def is_unknown(self, text: str) -> bool:
        """Whether a text is in none of the languages, as far as their profiles can tell."""
        text = text[:_MAX_CHARACTERS]
        coverage = self._script_coverage(text, self.languages)
        candidates = [code for code, share in coverage.items() if share > 0]
        if not candidates:
            return bool(scripts_of_text(text))
        ngrams = count_ngrams(text)
        profiles = [profile for code in candidates for profile in self._profiles[code]]
        if ngrams.total() < _MIN_NGRAMS or not all(self._profiles[code] for code in candidates):
            return False
        limit = _UNKNOWN_LOG_PROB * ngrams.total() / MAX_NGRAM_LENGTH
        return max(profile.log_likelihood(ngrams) for profile in profiles) < limit

    def _script_coverage(self, text: str, codes: Sequence[str]) -> dict[str, float]:
        """For each language, the share of letters in its scripts."""
        scripts = scripts_of_text(text)
        total = max(1, scripts.total())
        return {code: sum(scripts[script] for script in self._scripts[code]) / total for code in codes}

    def _probabilities(self, text: str, codes: Sequence[str]) -> dict[str, float]:
        """p(language | n-grams) under a uniform prior."""
        ngrams = count_ngrams(text)
        without_profile = _NO_PROFILE_LOG_PROB * ngrams.total() / MAX_NGRAM_LENGTH
        likelihoods = {code: [profile.log_likelihood(ngrams) for profile in self._profiles[code]] for code in codes}
        scores = {code: max(values, default=without_profile) for code, values in likelihoods.items()}
        top = max(scores.values())
        weights = {code: exp(score - top) for code, score in scores.items()}
        total = sum(weights.values())
        return {code: weight / total for code, weight in weights.items()}

    def _scripts_of(self, code: str) -> frozenset[str]:
        """The scripts of the language, and those of the text that its profiles were made from."""
        letters = "".join(ngram for profile in self._profiles[code] for ngram in profile.log_probs)
        counts = scripts_of_text(letters)
        common = {script for script, count in counts.items() if count > _MIN_SCRIPT_SHARE * counts.total()}
        return scripts_of_language(code) | common


def scripts_of_language(code: str) -> frozenset[str]:
    """The scripts that a language is written in. A script subtag decides, as in `sr-Latn`."""
    primary, *subtags = code.replace("_", "-").split("-")
    if tagged := [_SCRIPT_SUBTAGS[subtag] for subtag in subtags if subtag in _SCRIPT_SUBTAGS]:
        return frozenset(tagged)
    scripts = frozenset(script for script, codes in _SCRIPT_LANGUAGES.items() if primary in codes.split())
    return scripts or frozenset({"Latin"})


def scripts_of_text(text: str) -> Counter[str]:
    """The number of letters in each script."""
    return Counter(script for letter in text if (script := _script(letter)) is not None)


@lru_cache(maxsize=4096)
def _script(letter: str) -> str | None:
    if not letter.isalpha():
        return None
    return _SCRIPT_NAMES.get(unicodedata.name(letter, "").split(" ")[0].split("-")[0])
