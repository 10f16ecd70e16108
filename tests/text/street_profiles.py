"""Language profiles of English and German, made from the street corpus."""

from functools import cache

from regard.demo.street.corpus import generate
from regard.text.language_profile import make_profile


@cache
def profiles() -> dict[str, str]:
    pairs = generate(300, 1)
    texts = {"en": make_profile(pair.source for pair in pairs), "de": make_profile(pair.target for pair in pairs)}
    return {code: text for code, text in texts.items() if text is not None}
