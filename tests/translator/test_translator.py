import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.artifact import describe
from regard.decoding.options import DecodingOptions, Hypothesis, Sampling
from regard.engines.engine import EngineName, load_engine
from regard.errors import ArtifactError, DataError, UserError
from regard.serve import load_models
from regard.text import Tokenizer, TokenizerPair, train_tokenizer
from regard.translator import Translation, Translator
from regard.translator.markup.document import HtmlDocument

from .conftest import write_model

GREEDY = DecodingOptions(beam=1, extra_length=4)
LINES = ["the animal was too tired", "", "weil es zu müde war", "   ", "one two three", "동물은 너무 피곤해서"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.text(max_size=40), max_size=6))
def test_one_translation_per_line_and_blank_stays_blank(translator: Translator, lines: list[str]) -> None:
    translations = translator.translate(lines, options=GREEDY)
    assert len(translations) == len(lines)
    for line, translation in zip(lines, translations, strict=True):
        assert translation.text.count("\n") <= line.strip().count("\n")
        if not line.strip():
            assert translation.text == "" and translation.n_parts == 0


def test_model_is_not_called_for_blank_lines(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[int] = []
    real = translator.engine.submit

    def count(sources, *args, **settings):  # type: ignore[no-untyped-def]
        submitted.extend(map(len, sources))
        return real(sources, *args, **settings)

    monkeypatch.setattr(translator.engine, "submit", count)
    translator.translate(["", " \u2003\u00a0 ", "\t", "one two"], options=GREEDY)
    assert len(submitted) == 1


def test_html_is_translated_by_a_model_without_attention(model_path: Path) -> None:
    """The tags keep their places, because the copy has the words of the source in their order."""
    described = describe(model_path)

    class CopyEngine:
        name = "copy"

        def submit(self, sources, *_, with_attention):  # type: ignore[no-untyped-def]
            assert with_attention
            return lambda: [[Hypothesis(tuple(ids), (0.0,) * len(ids), 0.0)] for ids in sources]

    html = '<p><b>the animal did not <a href="x">cross the</a> street <img> because</b></p><i>it was</i>'
    document = HtmlDocument(html)
    translations = Translator(described, CopyEngine()).translate(document.texts, details=True)  # type: ignore[arg-type]
    assert [translation.alignment for translation in translations] == [(), ()]
    assert document.fill(translations) == html


def test_translating_alone_equals_translating_in_a_batch(translator: Translator) -> None:
    together = translator.translate(LINES)
    alone = [translator.translate([line])[0] for line in LINES]
    assert texts(together) == texts(alone)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_translate_iter_equals_translate(translator: Translator, batch_size: int) -> None:
    expected = translator.translate(LINES, options=GREEDY)
    translations = list(translator.translate_iter(iter(LINES), options=GREEDY, batch_size=batch_size))
    assert texts(translations) == texts(expected)
    assert list(translator.translate_iter([])) == []


def test_translate_iter_takes_prefix_and_details(translator: Translator) -> None:
    lines = ["the animal was too tired", "one two"]
    results = translator.translate_iter(lines, options=GREEDY, prefix="das Tier", details=True, batch_size=1)
    for translation in results:
        assert translation.text.startswith("das Tier") and translation.tokens


def test_next_batch_is_submitted_before_a_result_is_awaited(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = record_engine(translator, monkeypatch)
    for _ in translator.translate_iter(["one", "two", "three"], options=GREEDY, batch_size=1):
        events.append("use")
    assert events == ["submit", "submit", "wait", "use", "submit", "wait", "use", "wait", "use"]


def test_empty_batch_flushes_pending_results(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    events = record_engine(translator, monkeypatch)

    def batches() -> Iterator[list[str]]:
        for batch in (["one"], [], ["two"], []):
            events.append(f"read {batch}")
            yield batch

    for lines, translations in translator.translate_batches(batches(), options=GREEDY):
        assert len(lines) == len(translations)
        events.append(f"use {lines}")
    assert events == [
        *("read ['one']", "submit", "read []", "wait", "use ['one']"),
        *("read ['two']", "submit", "read []", "wait", "use ['two']"),
    ]


def test_translate_iter_reads_at_most_two_batches_ahead(translator: Translator) -> None:
    n_read = 0

    def endless() -> Iterator[str]:
        nonlocal n_read
        while True:
            n_read += 1
            yield "one two"

    results = translator.translate_iter(endless(), options=GREEDY, batch_size=3)
    for _ in range(4):
        next(results)
    assert n_read <= 9


def record_engine(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The order in which batches are submitted to the engine and their results awaited."""
    events: list[str] = []
    submit = translator.engine.submit

    def recorded(*args, **settings):  # type: ignore[no-untyped-def]
        events.append("submit")
        pending = submit(*args, **settings)
        return lambda: events.append("wait") or pending()  # type: ignore[func-returns-value]

    monkeypatch.setattr(translator.engine, "submit", recorded)
    return events


def texts(translations: list[Translation]) -> list[str]:
    return [translation.text for translation in translations]


def test_both_engines_give_the_same_translations(model_path: Path) -> None:
    fast, reference = (
        Translator.load(model_path, engine=name, precision="float32", threads=1) for name in ("ctranslate2", "torch")
    )
    for options in (DecodingOptions(), DecodingOptions(beam=1)):
        assert texts(fast.translate(LINES, options=options)) == texts(reference.translate(LINES, options=options))


def test_details_are_probabilities_and_word_pairs(translator: Translator) -> None:
    (translation,) = translator.translate(["the animal was too tired"], options=GREEDY, details=True)
    assert translation.tokens and all(0 < token.probability <= 1 for token in translation.tokens)
    n_source, n_target = 5, len(translation.text.split())
    assert translation.alignment
    assert all(0 <= source < n_source and 0 <= target < n_target for source, target in translation.alignment)


def test_alternatives_are_ranked(translator: Translator) -> None:
    (best,) = translator.translate(["the animal was too tired"], options=DecodingOptions(beam=4, n_best=4))
    scores = [best.score, *(alternative.score for alternative in best.alternatives)]
    assert len(scores) == 4 and scores == sorted(scores, reverse=True)


def test_translation_starts_with_its_prefix(translator: Translator) -> None:
    (translation,) = translator.translate(["the animal was too tired"], prefixes=["das Tier"], options=GREEDY)
    assert translation.text.startswith("das Tier")


def test_sampling_is_a_function_of_its_seed(translator: Translator) -> None:
    def draw(seed: int) -> list[str]:
        options = DecodingOptions(beam=1, sampling=Sampling(seed=seed), extra_length=4)
        return texts(translator.translate(LINES, options=options))

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_text_is_translated_sentence_by_sentence_with_its_spacing(translator: Translator) -> None:
    options = DecodingOptions(beam=1, extra_length=4, min_length=4)  # a random model may say nothing
    sentences = ["the animal was too tired.", "One two three?", "Four five!"]
    alone = texts(translator.translate(sentences, options=options))
    (joined,) = translator.translate(["{}  {}\n\n\t{}\n".format(*sentences)], options=options)
    assert joined.text == "{}  {}\n\n\t{}".format(*alone)
    assert joined.n_parts == 3
    (whole,) = translator.translate([" ".join(sentences)], options=options, split=False)
    assert whole.n_parts == 1 and whole.text != " ".join(alone)
    (lines,) = translator.translate(["\n".join(sentences)], options=options, split=False)
    assert lines.text == "\n".join(alone)


def test_model_trained_on_several_sentences_per_line_gets_whole_lines(model_path: Path) -> None:
    described = describe(model_path)
    text = "The animal was tired. It did not cross."
    n_parts = {}
    for share in (0.05, 0.9):
        with Translator.load(
            replace(described, facts=described.facts | {"multi_sentence_lines": share}), threads=1
        ) as translator:
            n_parts[share] = translator.translate([text], options=GREEDY)[0].n_parts
    assert n_parts == {0.05: 2, 0.9: 1}


def test_alternatives_of_a_text_are_joined_by_rank(translator: Translator) -> None:
    sentences = ["the animal was tired.", "One two."]
    options = DecodingOptions(beam=4, n_best=3, extra_length=4)
    first, second = translator.translate(sentences, options=options)
    (joined,) = translator.translate([" ".join(sentences)], options=options)
    expected = [f"{a.text} {b.text}" for a, b in zip(first.alternatives, second.alternatives, strict=True)]
    assert [alternative.text for alternative in joined.alternatives] == expected


def test_part_without_words_stays_as_it_is(translator: Translator) -> None:
    (translation,) = translator.translate(["one two\n---\nthree"], options=GREEDY)
    assert translation.text.split("\n")[1] == "---"
    assert translator.translate(["…!"])[0].text == "…!"


def test_long_line_is_split_at_its_sentences_and_joined(translator: Translator) -> None:
    line = "the animal was too tired . it did not cross the street . " * 6
    (translation,) = translator.translate([line], options=GREEDY)
    assert translation.n_parts > 1
    (first_part,) = translator.translate(["the animal was too tired ."], options=GREEDY)
    assert translation.text.startswith(first_part.text)


def test_megabyte_on_one_line_stays_on_one_line(translator: Translator) -> None:
    line = "x" * 2_000 + " one two three four five six seven eight nine ten ." * 20_500
    assert len(line) > 1_000_000
    (translation,) = translator.translate([line], options=DecodingOptions(beam=1, extra_length=0))
    assert translation.n_parts > 20_000 and "\n" not in translation.text


def test_score_of_own_output_equals_its_log_probabilities(translator: Translator) -> None:
    sources = [translator.described.tokenizers.source.encode(line) for line in LINES if line.strip()]
    hypotheses = [ranked[0] for ranked in translator.engine.translate(sources, GREEDY, with_attention=True)]
    scored = translator.engine.score(sources, [hypothesis.ids for hypothesis in hypotheses])
    for hypothesis, forced in zip(hypotheses, scored, strict=True):
        n_known = min(len(hypothesis.log_probs), len(forced.log_probs))  # cut at the limit, it has no end symbol
        assert n_known >= len(hypothesis.ids) > 0
        assert forced.log_probs[:n_known] == pytest.approx(hypothesis.log_probs[:n_known], abs=1e-3)


def test_threads_can_share_a_translator(translator: Translator) -> None:
    expected = texts(translator.translate(LINES, options=GREEDY))
    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda _: texts(translator.translate(LINES, options=GREEDY)), range(8)))
    assert all(output == expected for output in outputs)


def test_unknown_target_language_is_a_user_error(translator: Translator) -> None:
    with pytest.raises(UserError, match="no target language"):
        translator.translate(["one"], target="xx")


def test_directory_without_a_model_is_an_artifact_error(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="there is no model"):
        Translator.load(tmp_path)


def test_ctranslate2_engine_imports_no_torch(model_path: Path) -> None:
    code = (
        "import sys; from regard.translator import Translator;"
        f"t = Translator.load({str(model_path)!r}); t.translate(['one two'], details=True);"
        "print(t.engine.name, 'torch' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert process.stdout.split() == ["ctranslate2", "False"]


@pytest.mark.parametrize("engine", ["ctranslate2", "torch"])
def test_line_longer_than_the_learned_positions_is_split(tmp_path: Path, engine: EngineName) -> None:
    write_model(tmp_path / "model", max_length=256, positions="learned", max_positions=16)
    with Translator.load(tmp_path / "model", engine=engine, precision="float32", threads=1) as translator:
        (translation,) = translator.translate(["the animal was too tired " * 8], options=GREEDY)
    assert translation.n_parts > 1


@pytest.mark.parametrize("engine", ["ctranslate2", "torch"])
def test_model_that_hides_the_limit_of_its_learned_positions_refuses_a_long_line(
    tmp_path: Path, engine: EngineName
) -> None:
    described = describe(write_model(tmp_path / "model", max_length=256, positions="learned", max_positions=16))
    with Translator.load(
        replace(described, max_length=None), engine=engine, precision="float32", threads=1
    ) as translator:
        with pytest.raises(DataError, match=r"longer than the .*16 positions"):
            translator.translate(["the animal was too tired " * 8], options=GREEDY)
        assert len(translator.translate(["the animal"], options=GREEDY)) == 1


def test_model_with_several_target_languages_requires_one(tmp_path: Path) -> None:
    with Translator.load(write_model(tmp_path / "model", tags=("de", "ko")), threads=1) as translator:
        with pytest.raises(UserError, match="this model translates into de, ko; hint: choose one: --target de"):
            translator.translate(["one two"])
        with pytest.raises(UserError, match="this model translates into de, ko"):
            translator.score(["one two"], ["eins zwei"])
        assert len(translator.translate(["one two"], target="ko")) == 1
    with Translator.load(write_model(tmp_path / "one", tags=("de",)), threads=1) as translator:
        assert translator.translate(["one two"]) == translator.translate(["one two"], target="de")


def test_model_with_several_target_languages_can_be_served(tmp_path: Path) -> None:
    (served,) = load_models([write_model(tmp_path / "model", tags=("de", "ko"))], n_engines=1)
    assert served.ready
    assert (served.targets, served.target_tag(None), served.target_tag("ko")) == (("de", "ko"), "de", "ko")


def test_details_of_a_translation_that_uses_all_learned_positions(tmp_path: Path) -> None:
    """A random model rarely ends a sentence: its translations are as long as its positions allow."""
    write_model(tmp_path / "model", max_length=15, positions="learned", max_positions=16)
    with Translator.load(tmp_path / "model", engine="torch", threads=1) as translator:
        options = DecodingOptions(beam=1, extra_length=50, banned=(0, 2, 3))  # only words, and no end
        (translation,) = translator.translate(["one two three"], options=options, details=True)
        assert translation.alignment
        for call in (
            lambda: translator.translate(["one"], options=GREEDY, prefixes=["one two three four five six " * 5]),
            lambda: translator.score(["one"], ["one two three four five six " * 5]),
        ):
            with pytest.raises(DataError, match=r"tokens is longer than the 16 positions .*; hint: split it"):
                call()


def test_tokenizer_that_does_not_fit_the_converted_weights_is_refused(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "model")
    small = Tokenizer(train_tokenizer(["one two three"] * 5, size=300)).to_bytes()
    with pytest.raises(ArtifactError, match=r"tokens, but the tokenizers have"):
        described = describe(directory)
        vars(described)["tokenizers"] = TokenizerPair(Tokenizer(small), Tokenizer(small))
        load_engine(described, "auto", "float32", 1)
