"""The demo run: trains on the street corpus, then measures the model on sentences that it has not seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from regard.artifact import load_model
from regard.demo.pronouns import BestHead, find_best_head, is_ambiguous, top_words
from regard.demo.street.corpus import StreetCorpus, StreetPair, canonical, make_corpus, write_corpus
from regard.durable import check_writable, is_locked, remove_directory, remove_leftovers, write_file
from regard.errors import ArtifactError, RunError
from regard.run import Callbacks, Recipe, read_recipe, require_run_directory, train
from regard.translator import Translator

SEED = 1
N_TRAIN = 40_000  # about one epoch in a minute: hardly any sentence is seen twice, so there is no need for dropout
N_HEAD_SENTENCES = 300  # to find the best head
RECIPE: dict[str, Any] = {
    "text": {"vocabulary": 1700},  # almost every word is one token
    "model": {"preset": "tiny", "n_encoder_layers": 2, "n_decoder_layers": 2, "norm": "pre", "dropout": 0.0},
    "training": {
        "steps": 620,
        "max_tokens": 1024,
        "optimizer": "muon",  # needs half the steps of Adam
        "schedule": "cooldown",
        "rate": 0.005,
        "warmup": 20,
        "cooldown": 0.9,
        "clip": 1.0,
        "smoothing": 0.05,
        "save_every": 310,
        "validate_every": 620,
        "validate_at": [10, 20, 50, 100, 200, 400],  # nonsense becomes German
        "translated": 50,
        "average": 1,
    },
}


class Accuracy(BaseModel, frozen=True):
    """Shares of exactly correct sentences, and of correct pronouns."""

    exact: float
    pronouns: float


class DemoExample(BaseModel, frozen=True):
    """One of the two sentences about the street, its translation, and the words that the best head attends to."""

    source: str
    translation: str
    looked_at: dict[str, float]  # words and their attention weights, highest first


class DemoResult(BaseModel, frozen=True):
    """What the demo measured; stored as `demo.json`."""

    recipe: str  # digest of the recipe; the model stores the same one
    test: Accuracy
    unseen: Accuracy
    head: BestHead
    examples: tuple[DemoExample, ...]


def first_run(out: Path, callbacks: Callbacks, *, again: bool = False, steps: int | None = None) -> DemoResult:
    """Trains in `out` and measures the model; if that was done before, returns the stored result."""
    if again:
        _remove_run(out)
    elif (stored := _stored_result(out)) is not None:
        return stored
    callbacks.on_progress("generating sentences", 0, 1)
    street = cache(lambda: make_corpus(SEED, n_train=N_TRAIN))  # for the files, and for the reference translations
    text = _prepare_corpus(out, street)
    try:
        train(_recipe(text, steps), out, callbacks=callbacks)
    except RunError as error:
        raise RunError(error.message, hint=f"{error.hint}; `regard demo --again` starts again") from error
    result = _measure_model(out, street())
    examples = {"texts": [example.source for example in result.examples], "head": result.head.place.model_dump()}
    write_file(out / "examples.json", json.dumps(examples, indent=1).encode())  # for the page
    write_file(out / "demo.json", result.model_dump_json(indent=1).encode())
    return result


def street_text(out: Path, n_train: int) -> Path:
    """Writes the street corpus into a run directory, unless it is there, and returns its path."""
    return _prepare_corpus(out, lambda: make_corpus(SEED, n_train=n_train))


def _prepare_corpus(out: Path, street: Callable[[], StreetCorpus]) -> Path:
    if not is_locked(out):
        remove_leftovers(out)  # of a training that was killed at its start
    require_run_directory(out)
    _require_street(out)
    check_writable(out, 0)
    text = out / "data" / "street"
    if not (text / "unseen.de").exists():  # the last file to be written
        write_corpus(text, street())
    return text


def _remove_run(out: Path) -> None:
    """Removes an earlier demo; raises RunError for any other run."""
    if not (out / "recipe.toml").exists():
        return
    _require_street(out)
    if is_locked(out):
        raise RunError(f"another process is training in {out}", hint="wait until it has finished")
    remove_directory(out)


def _require_street(out: Path) -> None:
    """Raises RunError if `out` is a run with another corpus, before anything is written."""
    if not (out / "recipe.toml").exists():
        return
    if Recipe.build(read_recipe(out / "recipe.toml")).data.train[0].source != out.absolute() / "data/street/train.en":
        raise RunError(f"{out} is a run with another corpus", hint="choose another directory with --out")


def _stored_result(out: Path) -> DemoResult | None:
    """The result of an earlier demo, if it belongs to the model in `out`."""
    try:
        result = DemoResult.model_validate_json((out / "demo.json").read_bytes())
        return result if result.recipe == load_model(out).facts.get("recipe") else None
    except (OSError, ValidationError, ArtifactError):
        return None


def _measure_model(out: Path, corpus: StreetCorpus) -> DemoResult:
    pairs, loaded = canonical(), load_model(out)
    with Translator.load(out) as translator:
        test, unseen = (measure(translator, part) for part in (corpus.test, corpus.unseen))
        translations = translator.translate([pair.source for pair in pairs])
    head = find_best_head(loaded, [pair for pair in corpus.test if is_ambiguous(pair)][:N_HEAD_SENTENCES])
    examples = tuple(
        DemoExample(source=pair.source, translation=translation.text, looked_at=top_words(loaded, pair, head.place))
        for pair, translation in zip(pairs, translations, strict=True)
    )
    return DemoResult(recipe=loaded.facts["recipe"], test=test, unseen=unseen, head=head, examples=examples)


def measure(translator: Translator, pairs: Sequence[StreetPair]) -> Accuracy:
    """Translates as `regard translate` does, and compares with the references."""
    translations = [translation.text for translation in translator.translate([pair.source for pair in pairs])]
    n_exact = sum(text == pair.target for text, pair in zip(translations, pairs, strict=True))
    return Accuracy(exact=n_exact / len(pairs), pronouns=pronoun_share(translations, pairs))


def pronoun_share(translations: Sequence[str], pairs: Sequence[StreetPair]) -> float:
    """The share of ambiguous pronouns that are translated correctly."""
    ambiguous = [(text, pair) for text, pair in zip(translations, pairs, strict=True) if is_ambiguous(pair)]
    n_correct = sum(_has_correct_pronoun(text.split(), pair) for text, pair in ambiguous)
    return n_correct / max(1, len(ambiguous))


def _has_correct_pronoun(words: list[str], pair: StreetPair) -> bool:
    assert pair.pronoun is not None
    index = pair.pronoun.target_index
    return index < len(words) and words[index] == pair.pronoun.german


def _recipe(text: Path, steps: int | None) -> dict[str, Any]:
    def files(name: str) -> dict[str, str]:
        return {"source": str(text / f"{name}.en"), "target": str(text / f"{name}.de")}

    training = RECIPE["training"] | ({"steps": steps} if steps is not None else {})
    return RECIPE | {"training": training, "data": {"train": [files("train")], "validation": [files("validation")]}}
