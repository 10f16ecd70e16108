from math import log
from pathlib import Path
from random import Random

import pytest

from regard.artifact import describe
from regard.decoding.options import DecodingOptions, Hypothesis
from regard.engines.engine import load_engine
from regard.text.language_profile import make_profile
from regard.translator.warning_signs import FACT, MAX_FLAGGED, WarningSigns, fit_thresholds, warning_facts

from .conftest import TEXT

SURE = Hypothesis((5, 6, 7), (-0.1,) * 4, -0.2)


def signs(model_path: Path, **thresholds: float) -> WarningSigns:
    described = describe(model_path)
    profiles = {"en": make_profile(TEXT[:1]), "de": make_profile(TEXT[1:2])}
    facts = {"languages": {"source": "en", "targets": ["de"]}, "profiles": profiles, FACT: thresholds}
    return WarningSigns(facts if thresholds else {}, described.tokenizers)


def warnings(signs: WarningSigns, text: str, hypothesis: Hypothesis, translation: str = "x") -> list[str]:
    return signs.warnings(text, signs._source.encode(text), translation, hypothesis, 1.0)


def test_improbable_translations_are_unsure_and_detached(model_path: Path) -> None:
    fitted = signs(model_path, unsure=1.0, detached=30.0)
    assert warnings(fitted, "the animal", SURE) == []
    assert warnings(fitted, "the animal", Hypothesis((5, 6), (-2.0, -2.0, -2.0), -1.0)) == ["unsure"]
    assert warnings(fitted, "the animal", Hypothesis((5,) * 50, (-0.9,) * 51, -1.0)) == ["detached", "loops"]


def test_score_gives_the_probability_where_the_engine_has_no_other(model_path: Path) -> None:
    measured = [
        signs(model_path, unsure=1.0).measure("the animal", [5, 6], hypothesis, 0.6)["unsure"]
        for hypothesis in (Hypothesis((5, 6), (-1.0, -2.0, -3.0), 0.0), Hypothesis((5, 6), (), -6.0 / (8 / 6) ** 0.6))
    ]
    assert measured == pytest.approx([2.0, 2.0])


def test_other_languages_scripts_and_capitals_are_noticed(model_path: Path) -> None:
    fitted = signs(model_path, **{"language": 3.0, "other-language": 0.0, "unknown": 0.5, "capitals": 0.5})
    assert warnings(fitted, TEXT[0], SURE) == []
    assert "language" in warnings(fitted, TEXT[1], SURE)
    assert {"unknown", "language"} <= set(warnings(fitted, "xkqz wvjy qqxz pfrk zzxk", SURE))
    assert "capitals" in warnings(fitted, TEXT[0].upper(), SURE)


def test_lengths_and_copies_are_noticed(model_path: Path) -> None:
    fitted = signs(model_path, length=log(3))
    assert warnings(fitted, TEXT[0], Hypothesis((5,), (-0.1,) * 2, 0.0)) == ["length"]
    assert warnings(fitted, TEXT[3], Hypothesis(tuple(range(5, 15)), (-0.1,) * 11, 0.0), TEXT[3]) == ["copied"]


def test_source_words_without_attention_are_left_out(model_path: Path) -> None:
    fitted = signs(model_path, **{"left-out": 0.4})
    ids = fitted._source.encode("one two")
    attended = [[1.0 / len(ids)] * len(ids)] * 2
    only_first = [[1.0] + [0.0] * (len(ids) - 1)] * 2
    assert fitted.measure("one two", ids, _attending(attended), 1.0)["left-out"] == 0.0
    assert fitted.measure("one two", ids, _attending(only_first), 1.0)["left-out"] == 0.5


def _attending(rows: list[list[float]]) -> Hypothesis:
    return Hypothesis((5, 6), (-0.1,) * 3, 0.0, tuple(map(tuple, rows)))


def test_model_without_thresholds_has_defaults(model_path: Path) -> None:
    assert warnings(signs(model_path), "the animal", Hypothesis((5, 6), (-9.0,) * 3, -9.0)) == ["unsure"]


def test_invalid_thresholds_of_a_stranger_are_ignored(model_path: Path) -> None:
    facts = {FACT: {"unsure": "1", "detached": float("nan"), "length": True, 7: 1}}
    strange = WarningSigns(facts, describe(model_path).tokenizers)
    assert warnings(strange, "the animal", Hypothesis((5, 6), (-9.0,) * 3, -9.0)) == []


def test_thresholds_together_flag_few_sentences() -> None:
    rng = Random(1)
    measured = [{name: rng.gauss(0, 1) for name in ("a", "b", "c")} for _ in range(1_000)]
    thresholds = fit_thresholds(measured, n_flagged=5)
    n_flagged = sum(any(values[name] > thresholds[name] for name in values) for values in measured)
    assert 0.7 * MAX_FLAGGED * 1_000 < n_flagged + 5 <= MAX_FLAGGED * 1_000
    assert fit_thresholds(measured[:50]) == {}


def test_facts_are_fitted_on_an_engine(model_path: Path) -> None:
    described = describe(model_path)
    engine = load_engine(described, "ctranslate2", "float32", 1)
    sources = [described.tokenizers.source.encode(TEXT[number % 4]) for number in range(120)]
    options = DecodingOptions(beam=1, extra_length=2)
    facts = warning_facts(engine, described.tokenizers, described.facts, sources, options)
    assert set(facts[FACT]) >= {"unsure", "detached", "left-out", "length"}
    assert warning_facts(engine, described.tokenizers, described.facts, sources[:5], options) == {}
