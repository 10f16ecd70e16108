"""Language detection by script and by letter n-grams."""

from typing import Any

import pytest

from regard.text.language_detection import Detector, scripts_of_language, scripts_of_text
from regard.text.languages import Languages

from .street_profiles import profiles

EN_DE = (Languages("en", ("de",)), {"profiles": profiles()})


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The animal did not cross the street.", "en"),
        ("Das Tier überquerte die Straße nicht.", "de"),
        ("Where is the hospital?", "en"),  # words that are not in the training text
        ("Wo ist das nächste Krankenhaus?", "de"),
        ("THE STREET IS TOO WIDE", "en"),
    ],
)
def test_ngrams_tell_languages_apart(text: str, language: str) -> None:
    best, *others = Detector([EN_DE]).detect(text)
    assert best.language == language
    assert 50 < best.confidence <= 100
    assert all(0 < other.confidence < best.confidence for other in others)


def test_confidence_grows_with_the_length_of_the_text() -> None:
    detector = Detector([EN_DE])
    short, long = (detector.detect(text)[0].confidence for text in ("Hello", "Hello, where is the hospital?"))
    assert short < long


@pytest.mark.parametrize(
    ("text", "language"),
    [("동물은 길을 건너지 않았다", "ko"), ("Животное устало", "ru"), ("動物は疲れた", "ja"), ("动物太累了", "zh"),
     ("الحيوان متعب", "ar"), ("το ζώο", "el"), ("the animal", "en"), ("K-Pop: 안녕하세요 여러분", "ko")],
)  # fmt: skip
def test_scripts_decide_without_profiles(text: str, language: str) -> None:
    models: list[tuple[Languages, dict[str, Any]]] = [
        (Languages("en", ("ko", "ru", "zh", "ja")), {}), (Languages("ar", ("el",)), {}),
    ]  # fmt: skip
    assert Detector(models).detect(text)[0].language == language


def test_confidence_is_low_without_letters_or_profiles() -> None:
    assert Detector([EN_DE]).detect("123 …") == [("en", 0.0)]
    assert Detector([(Languages(), {})]).detect("the animal") == []
    assert Detector([(Languages("en", ("de",)), {})]).detect("the animal") == [("en", 50.0), ("de", 50.0)]
    assert Detector([EN_DE]).detect("안녕하세요") == [("en", 0.0)]


def test_detection_can_be_limited_to_some_languages() -> None:
    detected = Detector([EN_DE, (Languages("de", ("en",)), {})]).detect("Das Tier ist müde.", among=["en"])
    assert [language for language, _ in detected] == ["en"]


def test_text_in_none_of_the_languages_is_unknown_if_it_is_long_enough_to_tell() -> None:
    detector = Detector([EN_DE])
    assert detector.is_unknown("Bonjour, comment allez-vous ? Je voudrais une tasse de café.")
    assert detector.is_unknown("안녕하세요") and detector.is_unknown("Добрый день")
    for text in ("Bonjour", "", "123", "Where is the nearest hospital, please?", "Das Wetter ist heute sehr schön."):
        assert not detector.is_unknown(text)
    without_profiles = Detector([(Languages("en", ("de",)), {})])
    assert not without_profiles.is_unknown("Bonjour, comment allez-vous ? Je voudrais une tasse de café.")


def test_invalid_profiles_are_ignored() -> None:
    facts: dict[str, Any] = {"profiles": {"en": "e " * 9, "de": 5, "fr": "e 5"}}
    assert Detector([(Languages("en", ("de",)), facts)]).detect("the animal")[0] == ("en", 50.0)


def test_scripts_of_texts_and_languages() -> None:
    assert scripts_of_text("Hello, Мир! 你好 안녕 カタ ひら 123").most_common() == [
        ("Latin", 5), ("Kana", 4), ("Cyrillic", 3), ("Han", 2), ("Hangul", 2),
    ]  # fmt: skip
    assert scripts_of_language("ja") == {"Han", "Kana"}
    assert scripts_of_language("de") == scripts_of_language("qqq") == {"Latin"}
    assert scripts_of_language("sr-Latn") == {"Latin"}
    assert scripts_of_language("zh-Hant") == {"Han"}
