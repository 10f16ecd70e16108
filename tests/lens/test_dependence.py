"""What each output depends on, for models with attention, with recurrence, and with neither of them."""

import json
from itertools import combinations
from math import isnan, sqrt
from typing import Any

import numpy as np
import pytest
import torch

from regard.artifact import LoadedModel
from regard.cli.look.terminal import print_look
from regard.errors import UserError
from regard.lens import Head, Lens
from regard.lens.dependence import rank_agreement
from regard.lens.look import Look
from regard.lens.plots.pictures import draw_dependence, draw_head, draw_heads, draw_vectors
from regard.models import ModelSpec
from regard.models.recurrent import RecurrentConfig
from regard.text import Tokenizer, TokenizerPair

from .conftest import LensMaker

SOURCE, TRANSLATION = "the animal was tired because it did not cross the street", "das Tier war zu müde"


def recurrent_lens(tokenizer: Tokenizer, cell: str, **config: Any) -> Lens:
    settings = RecurrentConfig(d_model=16, **config)
    sizes = {"n_src_symbols": tokenizer.size, "n_tgt_symbols": tokenizer.size, "pad_id": tokenizer.pad_id}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = ModelSpec("translation", cell, settings, sizes).build().eval()
    facts: dict[str, Any] = {"max_length": 40}
    if config["attention"] != "none":
        facts["alignment_head"] = {"layer": 0, "head": 0}
    return Lens(LoadedModel(cell, settings, model, TokenizerPair(tokenizer, tokenizer), facts), "recurrent")


@pytest.fixture(scope="module", params=["transformer", "lstm", "gru"])
def lens(request: pytest.FixtureRequest, make_lens: LensMaker, tokenizer: Tokenizer) -> Lens:
    if request.param == "transformer":
        return make_lens()
    return recurrent_lens(tokenizer, request.param, attention="none" if request.param == "lstm" else "additive")


@pytest.fixture(scope="module")
def look(lens: Lens) -> Look:
    return lens.look(SOURCE, TRANSLATION, dependence=True)


def test_left_out_is_how_much_a_log_probability_falls_without_the_word(lens: Lens, look: Look) -> None:
    assert look.dependence is not None
    words, outputs = SOURCE.split(), torch.tensor(look.target.outputs.ids)[:, None]

    def log_probs(text: str) -> torch.Tensor:
        ids = torch.tensor([[*lens.loaded.tokenizers.source.encode(text), look.source.ids[-1]]])
        with torch.inference_mode():
            logits = lens.loaded.model(ids, torch.tensor([look.target.inputs.ids]))[0]
        return logits.log_softmax(-1).gather(1, outputs)[:, 0]

    whole = log_probs(SOURCE)
    for number in range(len(words)):
        fall = whole - log_probs(" ".join(words[:number] + words[number + 1 :]))
        torch.testing.assert_close(look.dependence.left_out[:, number], fall, atol=1e-5, rtol=1e-4)
    assert not look.dependence.left_out[:, -1].any()  # </s> cannot be left out


def test_long_sentences_are_measured_in_parts(lens: Lens, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.lens.dependence._MAX_LOGITS", 1)
    in_parts = lens.look(SOURCE, TRANSLATION, dependence=True).dependence
    assert in_parts is not None and look.dependence is not None
    torch.testing.assert_close(in_parts.left_out, look.dependence.left_out, atol=1e-5, rtol=1e-4)


def test_words_of_the_translation_add_up_and_source_sub_words_share_the_value_of_their_word(look: Look) -> None:
    words, pieces = look.importance("words")["left_out"], look.importance("pieces")["left_out"]
    first, last = look.target.outputs.words[0], look.source.words[-2]
    np.testing.assert_allclose(words[0, -2], pieces[list(first.pieces)][:, last.pieces[0]].sum(), rtol=1e-5)
    assert (pieces[:, list(last.pieces)] == pieces[:, [last.pieces[0]]]).all()


def test_agreement_is_kendalls_tau_over_words(look: Look) -> None:
    names, agreement = list(look.importance()), look.agreement()
    assert ("attention" in names) == bool(look.layers("cross"))
    assert list(agreement) == list(combinations(names, 2))
    for (a, b), (by_word, mean) in agreement.items():
        assert len(by_word) == len(look.target.outputs.words) and isnan(by_word[-1])  # </s>
        values = [np.abs(look.importance()[name][0, :-1]) for name in (a, b)]
        assert by_word[0] == pytest.approx(kendall(*values), abs=1e-6)
        assert mean == pytest.approx(np.nanmean(by_word))


def kendall(a: np.ndarray, b: np.ndarray) -> float:
    """τ-b as defined: concordant minus discordant pairs, divided by the pairs without ties in each ranking."""
    pairs = list(combinations(range(len(a)), 2))
    balance = sum(np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in pairs)
    untied = [sum(x[i] != x[j] for i, j in pairs) for x in (a, b)]
    return float(balance / sqrt(untied[0] * untied[1]))


def test_equal_orders_agree_reversed_ones_disagree_and_constant_ones_rank_nothing() -> None:
    row = np.array([[0.1, 0.5, 0.3, 0.3]], dtype=np.float32)
    assert rank_agreement(row, row**2)[0] == pytest.approx(1)
    assert rank_agreement(row, -row)[0] == pytest.approx(-1)
    assert rank_agreement(row, np.array([[1, 2, 0, 3]], dtype=np.float32))[0] == pytest.approx(
        kendall(row[0], np.array([1, 2, 0, 3]))
    )
    assert isnan(rank_agreement(row, np.zeros_like(row))[0])


def test_json_has_the_measures_and_their_agreement(look: Look) -> None:
    record = look.to_dict()["dependence"]
    json.dumps(record, allow_nan=False)
    assert np.array(record["gradients"]).shape == (len(look.steps), len(look.source.pieces))
    assert np.array(record["left_out"]).shape == (len(look.steps), len(look.source.words))
    assert record["agreement"][-1]["between"] == ("gradient", "left_out")
    assert record["agreement"][-1]["by_word"][-1] is None


def test_terminal_shows_every_measure_beside_the_others(look: Look, capsys: pytest.CaptureFixture[str]) -> None:
    print_look(look, "dependence")
    output = capsys.readouterr().out
    heading = next(line for line in output.splitlines() if line.startswith("word "))
    assert ("attention" in heading) == bool(look.layers("cross"))
    assert "gradient" in heading and "left out" in heading and "recorded" not in output
    [mean] = [line for line in output.splitlines() if line.startswith("mean τ: ")]
    assert f"gradient and left out {look.agreement()['gradient', 'left_out'][1]:.2f}".replace("-", "−") in mean


def test_picture_has_a_map_for_every_measure_and_one_of_their_agreement(lens: Lens, look: Look) -> None:
    maps = [axes.images[0].get_array() for axes in draw_dependence(look).figure.axes]
    views = look.importance()
    n_words, n_pairs = len(look.target.outputs.words), len(views) * (len(views) - 1) // 2
    assert [drawn.shape for drawn in maps] == [values.shape for values in views.values()] + [(n_words, n_pairs)]
    for drawn, values in zip(maps, views.values(), strict=False):
        np.testing.assert_array_equal(drawn, values)
    with pytest.raises(UserError, match="add --show dependence"):
        draw_dependence(lens.look(SOURCE, TRANSLATION))


def test_scores_are_drawn_and_listed_as_they_were_before_the_softmax(tokenizer: Tokenizer) -> None:
    look = recurrent_lens(tokenizer, "gru", attention="additive").look(SOURCE, TRANSLATION)
    scores = look.scores("cross", 0, "pieces")
    torch.testing.assert_close(
        torch.tensor(scores).softmax(-1), torch.tensor(look.weights("cross", 0, "pieces")), atol=1e-6, rtol=1e-5
    )
    by_word = look.scores("cross", 0)
    word = look.source.words[1]
    assert by_word[0, -1, 1] == scores[0, -1, list(word.pieces)].max()  # the row of </s>
    for picture in (
        draw_heads(look, "cross", before_softmax=True),
        draw_head(look, Head("cross", 0, 0), before_softmax=True),
    ):
        np.testing.assert_array_equal(picture.figure.axes[0].images[0].get_array(), by_word[0])


def test_states_and_gates_are_listed_and_drawn_over_time(
    tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    look = recurrent_lens(tokenizer, "lstm", attention="none", n_layers=2).look(SOURCE, TRANSLATION)
    print_look(look, "states")
    tables = capsys.readouterr().out.split("\n\n")[1:]
    assert [table.split()[0] for table in tables] == [
        f"{side}.layers.{layer}" for side in ("encoder", "decoder") for layer in (0, 1)
    ]
    heading, *rows = tables[0].splitlines()
    assert "forget_gate, mean" in heading and len(rows) == len(look.source.pieces)
    assert f"{look.trace['encoder.layers.0.forget_gate'][0, 0].mean():.2f}" in rows[0]
    images = [axes.images[0] for axes in draw_vectors(look).figure.axes]
    assert len(images) == 4 * 4  # the states and three gates of each layer
    gates = look.trace["encoder.layers.0.forget_gate"][0]
    [drawn] = [image for image in images if np.array_equal(image.get_array(), gates)]
    assert drawn.get_clim() == (0, 1)
