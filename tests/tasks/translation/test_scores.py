"""The length penalty of a model: selected on the validation set, and used by everything that translates."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from regard.artifact import load_model, search_options
from regard.decoding import Hypothesis
from regard.engines.torch_engine import TorchEngine
from regard.lens import Lens
from regard.serve import load_models
from regard.tasks.translation.scores import LENGTH_PENALTIES, MIN_SENTENCES, best_length_penalty
from regard.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden" / "model"


class Store:
    """Pairs that all have the given target."""

    def __init__(self, target: list[int], n_pairs: int) -> None:
        self._target, self._n_pairs = target, n_pairs

    def __len__(self) -> int:
        return self._n_pairs

    def pair(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.array([7, 8]), np.array(self._target)


def selected_penalty(monkeypatch: pytest.MonkeyPatch, correct: str, n_pairs: int = MIN_SENTENCES) -> float:
    """The search always finds a short translation and a long one, which is likelier per token; one is correct."""
    loaded = load_model(GOLDEN)
    encode = loaded.tokenizers.target.encode
    short, long = encode("1 2 3 4 5"), encode("1 2 3 4 5 6 7 8 9 1 2 3")
    ranked = [
        Hypothesis(tuple(short), (-2.0 / (len(short) + 1),) * (len(short) + 1), 0.0),
        Hypothesis(tuple(long), (-3.1 / (len(long) + 1),) * (len(long) + 1), 0.0),
    ]
    monkeypatch.setattr(TorchEngine, "translate", lambda self, sources, options: [ranked] * len(sources))
    store: Any = Store(short if correct == "short" else long, n_pairs)
    return best_length_penalty(loaded, store, 1000, torch.device("cpu"))


def test_selected_penalty_prefers_the_correct_length(monkeypatch: pytest.MonkeyPatch) -> None:
    assert selected_penalty(monkeypatch, "short") == LENGTH_PENALTIES[0]
    assert selected_penalty(monkeypatch, "long") > LENGTH_PENALTIES[0]


def test_penalty_is_the_papers_with_too_few_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    assert selected_penalty(monkeypatch, "long", n_pairs=MIN_SENTENCES - 1) == LENGTH_PENALTIES[0] == 0.6


@pytest.mark.parametrize("value", [None, True, "1.0", -0.1, 1e300, float("nan"), [1.0]])
def test_invalid_penalty_in_a_model_is_replaced_by_the_papers(value: object) -> None:
    assert search_options({"length_penalty": value}).length_penalty == 0.6


def test_service_and_translator_use_the_penalty_of_the_model() -> None:
    (served,) = load_models([GOLDEN], n_engines=1)
    assert served.description is not None
    served.description.facts["length_penalty"] = 1.2
    assert served.options.length_penalty == 1.2
    with Translator.load(GOLDEN) as plain:
        assert plain.options.length_penalty == 0.6
        assert Translator(served.description, plain.engine).options.length_penalty == 1.2


def test_lens_uses_the_penalty_of_the_model() -> None:
    loaded = load_model(GOLDEN)
    scores = []
    for alpha in (0, 3):
        loaded.facts["length_penalty"] = alpha
        tree = Lens(loaded).look("3 1 2").beam
        assert tree is not None
        scores.append([node.score for node in tree.nodes if node.finished])
    assert scores[0] != scores[1]
