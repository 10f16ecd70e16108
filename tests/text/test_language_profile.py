"""Language profiles: n-grams tell languages apart, profiles are small, and invalid ones are ignored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.language_profile import MAX_NGRAMS, LanguageProfile, count_ngrams, make_profile, read_profiles

ENGLISH = [
    "The animal did not cross the street because it was too tired.",
    "Yesterday the old man saw a small house near the river, and the children were playing with their dog.",
    "She thought that nothing would ever change, although everyone had said something else.",
]
GERMAN = [
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "Gestern sah der alte Mann ein kleines Haus am Fluss, und die Kinder spielten mit ihrem Hund.",
    "Sie dachte, dass sich nie etwas ändern würde, obwohl alle etwas anderes gesagt hatten.",
]


def profile(lines: list[str]) -> LanguageProfile:
    text = make_profile(lines)
    assert text is not None
    parsed = LanguageProfile.parse(text)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("text", "is_english"),
    [
        ("where is the nearest hospital", True),
        ("this was another thing", True),
        ("wo ist das nächste Krankenhaus", False),
        ("ich habe schon wieder nichts verstanden", False),
    ],
)
def test_profiles_tell_languages_apart_by_unseen_words(text: str, is_english: bool) -> None:
    ngrams = count_ngrams(text)
    assert (profile(ENGLISH).log_likelihood(ngrams) > profile(GERMAN).log_likelihood(ngrams)) is is_english


def test_a_profile_is_small_and_deterministic() -> None:
    text = make_profile((ENGLISH + GERMAN) * 1000)
    assert text is not None and text == make_profile((ENGLISH + GERMAN) * 1000)
    assert len(text.split()) == 2 * MAX_NGRAMS
    assert len(text) < 5_000
    assert make_profile(["", "123 – !"]) is None


@given(st.lists(st.text(max_size=50), max_size=5))
def test_every_profile_can_be_parsed_again(lines: list[str]) -> None:
    text = make_profile(lines)
    if text is not None:
        parsed = LanguageProfile.parse(text)
        assert parsed is not None
        assert all(value <= 0 for value in parsed.log_probs.values())


@pytest.mark.parametrize(
    "profiles",
    [
        None, [], {"en": None}, {"en": ""}, {"en": "e"}, {"en": "e x"}, {"en": "e -5"}, {"en": "e 0"},
        {"en": "e 99999999"}, {"en": "long 5"}, {"en": "e 1e3"}, {"en": "e ٣"}, {"en": "e 5 " * (MAX_NGRAMS + 1)},
        {"../en": "e 5"}, {f"a{chr(97 + i // 26)}{chr(97 + i % 26)}": "e 5" for i in range(101)},
    ],
)  # fmt: skip
def test_invalid_profiles_are_left_out(profiles: Any) -> None:
    assert read_profiles({"profiles": profiles}) == {}
