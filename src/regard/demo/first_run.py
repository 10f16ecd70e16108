"""The guided first run: train on the street corpus, then ask the model about sentences that it has never seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from regard.artifact import load_model
from regard.demo.pronouns import BestHead, find_head, glance, is_open
from regard.demo.street.corpus import StreetCorpus, StreetPair, canonical, split, write
from regard.durable import check_writable, is_locked, remove_directory, remove_leftovers, write_file
from regard.errors import ArtifactError, RunError
from regard.run import Callbacks, Recipe, read_recipe, require_run_directory, train
from regard.translator import Translator

SEED = 1
N_TRAIN = 40_000  # about as many as a minute sees: hardly a sentence comes twice, and dropout has nothing to prevent
N_LOOKED_AT = 300  # sentences that tell the best head
RECIPE: dict[str, Any] = {
    "text": {"vocabulary": 1700},  # enough for almost every word to be one piece
    "model": {"preset": "tiny", "n_encoder_layers": 2, "n_decoder_layers": 2, "norm": "pre", "dropout": 0.0},
    "training": {
        "steps": 620,
        "max_tokens": 1024,
        "optimizer": "muon",  # learns in half the steps what Adam does
        "schedule": "cooldown",
        "rate": 0.005,
        "warmup": 20,
        "cooldown": 0.9,
        "clip": 1.0,
        "smoothing": 0.05,
        "save_every": 310,
        "validate_every": 310,
        "translated": 50,
        "average": 1,
    },
}


class Accuracy(BaseModel, frozen=True):
    """Shares of sentences that came out exactly right, and of pronouns."""

    exact: float
    pronouns: float


class Example(BaseModel, frozen=True):
    """One of the two famous sentences, what the model makes of it, and what the best head looked at."""

    source: str
    translation: str
    looked_at: dict[str, float]  # words and their weights, most first


class FirstRun(BaseModel, frozen=True):
    """What the demo has to tell."""

    recipe: str  # its digest, which the model knows as well
    test: Accuracy
    unseen: Accuracy
    head: BestHead
    examples: tuple[Example, ...]


def first_run(out: Path, callbacks: Callbacks, *, again: bool = False, steps: int | None = None) -> FirstRun:
    """Train in `out` if no run is there, and measure what was learned; the second time, only tell it."""
    if again:
        _forget(out)
    elif (told := _told(out)) is not None:
        return told
    callbacks.on_progress("making up sentences", 0, 1)
    street = cache(lambda: split(SEED, n_train=N_TRAIN))  # written down, and in the end it tells the right answers
    text = _written(out, street)
    try:
        train(_recipe(text, steps), out, callbacks=callbacks)
    except RunError as error:
        raise RunError(error.message, hint=f"{error.hint}; `regard demo --again` begins anew") from error
    told = _measured(out, street())
    write_file(out / "demo.json", told.model_dump_json(indent=1).encode())
    return told


def street_text(out: Path, n_train: int) -> Path:
    """Where the street corpus lies in a run: written there once; the same seed gives the same text again."""
    return _written(out, lambda: split(SEED, n_train=n_train))


def _written(out: Path, street: Callable[[], StreetCorpus]) -> Path:
    if not is_locked(out):
        remove_leftovers(out)  # of a training that was killed before it was a run
    require_run_directory(out)
    _require_street(out)
    check_writable(out, 0)
    text = out / "data" / "street"
    if not (text / "unseen.de").exists():  # the last file that is written
        write(text, street())
    return text


def _forget(out: Path) -> None:
    """Remove an earlier demo; somebody's own run, never."""
    if not (out / "recipe.toml").exists():
        return
    _require_street(out)
    if is_locked(out):
        raise RunError(f"somebody is training in {out}", hint="wait until it is done")
    remove_directory(out)


def _require_street(out: Path) -> None:
    """Refuse somebody's own run, before anything is written into it."""
    if not (out / "recipe.toml").exists():
        return
    if Recipe.build(read_recipe(out / "recipe.toml")).data.train[0].source != out.absolute() / "data/street/train.en":
        raise RunError(f"{out} is a run, but not of the street's text", hint="choose another directory with --out")


def _told(out: Path) -> FirstRun | None:
    """What was measured before, if it was measured on the model that is there."""
    try:
        told = FirstRun.model_validate_json((out / "demo.json").read_bytes())
        return told if told.recipe == load_model(out).facts.get("recipe") else None
    except (OSError, ValidationError, ArtifactError):
        return None


def _measured(out: Path, corpus: StreetCorpus) -> FirstRun:
    famous, loaded = canonical(), load_model(out)
    with Translator.load(out) as translator:
        test, unseen = (measure(translator, pairs) for pairs in (corpus.test, corpus.unseen))
        done = translator.translate([pair.source for pair in famous])
    head = find_head(loaded, [pair for pair in corpus.test if is_open(pair)][:N_LOOKED_AT])
    examples = tuple(
        Example(source=pair.source, translation=one.text, looked_at=glance(loaded, pair, head.place))
        for pair, one in zip(famous, done, strict=True)
    )
    return FirstRun(recipe=loaded.facts["recipe"], test=test, unseen=unseen, head=head, examples=examples)


def measure(translator: Translator, pairs: Sequence[StreetPair]) -> Accuracy:
    """Translate as `regard translate` does, and compare with the one right answer."""
    done = translator.translate([pair.source for pair in pairs])
    exact = sum(one.text == pair.target for one, pair in zip(done, pairs, strict=True))
    asked = [(one.text.split(), pair) for one, pair in zip(done, pairs, strict=True) if is_open(pair)]
    right = sum(_pronoun_at(words, pair) for words, pair in asked)
    return Accuracy(exact=exact / len(pairs), pronouns=right / max(1, len(asked)))


def _pronoun_at(words: list[str], pair: StreetPair) -> bool:
    assert pair.pronoun is not None
    place = pair.pronoun.target_index
    return place < len(words) and words[place] == pair.pronoun.german


def _recipe(text: Path, steps: int | None) -> dict[str, Any]:
    def side(name: str) -> dict[str, str]:
        return {"source": str(text / f"{name}.en"), "target": str(text / f"{name}.de")}

    training = RECIPE["training"] | ({"steps": steps} if steps is not None else {})
    return RECIPE | {"training": training, "data": {"train": [side("train")], "validation": [side("validation")]}}
