"""Which of the served languages a text is in."""

from typing import Any

import pytest

from regard.text.language_detection import Detector
from regard.text.languages import Languages

from .street_profiles import profiles

EN_DE = (Languages("en", ("de",)), {"profiles": profiles()})


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The animal did not cross the street.", "en"),
        ("Das Tier überquerte die Straße nicht.", "de"),
        ("Where is the hospital?", "en"),  # words that no model here has seen
        ("Wo ist das nächste Krankenhaus?", "de"),
        ("THE STREET IS TOO WIDE", "en"),
    ],
)
def test_letters_tell_languages_apart(text: str, language: str) -> None:
    best, *others = Detector([EN_DE]).detect(text)
    assert best.language == language
    assert 50 < best.confidence <= 100
    assert all(0 < one.confidence < best.confidence for one in others)


def test_a_longer_text_is_surer() -> None:
    detector = Detector([EN_DE])
    short, long = (detector.detect(text)[0].confidence for text in ("Hello", "Hello, where is the hospital?"))
    assert short < long


@pytest.mark.parametrize(
    ("text", "language"),
    [("동물은 길을 건너지 않았다", "ko"), ("Животное устало", "ru"), ("動物は疲れた", "ja"), ("动物太累了", "zh"),
     ("الحيوان متعب", "ar"), ("το ζώο", "el"), ("the animal", "en"), ("K-Pop: 안녕하세요 여러분", "ko")],
)  # fmt: skip
def test_scripts_decide_without_any_profile(text: str, language: str) -> None:
    models: list[tuple[Languages, dict[str, Any]]] = [
        (Languages("en", ("ko", "ru", "zh", "ja")), {}), (Languages("ar", ("el",)), {}),
    ]  # fmt: skip
    assert Detector(models).detect(text)[0].language == language


def test_without_letters_or_knowledge_it_says_so() -> None:
    assert Detector([EN_DE]).detect("123 …") == [("en", 0.0)]
    assert Detector([(Languages(), {})]).detect("the animal") == []
    assert Detector([(Languages("en", ("de",)), {})]).detect("the animal") == [("en", 50.0), ("de", 50.0)]
    assert Detector([EN_DE]).detect("안녕하세요") == [("en", 0.0)]


def test_only_those_asked_about_are_given() -> None:
    found = Detector([EN_DE, (Languages("de", ("en",)), {})]).detect("Das Tier ist müde.", among=["en"])
    assert [one.language for one in found] == ["en"]


def test_a_strangers_profile_does_no_harm() -> None:
    facts: dict[str, Any] = {"profiles": {"en": "e " * 9, "de": 5, "fr": "e 5"}}
    assert Detector([(Languages("en", ("de",)), facts)]).detect("the animal")[0] == ("en", 50.0)
