"""Calibration, and what a classifier reads."""

from typing import Any

import pytest
import torch

from regard.artifact import LoadedModel
from regard.errors import UserError
from regard.models.encoder import EncoderClassifier, EncoderConfig
from regard.tasks.classes import fit_temperature
from regard.tasks.classification.look import look_at_text
from regard.tasks.classification.predictor import Classifier
from regard.text import Tokenizer, TokenizerPair, train_tokenizer


def make_classifier(n_texts: int = 1, limit: int = 20, **facts: Any) -> Classifier:
    tokenizer = Tokenizer(train_tokenizer(["the film was lovely and the play was cold"] * 9, size=300))
    torch.manual_seed(1)
    config = EncoderConfig(n_layers=1, d_model=16, d_ff=16, n_heads=2)
    model = EncoderClassifier(config, tokenizer.size, 3, n_texts).eval()
    loaded = LoadedModel("encoder", config, model, TokenizerPair(tokenizer, tokenizer), facts | {"n_texts": n_texts})
    return Classifier(loaded, ["a", "b", "c"], limit)


@pytest.mark.parametrize("true_temperature", [0.3, 1.0, 4.0])
def test_the_fitted_temperature_is_that_of_the_labels(true_temperature: float) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(4000, 3, generator=generator)
    classes = torch.multinomial((logits / true_temperature).softmax(-1), 1, generator=generator)[:, 0]
    assert fit_temperature(logits, classes) == pytest.approx(true_temperature, rel=0.1)


def test_few_texts_do_not_prove_certainty() -> None:
    logits, classes = 5 * torch.eye(2).repeat(30, 1), torch.tensor([0, 1] * 30)
    certain = (logits[0] / fit_temperature(logits, classes)).softmax(-1)
    assert float(certain[0]) == pytest.approx(61 / 62, abs=1e-3)


def test_probabilities_are_those_of_the_temperature() -> None:
    plain, calibrated = make_classifier(), make_classifier(temperature=2.0)
    a, b = (classifier.predict(["the film"])[0] for classifier in (plain, calibrated))
    assert a.label == b.label and sum(b.probabilities.values()) == pytest.approx(1)
    ratios = [p.probabilities["a"] / p.probabilities["b"] for p in (a, b)]
    assert ratios[1] == pytest.approx(ratios[0] ** 0.5)
    assert b.text == f"{b.label}\t{b.probability:.4f}"
    for broken in (0, -1.0, "2", float("nan"), None):
        assert make_classifier(temperature=broken).temperature == 1.0


def test_many_texts_of_any_length_get_the_predictions_that_each_gets_alone() -> None:
    classifier = make_classifier(limit=4096)
    inputs = ["", "film", "the film was lovely " * 300, *["the play was cold"] * 900, "x" * 50]
    together = classifier.predict(inputs)
    for i in (0, 1, 2, 500, 903):
        alone = classifier.predict([inputs[i]])[0]
        assert together[i].label == alone.label
        assert together[i].probability == pytest.approx(alone.probability, abs=1e-5)
    assert classifier.predict([]) == []


@pytest.mark.parametrize(
    ("n_texts", "value"), [(1, ["a", "b"]), (1, 3), (2, "no tab"), (2, ["a"]), (2, ["a", 1]), (2, 1)]
)
def test_other_inputs_are_refused(n_texts: int, value: Any) -> None:
    with pytest.raises(UserError, match="an input must be"):
        make_classifier(n_texts).predict([value])


def test_a_pair_is_a_line_with_a_tab_or_a_list() -> None:
    classifier = make_classifier(2)
    line, pair, swapped = classifier.predict(["the film\tthe play", ["the film", "the play"], ["the play", "the film"]])
    assert line == pair != swapped


@pytest.mark.parametrize(("n_texts", "value"), [(1, "the film was  lovely"), (2, "the film\twas lovely"), (1, "")])
def test_a_look_shows_what_the_label_depends_on(n_texts: int, value: str) -> None:
    classifier = make_classifier(n_texts)
    look = look_at_text(classifier, value)
    record = look.to_dict()
    assert record["prediction"] == classifier.predict([value])[0].to_dict()
    assert [word.text for word in look.words] == value.split()
    assert len(look.pieces) == len(record["dependence"][0]) == look.trace["words.embedding"].shape[1]
    if value:
        rest = "film was lovely" if n_texts == 1 else "film\twas lovely"
        [without] = classifier.predict([rest])
        assert look.words[0].without == pytest.approx(without.probabilities[look.prediction["label"]])
        assert sum(word.gradient for word in look.words) == pytest.approx(1)
    assert len(look.table()) == 1 + len(look.words)
    assert look.picture().title.startswith("Attention")
