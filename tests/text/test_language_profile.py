"""Letters tell languages apart: short profiles, scripts, and a stranger's profile that is nonsense."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.language_profile import MAX_NGRAMS, Profile, make_profile, read_profiles, sample_ngrams
from regard.text.scripts import scripts_of_language, scripts_of_text

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


def profile(lines: list[str]) -> Profile:
    made = make_profile(lines)
    assert made is not None
    read = Profile.of_text(made)
    assert read is not None
    return read


@pytest.mark.parametrize(
    ("text", "is_english"),
    [
        ("where is the nearest hospital", True),
        ("this was another thing", True),
        ("wo ist das nächste Krankenhaus", False),
        ("ich habe schon wieder nichts verstanden", False),
    ],
)
def test_words_that_were_never_seen_are_told_apart(text: str, is_english: bool) -> None:
    grams = sample_ngrams(text)
    assert (profile(ENGLISH).log_likelihood(grams) > profile(GERMAN).log_likelihood(grams)) is is_english


def test_a_profile_is_small_and_always_the_same() -> None:
    made = make_profile((ENGLISH + GERMAN) * 1000)
    assert made is not None and made == make_profile((ENGLISH + GERMAN) * 1000)
    assert len(made.split()) == 2 * MAX_NGRAMS
    assert len(made) < 5_000
    assert make_profile(["", "123 – !"]) is None


@given(st.lists(st.text(max_size=50), max_size=5))
def test_whatever_the_text_its_profile_can_be_read_again(lines: list[str]) -> None:
    made = make_profile(lines)
    if made is not None:
        read = Profile.of_text(made)
        assert read is not None
        assert all(value <= 0 for value in read.log_probs.values())


@pytest.mark.parametrize(
    "profiles",
    [
        None, [], {"en": None}, {"en": ""}, {"en": "e"}, {"en": "e x"}, {"en": "e -5"}, {"en": "e 0"},
        {"en": "e 99999999"}, {"en": "long 5"}, {"en": "e 1e3"}, {"en": "e ٣"}, {"en": "e 5 " * (MAX_NGRAMS + 1)},
        {"../en": "e 5"}, {f"a{chr(97 + i // 26)}{chr(97 + i % 26)}": "e 5" for i in range(101)},
    ],
)  # fmt: skip
def test_a_strangers_nonsense_is_left_out(profiles: Any) -> None:
    assert read_profiles({"profiles": profiles}) == {}


def test_scripts() -> None:
    assert scripts_of_text("Hello, Мир! 你好 안녕 カタ ひら 123").most_common() == [
        ("Latin", 5), ("Kana", 4), ("Cyrillic", 3), ("Han", 2), ("Hangul", 2),
    ]  # fmt: skip
    assert scripts_of_language("ja") == {"Han", "Kana"}
    assert scripts_of_language("de") == scripts_of_language("qqq") == {"Latin"}
    assert scripts_of_language("sr-Latn") == {"Latin"}
    assert scripts_of_language("zh-Hant") == {"Han"}
