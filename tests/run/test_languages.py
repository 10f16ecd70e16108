"""A model knows its languages: from the recipe, from tags, or from the names of the files. Old runs go on."""

from pathlib import Path
from typing import Any

import pytest

from regard.artifact import describe
from regard.demo.street.corpus import generate
from regard.errors import RecipeError
from regard.run import Recipe, merge, train
from regard.run.language_facts import language_facts
from regard.run.prepare import Corpora
from regard.run.recipe import differences
from regard.text.language_profile import read_profiles
from regard.text.languages import Languages, find_languages, language_name

TINY: dict[str, Any] = {
    "model": {"d_model": 32, "d_ff": 64, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1},
    "training": {"max_tokens": 512, "steps": 4, "warmup": 2, "save_every": 4, "validate_every": 4, "average": 1},
}


def recipe_of(*corpora: dict[str, Any], **text: Any) -> Recipe:
    return Recipe.build({"data": {"train": list(corpora)}, "text": text})


def languages_of(*corpora: dict[str, Any], **text: Any) -> Languages:
    recipe = recipe_of(*corpora, **text)
    return find_languages(
        (one.corpus() for one in recipe.data.train), recipe.text.source_language, recipe.text.target_language
    )


def two(source: str, target: str, **more: Any) -> dict[str, Any]:
    return {"source": source, "target": target, **more}


@pytest.mark.parametrize(
    ("corpus", "source", "targets"),
    [
        (two("train.en", "train.de"), "en", ("de",)),
        (two("train.en.gz", "a.b/train.de.zst"), "en", ("de",)),
        (two("x.en-de.en", "x.en-de.de"), "en", ("de",)),
        (two("en.txt", "de.txt"), "en", ("de",)),
        (two("train.pt-BR", "train.zh_Hans.txt"), "pt-BR", ("zh_Hans",)),
        (two("train.src", "train.tgt"), None, ()),  # languages of ISO 639-3, both of them, but not here
        (two("a.txt", "b.csv"), None, ()),
        (two("train.en", "train.clean"), "en", ()),
        (two("train", "en"), None, ("en",)),
        ({"tsv": "corpus.en-de.tsv"}, "en", ("de",)),
        ({"tsv": "en-ko.tsv.gz"}, "en", ("ko",)),
        ({"tsv": "x.pt-BR-en.tsv"}, "pt-BR", ("en",)),
        ({"tsv": "corpus.tsv"}, None, ()),
        ({"tsv": "self-made.tsv"}, None, ()),
    ],
)
def test_names_of_files_say_the_languages(corpus: dict[str, Any], source: str | None, targets: tuple[str, ...]) -> None:
    assert languages_of(corpus) == Languages(source, targets)


def test_what_was_said_wins_over_the_names() -> None:
    assert languages_of(two("a.en", "a.de"), source_language="nl") == Languages("nl", ("de",))
    assert languages_of(two("a.src", "a.tgt"), source_language="en", target_language="qqq") == Languages("en", ("qqq",))


def test_tags_are_the_targets() -> None:
    corpora = (two("a.en", "a.de", tag="de"), two("b.en", "b.nl", tag="nl"), two("c.en", "c.de", tag="de"))
    assert languages_of(*corpora) == Languages("en", ("de", "nl"))


def test_files_that_disagree_say_nothing() -> None:
    assert languages_of(two("a.en", "a.de"), two("b.fr", "b.de")) == Languages(None, ("de",))


@pytest.mark.parametrize("code", ["", "english", "EN", "e", "en-", "en de", "../x"])
def test_what_is_no_language_is_refused_in_words(code: str) -> None:
    with pytest.raises(RecipeError, match=r"text\.source_language: is not the code of a language, as de, pt-BR"):
        recipe_of(two("a", "b"), source_language=code)


def test_a_recipe_from_before_has_its_old_digest_and_no_differences() -> None:
    old = recipe_of(two("a.en", "a.de"))
    assert "language" not in old.to_toml()
    assert differences(old.raw(), Recipe.build(merge(old.raw(), {"training": {"seed": 1}})).raw()) == []


def test_names_are_english_and_unknown_ones_stay_codes() -> None:
    assert [language_name(one) for one in ("de", "pt-BR", "zh_Hans", "qqq")] == [
        "German", "Portuguese (BR)", "Chinese (Hans)", "qqq",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "facts",
    [
        {}, {"languages": None}, {"languages": []}, {"languages": {"source": 3, "targets": "de"}},
        {"languages": {"source": "<b>", "targets": [None, {}, "x" * 99, ["de"]]}},
    ],
)  # fmt: skip
def test_a_strangers_languages_are_read_with_care(facts: dict[str, Any]) -> None:
    assert Languages.from_facts(facts) == Languages()


def test_a_trained_model_knows_its_languages_and_what_they_look_like(tmp_path: Path) -> None:
    pairs = [(pair.source, pair.target) for pair in generate(300, 3)]
    for side, code in enumerate(("en", "de")):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / f"train.{code}").write_text(lines, encoding="utf-8")
    data = {"train": [two(str(tmp_path / "train.en"), str(tmp_path / "train.de"))]}
    recipe = Recipe.build(TINY | {"data": data})
    facts = describe(train(recipe, tmp_path / "run")).facts
    assert Languages.from_facts(facts) == Languages("en", ("de",))
    profiles = read_profiles(facts)
    assert "_th" in profiles["en"].log_probs and "sch" in profiles["de"].log_probs
    again = language_facts(Corpora.of(recipe.data, 1), recipe)
    assert facts["profiles"] == again.profiles
    (tmp_path / "more.src").write_text("the cat\n")
    (tmp_path / "more.tgt").write_text("die Katze\n")
    more = {"train": [two(str(tmp_path / "more.src"), str(tmp_path / "more.tgt"))]}
    tuned = Recipe.build(TINY | {"data": more, "start_from": str(tmp_path / "run")})
    assert language_facts(Corpora.of(tuned.data, 1), tuned).languages == Languages("en", ("de",))
