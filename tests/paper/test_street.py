"""The story, and pronouns by distance, on the street corpus."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from regard.paper import distance as module
from regard.paper.distance import DISTANCES, distance, distance_text, generate
from regard.paper.rows import ARCHITECTURE_ROWS, Trainer
from regard.paper.story import story
from regard.paper.texts import street_text

MakeTrainer = Callable[..., Trainer]


def test_the_story_compares_three_models(make_trainer: MakeTrainer, tmp_path: Path) -> None:
    text = street_text(tmp_path / "data", n_train=1_500, n_test=16)
    document = story(text, make_trainer(text))
    assert list(document.values["rows"]) == ["lstm", "lstm-attention", "transformer"]
    for row in document.values["rows"].values():
        assert len(row["outputs"]) == 16 and len(row["canonical"]) == 2 and 0 <= row["pronouns"] <= 1
    titles = [section.title for section in document.sections]
    assert titles[1:4] == ["What is “it”?", "Long sentences", "What each gets wrong"]
    figures = [figure for section in document.sections[4:] for figure in section.figures]
    assert [figure.count("<rect") > 50 for figure in figures] == [True] * 6  # three models, two sentences
    assert sum("gradients" in figure for figure in figures) == 2  # of the model without attention
    page = document.write(tmp_path).read_text()
    assert "The animal did not cross the street because it was too wide." in page


@pytest.mark.parametrize("k", DISTANCES)
def test_sentences_have_k_words_before_the_reason(k: int) -> None:
    short, long = (next(generate(Random(3), n)) for n in (0, k))
    assert len(long.source.split()) - len(short.source.split()) == k or k > 0
    for pair in islice(generate(Random(k), k), 20):
        right, wrong = pair.target.split(), pair.wrong.split()
        [changed] = [i for i, (a, b) in enumerate(zip(right, wrong, strict=True)) if a != b]
        assert {right[changed], wrong[changed]} <= {"er", "sie", "es"}


def test_the_pronoun_is_measured_at_every_distance(
    make_trainer: MakeTrainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DISTANCES", (0, 8))
    text = distance_text(tmp_path / "data", n_train=600, n_valid=20)
    document = distance(text, make_trainer(text), ARCHITECTURE_ROWS[-1:], n_test=10)
    shares = document.values["rows"]["transformer"]["shares"]
    assert list(shares) == ["0", "8"]
    assert all(0 <= each["low"] <= each["share"] <= each["high"] <= 1 for each in shares.values())
    assert "Wilson" in document.to_markdown()
