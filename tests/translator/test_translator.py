import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.artifact import describe
from regard.decoding.options import DecodingOptions, Sampling
from regard.engines.engine import EngineName, load_engine
from regard.errors import ArtifactError, DataError, UserError
from regard.serve import load_models
from regard.text import Tokenizer, TokenizerPair, train_tokenizer
from regard.translator import Translator

from .conftest import write_model

GREEDY = DecodingOptions(beam=1, extra_length=4)
LINES = ["the animal was too tired", "", "weil es zu müde war", "   ", "one two three", "동물은 너무 피곤해서"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.text(max_size=40), max_size=6))
def test_any_lines_in_the_same_number_out_and_blank_stays_blank(translator: Translator, lines: list[str]) -> None:
    done = translator.translate(lines, options=GREEDY)
    assert len(done) == len(lines)
    for line, translation in zip(lines, done, strict=True):
        assert "\n" not in translation.text
        if not line.strip():
            assert translation.text == "" and translation.n_parts == 0


def test_the_model_is_not_called_for_blank_lines(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = translator.engine.begin

    def count(sources, *rest, **more):  # type: ignore[no-untyped-def]
        asked.extend(map(len, sources))
        return real(sources, *rest, **more)

    monkeypatch.setattr(translator.engine, "begin", count)
    translator.translate(["", " \u2003\u00a0 ", "\t", "one two"], options=GREEDY)
    assert len(asked) == 1


def test_alone_equals_in_a_batch(translator: Translator) -> None:
    together = translator.translate(LINES)
    alone = [translator.translate([line])[0] for line in LINES]
    assert [one.text for one in together] == [one.text for one in alone]


def test_both_engines_say_the_same(model_path: Path) -> None:
    fast, reference = (
        Translator.load(model_path, engine=name, precision="float32", threads=1) for name in ("ctranslate2", "torch")
    )
    for options in (DecodingOptions(), DecodingOptions(beam=1)):
        said = [[one.text for one in each.translate(LINES, options=options)] for each in (fast, reference)]
        assert said[0] == said[1]


def test_details_are_probabilities_and_partners(translator: Translator) -> None:
    (found,) = translator.translate(["the animal was too tired"], options=GREEDY, details=True)
    assert found.tokens and all(0 < token.probability <= 1 for token in found.tokens)
    n_source, n_target = 5, len(found.text.split())
    assert found.alignment
    assert all(0 <= source < n_source and 0 <= target < n_target for source, target in found.alignment)


def test_alternatives_are_ranked(translator: Translator) -> None:
    (found,) = translator.translate(["the animal was too tired"], options=DecodingOptions(beam=4, n_best=4))
    scores = [found.score, *(one.score for one in found.alternatives)]
    assert len(scores) == 4 and scores == sorted(scores, reverse=True)


def test_a_translation_begins_as_it_is_told(translator: Translator) -> None:
    (found,) = translator.translate(["the animal was too tired"], prefixes=["das Tier"], options=GREEDY)
    assert found.text.startswith("das Tier")


def test_sampling_is_a_function_of_its_seed(translator: Translator) -> None:
    def draw(seed: int) -> list[str]:
        options = DecodingOptions(beam=1, sampling=Sampling(seed=seed), extra_length=4)
        return [one.text for one in translator.translate(LINES, options=options)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_a_long_line_is_split_at_its_sentences_and_joined(translator: Translator) -> None:
    line = "the animal was too tired . it did not cross the street . " * 6
    (found,) = translator.translate([line], options=GREEDY)
    assert found.n_parts > 1
    parts = translator.translate(["the animal was too tired ."], options=GREEDY)
    assert found.text.startswith(parts[0].text)


def test_a_megabyte_on_one_line_comes_out_as_one_line(translator: Translator) -> None:
    line = "x" * 2_000 + " one two three four five six seven eight nine ten ." * 20_500
    assert len(line) > 1_000_000
    (found,) = translator.translate([line], options=DecodingOptions(beam=1, extra_length=0))
    assert found.n_parts > 20_000 and "\n" not in found.text


def test_scoring_its_own_output_gives_its_probability(translator: Translator) -> None:
    sources = [translator.described.tokenizers.source.encode(line) for line in LINES if line.strip()]
    found = [some[0] for some in translator.engine.translate(sources, GREEDY, with_attention=True)]
    scored = translator.engine.score(sources, [one.ids for one in found])
    for one, forced in zip(found, scored, strict=True):
        n_known = min(len(one.log_probs), len(forced.log_probs))  # cut at the limit, it has no end symbol
        assert n_known >= len(one.ids) > 0
        assert forced.log_probs[:n_known] == pytest.approx(one.log_probs[:n_known], abs=1e-3)


def test_threads_can_share_a_translator(translator: Translator) -> None:
    expected = [one.text for one in translator.translate(LINES, options=GREEDY)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [one.text for one in translator.translate(LINES, options=GREEDY)], range(8)))
    assert all(one == expected for one in found)


def test_an_unknown_language_is_refused_in_words(translator: Translator) -> None:
    with pytest.raises(UserError, match="no target language"):
        translator.translate(["one"], target="xx")


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="there is no model"):
        Translator.load(tmp_path)


def test_the_fast_engine_loads_no_torch(model_path: Path) -> None:
    code = (
        "import sys; from regard.translator import Translator;"
        f"t = Translator.load({str(model_path)!r}); t.translate(['one two'], details=True);"
        "print(t.engine.name, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["ctranslate2", "False"]


@pytest.mark.parametrize("engine", ["ctranslate2", "torch"])
def test_a_line_longer_than_the_learned_positions_is_split(tmp_path: Path, engine: EngineName) -> None:
    write_model(tmp_path / "model", max_length=256, positions="learned", max_positions=16)
    with Translator.load(tmp_path / "model", engine=engine, precision="float32", threads=1) as translator:
        (found,) = translator.translate(["the animal was too tired " * 8], options=GREEDY)
    assert found.n_parts > 1


def test_a_model_with_several_languages_wants_to_know_which(tmp_path: Path) -> None:
    with Translator.load(write_model(tmp_path / "model", tags=("de", "ko")), threads=1) as translator:
        with pytest.raises(UserError, match="this model translates into de, ko; hint: say which: --target de"):
            translator.translate(["one two"])
        with pytest.raises(UserError, match="this model translates into de, ko"):
            translator.score(["one two"], ["eins zwei"])
        assert len(translator.translate(["one two"], target="ko")) == 1
    with Translator.load(write_model(tmp_path / "one", tags=("de",)), threads=1) as translator:
        assert translator.translate(["one two"]) == translator.translate(["one two"], target="de")


def test_a_model_with_several_languages_can_be_served(tmp_path: Path) -> None:
    (served,) = load_models([write_model(tmp_path / "model", tags=("de", "ko"))], n_engines=1)
    assert served.ready
    assert (served.targets, served.tag_of(None), served.tag_of("ko")) == (("de", "ko"), "de", "ko")


def test_learned_positions_that_are_used_up_can_still_be_looked_at(tmp_path: Path) -> None:
    """A random model hardly ever ends: its translations are as long as its positions allow."""
    write_model(tmp_path / "model", max_length=15, positions="learned", max_positions=16)
    with Translator.load(tmp_path / "model", engine="torch", threads=1) as translator:
        endless = DecodingOptions(beam=1, extra_length=50, banned=(0, 2, 3))  # only words, and no end
        (done,) = translator.translate(["one two three"], options=endless, details=True)
        assert done.alignment
        for asked in (
            lambda: translator.translate(["one"], options=GREEDY, prefixes=["one two three four five six " * 5]),
            lambda: translator.score(["one"], ["one two three four five six " * 5]),
        ):
            with pytest.raises(DataError, match=r"symbols is longer than the 16 positions .*; hint: split it"):
                asked()


def test_a_tokenizer_that_does_not_fit_the_converted_weights_is_refused(tmp_path: Path) -> None:
    one = write_model(tmp_path / "one")
    other = Tokenizer(train_tokenizer(["one two three"] * 5, size=300)).to_bytes()
    with pytest.raises(ArtifactError, match=r"symbols, and the tokenizers beside it"):
        described = describe(one)
        small = TokenizerPair(Tokenizer(other), Tokenizer(other))
        load_engine(replace(described, tokenizers=small), "auto", "float32", 1)
