"""Language profiles of English and German, made from the street corpus."""

from functools import cache

from regard.demo.street.corpus import generate
from regard.text.language_profile import make_profile


@cache
def profiles() -> dict[str, str]:
    pairs = generate(300, 1)
    made = {"en": make_profile(one.source for one in pairs), "de": make_profile(one.target for one in pairs)}
    return {code: profile for code, profile in made.items() if profile is not None}
