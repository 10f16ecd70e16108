"""The languages of a model come from the recipe, from tags, or from file names."""

from pathlib import Path
from typing import Any

import pytest

from regard.artifact import describe
from regard.demo.street.corpus import generate
from regard.errors import RecipeError
from regard.run import Recipe, merge, train
from regard.run.recipe import differences
from regard.tasks.translation.prepare import Corpora, language_facts
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
        (config.corpus() for config in recipe.data.train), recipe.text.source_language, recipe.text.target_language
    )


def files(source: str, target: str, **more: Any) -> dict[str, Any]:
    return {"source": source, "target": target, **more}


@pytest.mark.parametrize(
    ("corpus", "source", "targets"),
    [
        (files("train.en", "train.de"), "en", ("de",)),
        (files("train.en.gz", "a.b/train.de.zst"), "en", ("de",)),
        (files("x.en-de.en", "x.en-de.de"), "en", ("de",)),
        (files("en.txt", "de.txt"), "en", ("de",)),
        (files("train.pt-BR", "train.zh_Hans.txt"), "pt-BR", ("zh_Hans",)),
        (files("train.src", "train.tgt"), None, ()),  # both are codes in ISO 639-3, but not used as such here
        (files("a.txt", "b.csv"), None, ()),
        (files("train.en", "train.clean"), "en", ()),
        (files("train", "en"), None, ("en",)),
        ({"tsv": "corpus.en-de.tsv"}, "en", ("de",)),
        ({"tsv": "en-ko.tsv.gz"}, "en", ("ko",)),
        ({"tsv": "x.pt-BR-en.tsv"}, "pt-BR", ("en",)),
        ({"tsv": "corpus.tsv"}, None, ()),
        ({"tsv": "self-made.tsv"}, None, ()),
    ],
)
def test_languages_are_read_from_file_names(
    corpus: dict[str, Any], source: str | None, targets: tuple[str, ...]
) -> None:
    assert languages_of(corpus) == Languages(source, targets)


def test_recipe_overrides_file_names() -> None:
    assert languages_of(files("a.en", "a.de"), source_language="nl") == Languages("nl", ("de",))
    assert languages_of(files("a.src", "a.tgt"), source_language="en", target_language="qqq") == Languages(
        "en", ("qqq",)
    )


def test_tags_are_the_target_languages() -> None:
    corpora = (files("a.en", "a.de", tag="de"), files("b.en", "b.nl", tag="nl"), files("c.en", "c.de", tag="de"))
    assert languages_of(*corpora) == Languages("en", ("de", "nl"))


def test_language_is_unknown_if_file_names_disagree() -> None:
    assert languages_of(files("a.en", "a.de"), files("b.fr", "b.de")) == Languages(None, ("de",))


@pytest.mark.parametrize("code", ["", "english", "EN", "e", "en-", "en de", "../x"])
def test_invalid_language_code_raises_recipe_error(code: str) -> None:
    with pytest.raises(RecipeError, match=r"text\.source_language: is not a language code such as de, pt-BR"):
        recipe_of(files("a", "b"), source_language=code)


def test_recipe_without_languages_stays_without_them() -> None:
    old = recipe_of(files("a.en", "a.de"))
    assert "language" not in old.to_toml()
    assert differences(old.raw(), Recipe.build(merge(old.raw(), {"training": {"seed": 1}})).raw()) == []


def test_language_names_are_english_and_unknown_codes_stay() -> None:
    assert [language_name(code) for code in ("de", "pt-BR", "zh_Hans", "qqq")] == [
        "German", "Portuguese (BR)", "Chinese (Hans)", "qqq",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "facts",
    [
        {}, {"languages": None}, {"languages": []}, {"languages": {"source": 3, "targets": "de"}},
        {"languages": {"source": "<b>", "targets": [None, {}, "x" * 99, ["de"]]}},
    ],
)  # fmt: skip
def test_invalid_languages_in_a_model_are_ignored(facts: dict[str, Any]) -> None:
    assert Languages.from_facts(facts) == Languages()


def test_trained_model_has_its_languages_and_their_profiles(tmp_path: Path) -> None:
    pairs = [(pair.source, pair.target) for pair in generate(300, 3)]
    for side, code in enumerate(("en", "de")):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / f"train.{code}").write_text(lines, encoding="utf-8")
    data = {"train": [files(str(tmp_path / "train.en"), str(tmp_path / "train.de"))]}
    recipe = Recipe.build(TINY | {"data": data})
    facts = describe(train(recipe, tmp_path / "run")).facts
    assert Languages.from_facts(facts) == Languages("en", ("de",))
    profiles = read_profiles(facts)
    assert "_th" in profiles["en"].log_probs and "sch" in profiles["de"].log_probs
    again = language_facts(Corpora.of(recipe.data, 1), recipe.text, None)
    assert facts["profiles"] == again["profiles"]
    (tmp_path / "more.src").write_text("the cat\n")
    (tmp_path / "more.tgt").write_text("die Katze\n")
    more = {"train": [files(str(tmp_path / "more.src"), str(tmp_path / "more.tgt"))]}
    tuned = Recipe.build(TINY | {"data": more, "start_from": str(tmp_path / "run")})
    inherited = language_facts(Corpora.of(tuned.data, 1), tuned.text, describe(tmp_path / "run"))
    assert Languages.from_facts(inherited) == Languages("en", ("de",))
