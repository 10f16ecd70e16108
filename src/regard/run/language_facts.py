"""Which languages a run is between, and what they look like: facts that its model carries with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from regard.artifact import describe
from regard.run.prepare import Corpora
from regard.run.recipe import Recipe
from regard.text.language_profile import make_profile
from regard.text.languages import Languages, find_languages

_MAX_PAIRS = 4_000  # of all corpora together; letter frequencies settle long before


@dataclass(frozen=True)
class LanguageFacts:
    """The languages, and a profile of each one whose text was seen."""

    languages: Languages
    profiles: dict[str, str]


def language_facts(corpora: Corpora, recipe: Recipe) -> LanguageFacts:
    """From the recipe, the names of the files, and the first lines of the training text: always the same for these."""
    text = recipe.text
    languages = find_languages(corpora.train, text.source_language, text.target_language)
    if recipe.start_from is not None:  # what the new text does not say, the old model may know
        known = Languages.from_facts(describe(recipe.start_from).facts)
        languages = Languages(languages.source or known.source, languages.targets or known.targets)
    made = {code: make_profile(_lines(corpora, languages, code)) for code in languages.all}
    return LanguageFacts(languages, {code: profile for code, profile in made.items() if profile is not None})


def _lines(corpora: Corpora, languages: Languages, code: str) -> Iterator[str]:
    """Some lines in that language, of every corpus that has it."""
    n_pairs = 1 + _MAX_PAIRS // len(corpora.train)
    for corpus in corpora.train:
        target = corpus.tag or languages.targets[0] if languages.targets else None
        for one, two in islice(corpus.pairs(on_bad=corpora.on_bad), n_pairs):
            if code == languages.source:
                yield one
            if code == target:
                yield two
