"""Which of the served languages a text is in: by its script where that decides, else by its letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp
from typing import Any, NamedTuple

from regard.text.language_profile import Profile, read_profiles, sample_ngrams
from regard.text.languages import Languages
from regard.text.scripts import scripts_of_language, scripts_of_text

_MAX_LOOKED_AT = 2_000  # characters of a text; more would not change the answer
_ABOUT_AS_MUCH = 0.2  # of the letters: two languages whose scripts fit about as well
_NO_PROFILE = -7.0  # log p of an n-gram of a language that nothing is known of: between right and wrong
_LONGEST = 3.0


class Detected(NamedTuple):
    """A language, and how sure it is from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Knows the languages of some models, sources first, and what their models say of them."""

    def __init__(self, models: Iterable[tuple[Languages, Mapping[str, Any]]]) -> None:
        models = list(models)
        sources = [languages.source for languages, _ in models if languages.source is not None]
        targets = [target for languages, _ in models for target in languages.targets]
        self.languages = tuple(dict.fromkeys([*sources, *targets]))
        self._profiles: dict[str, list[Profile]] = {code: [] for code in self.languages}
        for _, facts in models:
            for code, profile in read_profiles(facts).items():
                if code in self._profiles:
                    self._profiles[code].append(profile)
        self._scripts = {code: self._scripts_of(code) for code in self.languages}

    def detect(self, text: str, among: Sequence[str] | None = None) -> list[Detected]:
        """Best first, those alone that come into question; of a text without letters nothing is known."""
        text = text[:_MAX_LOOKED_AT]
        codes = [code for code in self.languages if among is None or code in among]
        if not codes:
            return []
        fits = self._fits(text, codes)
        best = max(fits.values())
        if best == 0:
            return [Detected(codes[0], 0.0)]
        left = [code for code in codes if fits[code] >= best - _ABOUT_AS_MUCH]
        shares = self._shares(text, left) if len(left) > 1 else {left[0]: 1.0}
        found = [Detected(code, round(100 * share * fits[code], 1)) for code, share in shares.items()]
        found.sort(key=lambda one: -one.confidence)  # stable: of equal ones, the source first
        return [one for number, one in enumerate(found) if number == 0 or one.confidence > 0]

    def _fits(self, text: str, codes: Sequence[str]) -> dict[str, float]:
        """The share of the letters that are of each language's scripts."""
        scripts = scripts_of_text(text)
        total = max(1, scripts.total())
        return {code: sum(scripts[script] for script in self._scripts[code]) / total for code in codes}

    def _shares(self, text: str, codes: Sequence[str]) -> dict[str, float]:
        """p(language | letters), every language as likely as another before."""
        grams = sample_ngrams(text)
        unknown = _NO_PROFILE * grams.total() / _LONGEST
        known = {code: [one.log_likelihood(grams) for one in self._profiles[code]] for code in codes}
        scores = {code: max(likelihoods, default=unknown) for code, likelihoods in known.items()}
        top = max(scores.values())
        weights = {code: exp(score - top) for code, score in scores.items()}
        total = sum(weights.values())
        return {code: weight / total for code, weight in weights.items()}

    def _scripts_of(self, code: str) -> frozenset[str]:
        """Those of the language, and those that its own training text was written in."""
        letters = "".join(gram for profile in self._profiles[code] for gram in profile.log_probs)
        seen = scripts_of_text(letters)
        return scripts_of_language(code) | {script for script in seen if 10 * seen[script] > seen.total()}
