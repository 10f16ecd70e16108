"""Which script a text is written in, and which scripts a language uses: what can be known without statistics."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache

# A letter's Unicode name begins with its script. Names that begin otherwise are of no use here.
_FIRST_WORDS = {
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

# Everything that is not here is taken to be written in Latin letters.
_USED_BY = {
    "Arabic": "ar ckb fa ks ps sd ug ur", "Armenian": "hy", "Bengali": "as bn", "Burmese": "my",
    "Cyrillic": "ab av ba be bg ce cv kk kv ky mk mn os ru rus sah sr tg tt uk ukr",
    "Devanagari": "bho hi mai mr ne sa", "Ethiopic": "am ti", "Georgian": "ka", "Greek": "el", "Gujarati": "gu",
    "Gurmukhi": "pa", "Han": "cmn ja jpn yue zh zho", "Hangul": "ko kor", "Hebrew": "he yi", "Kana": "ja jpn",
    "Kannada": "kn", "Khmer": "km", "Lao": "lo", "Latin": "kab sr", "Malayalam": "ml", "Oriya": "or", "Sinhala": "si",
    "Syllabics": "cr iu oj", "Tamil": "ta", "Telugu": "te", "Thaana": "dv", "Thai": "th", "Tibetan": "bo dz",
    "Tifinagh": "kab", "Yi": "ii",
}  # fmt: skip
_BY_TAG = {
    "Cyrl": "Cyrillic", "Latn": "Latin", "Arab": "Arabic", "Hans": "Han", "Hant": "Han", "Deva": "Devanagari",
}  # fmt: skip


def scripts_of_language(code: str) -> frozenset[str]:
    """The scripts that a language is written in; a tag says so itself, as in `sr-Latn`."""
    primary, *rest = code.replace("_", "-").split("-")
    if tagged := [_BY_TAG[one] for one in rest if one in _BY_TAG]:
        return frozenset(tagged)
    return frozenset(script for script, codes in _USED_BY.items() if primary in codes.split()) or frozenset({"Latin"})


def scripts_of_text(text: str) -> Counter[str]:
    """How many letters of each script there are."""
    return Counter(script for letter in text if (script := _script(letter)) is not None)


@lru_cache(maxsize=4096)
def _script(letter: str) -> str | None:
    if not letter.isalpha():
        return None
    return _FIRST_WORDS.get(unicodedata.name(letter, "").split(" ")[0].split("-")[0])
