"""The guided first run: train on the street corpus, then ask the model about sentences that it has never seen."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.decoding.records import DecodingOptions
from regard.demo.street import StreetPair, canonical, split, write
from regard.recipe import Watcher, train
from regard.translator import Translator

SEED = 1
RECIPE: dict[str, Any] = {
    "text": {"vocabulary": 1400},  # enough for almost every word to be one piece
    "model": {"preset": "tiny", "n_encoder_layers": 2, "n_decoder_layers": 2, "norm": "pre"},
    "training": {
        "steps": 600,
        "max_tokens": 2048,
        "schedule": "cooldown",
        "rate": 0.004,
        "warmup": 60,
        "clip": 1.0,
        "save_every": 300,
        "validate_every": 150,
        "translated": 50,
        "average": 1,
    },
}


@dataclass(frozen=True)
class Accuracy:
    """Shares of sentences that came out exactly right, and of pronouns."""

    exact: float
    pronouns: float


@dataclass(frozen=True)
class FirstRun:
    """What the demo has to tell."""

    test: Accuracy
    unseen: Accuracy
    examples: tuple[tuple[str, str], ...]  # the two famous sentences, and what the model makes of them


def first_run(out: Path, watcher: Watcher, *, again: bool = False, steps: int | None = None) -> FirstRun:
    """Train in `out` if no run is there, and measure what was learned."""
    if again and (out / "recipe.toml").exists():
        shutil.rmtree(out)
    corpus = split(SEED)
    text = out / "data" / "street"
    if not (text / "train.en").exists():
        write(text, corpus)
    train(_recipe(text, steps), out, watcher=watcher)
    with Translator.load(out, precision="float32") as translator:
        test, unseen = (measure(translator, pairs) for pairs in (corpus.test, corpus.unseen))
        famous = canonical()
        done = translator.translate([pair.source for pair in famous])
    examples = tuple((pair.source, one.text) for pair, one in zip(famous, done, strict=True))
    return FirstRun(test, unseen, examples)


def measure(translator: Translator, pairs: Sequence[StreetPair]) -> Accuracy:
    """Translate and compare with the one right answer."""
    done = translator.translate([pair.source for pair in pairs], options=DecodingOptions(beam=1))
    exact = sum(one.text == pair.target for one, pair in zip(done, pairs, strict=True))
    asked = [(one.text.split(), pair) for one, pair in zip(done, pairs, strict=True) if _ambiguous(pair)]
    right = sum(_pronoun_at(words, pair) for words, pair in asked)
    return Accuracy(exact / len(pairs), right / max(1, len(asked)))


def _ambiguous(pair: StreetPair) -> bool:
    """Whether only a later word tells which noun the pronoun stands for."""
    return pair.pronoun is not None and pair.pronoun.informative


def _pronoun_at(words: list[str], pair: StreetPair) -> bool:
    assert pair.pronoun is not None
    place = pair.pronoun.target_index
    return place < len(words) and words[place] == pair.pronoun.german


def _recipe(text: Path, steps: int | None) -> dict[str, Any]:
    def side(name: str) -> dict[str, str]:
        return {"source": str(text / f"{name}.en"), "target": str(text / f"{name}.de")}

    training = RECIPE["training"] | ({"steps": steps} if steps is not None else {})
    return RECIPE | {"training": training, "data": {"train": [side("train")], "validation": [side("validation")]}}
