"""The length penalty of a model: chosen where there is enough text to tell, and taken up by whoever translates."""

from pathlib import Path
from typing import Any

import pytest

from regard.artifact import load_model, search_options
from regard.decoding import Hypothesis
from regard.engines.torch_engine import TorchEngine
from regard.lens import Lens
from regard.run.penalty import ENOUGH_SENTENCES, PENALTIES, choose_length_penalty
from regard.serve import load_models
from regard.translator import Translator

GOLDEN = Path(__file__).parents[1] / "golden" / "model"


class Store:
    """Pairs whose target is the given text."""

    def __init__(self, target: list[int], n_pairs: int) -> None:
        self._target, self._n_pairs = target, n_pairs

    def __len__(self) -> int:
        return self._n_pairs

    def pair(self, index: int) -> tuple[list[int], list[int]]:
        return [7, 8], self._target


def choose(monkeypatch: pytest.MonkeyPatch, right: str, n_pairs: int = ENOUGH_SENTENCES) -> float:
    """The search always finds a short and a long translation, which is likelier symbol by symbol; one is right."""
    loaded = load_model(GOLDEN)
    encode = loaded.tokenizers.target.encode
    short, long = encode("1 2 3 4 5"), encode("1 2 3 4 5 6 7 8 9 1 2 3")
    ranked = [
        Hypothesis(tuple(short), (-2.0 / (len(short) + 1),) * (len(short) + 1), 0.0),
        Hypothesis(tuple(long), (-3.1 / (len(long) + 1),) * (len(long) + 1), 0.0),
    ]
    monkeypatch.setattr(TorchEngine, "translate", lambda self, sources, options: [ranked] * len(sources))
    store: Any = Store(short if right == "short" else long, n_pairs)
    return choose_length_penalty(loaded, store, n_sentences=1000)


def test_it_is_the_one_that_prefers_what_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(monkeypatch, "short") == PENALTIES[0]
    assert choose(monkeypatch, "long") > PENALTIES[0]


def test_a_few_sentences_can_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(monkeypatch, "long", n_pairs=ENOUGH_SENTENCES - 1) == PENALTIES[0] == 0.6


@pytest.mark.parametrize("said", [None, True, "1.0", -0.1, 1e300, float("nan"), [1.0]])
def test_what_is_no_penalty_is_the_paper_s(said: object) -> None:
    assert search_options({"length_penalty": said}).length_penalty == 0.6


def test_everyone_who_translates_takes_it_up() -> None:
    (served,) = load_models([GOLDEN], n_engines=1)
    assert served.description is not None
    served.description.facts["length_penalty"] = 1.2
    assert served.options.length_penalty == 1.2
    with Translator.load(GOLDEN) as plain:
        assert plain.options.length_penalty == 0.6
        assert Translator(served.description, plain.engine).options.length_penalty == 1.2


def test_the_lens_scores_with_it() -> None:
    loaded = load_model(GOLDEN)
    scores = []
    for alpha in (0, 3):
        loaded.facts["length_penalty"] = alpha
        tree = Lens(loaded).look("3 1 2").beam
        assert tree is not None
        scores.append([node.score for node in tree.nodes if node.finished])
    assert scores[0] != scores[1]
