"""A look at one sentence has the engine's translation, and its numbers are consistent."""

import json
import os
from base64 import b64decode
from math import exp, log
from typing import Any

import numpy as np
import pytest
import torch

from regard.decoding import DecodingOptions
from regard.engines.torch_engine import TorchEngine
from regard.errors import DataError, UserError
from regard.lens import Head, Interventions, Lens, Look
from regard.lens.look_json import as_list
from regard.text import Tokenizer

from .conftest import SENTENCE, LensMaker

VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "pre"},
    {"attention": "dot_product"},
    {"attention": "additive"},
    {"positions": "learned"},
    {"activation": "swiglu"},
    {"tie": "none"},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize("beam", [1, 4])
def test_translation_equals_the_engines(make_lens: LensMaker, changes: dict[str, Any], beam: int) -> None:
    lens = make_lens(**(changes | {"ends": 0.7}))
    source = lens.loaded.tokenizers.source.encode("the animal")
    expected = TorchEngine(lens.loaded).translate([source], DecodingOptions(beam=beam))[0][0]
    look = lens.look("the animal", beam=beam)
    produced = look.target.outputs.ids
    assert produced[: len(expected.ids)] == list(expected.ids)
    assert len(produced) == len(expected.log_probs)
    assert look.log_probability == pytest.approx(sum(expected.log_probs), abs=1e-3)


def test_given_translation_gets_the_engines_score(lens: Lens, look: Look) -> None:
    tokenizers = lens.loaded.tokenizers
    source, target = tokenizers.source.encode(SENTENCE), tokenizers.target.encode(look.target.text)
    scored = TorchEngine(lens.loaded).score([source], [target])[0]
    assert look.target.given
    assert look.beam is None
    assert look.log_probability == pytest.approx(sum(scored.log_probs), abs=1e-4)
    assert [log(step.chosen.probability) for step in look.steps] == pytest.approx(scored.log_probs, abs=1e-4)


def test_inputs_are_outputs_shifted_by_one(look: Look, tokenizer: Tokenizer) -> None:
    inputs, outputs = look.target.inputs.ids, look.target.outputs.ids
    assert inputs == [tokenizer.bos_id, *outputs[:-1]]
    assert outputs[-1] == tokenizer.eos_id
    assert look.source.ids == [*tokenizer.encode(SENTENCE), tokenizer.eos_id]


def test_translation_cut_at_the_length_limit_has_no_end_token(make_lens: LensMaker, tokenizer: Tokenizer) -> None:
    lens = make_lens()
    with torch.no_grad():
        lens.loaded.model.output_weight[tokenizer.eos_id] = 0.0  # never the most probable
    look = lens.look("one", beam=1)
    assert look.target.outputs.ids[-1] != tokenizer.eos_id
    assert len(look.target.inputs.ids) == len(look.target.outputs.ids) == len(look.steps)
    assert look.beam is not None
    assert look.beam.nodes[-1].step == len(look.steps)


def test_step_has_the_ten_most_probable_tokens_and_the_entropy(look: Look) -> None:
    p = look.trace["logits"][0].double().softmax(-1).numpy()
    assert len(look.steps) == len(p)
    for step, row in zip(look.steps, p, strict=True):
        order = np.argsort(-row)[:10]
        assert [prediction.id for prediction in step.top] == order.tolist()
        assert [prediction.probability for prediction in step.top] == pytest.approx(row[order], rel=1e-4)
        assert step.entropy == pytest.approx(-(row * np.log(row)).sum(), rel=1e-4)
        assert step.chosen.probability == pytest.approx(row[step.chosen.id], rel=1e-4)


@pytest.mark.parametrize("attention", ["encoder", "decoder", "cross"])
def test_words_sum_columns_and_average_rows(look: Look, attention: Any) -> None:
    pieces = look.weights(attention, 1, "pieces")
    words = look.weights(attention, 1)
    rows, columns = look.rows_and_columns(attention)
    assert len(rows.words) < len(rows.pieces)  # otherwise the test checks nothing
    assert pieces.shape == (4, len(rows.pieces), len(columns.pieces))
    assert words.shape == (4, len(rows.words), len(columns.words))
    for i, row in enumerate(rows.words):
        for j, column in enumerate(columns.words):
            expected = pieces[:, list(row.pieces)][:, :, list(column.pieces)].sum(2).mean(1)
            np.testing.assert_allclose(words[:, i, j], expected, atol=1e-6)
    np.testing.assert_allclose(words.sum(-1), 1, atol=1e-5)
    assert look.labels(attention) == ([word.text for word in rows.words], [word.text for word in columns.words])
    assert look.labels(attention, "pieces")[1] == [piece.text for piece in columns.pieces]


def test_labels_of_the_three_attentions(look: Look) -> None:
    assert look.labels("encoder")[0][-1] == "</s>"
    assert look.labels("decoder")[1][:3] == ["<s>", "das", "Tier"]
    assert look.labels("cross")[0][-2:] == ["nicht", "</s>"]


def decoded(array: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(b64decode(array["float32"]), dtype="<f4").reshape(array["shape"])


def test_json_has_every_array_of_the_trace(look: Look) -> None:
    lists, packed = look.to_dict(), look.to_dict("base64")
    json.dumps(lists, allow_nan=False), json.dumps(packed, allow_nan=False)
    kinds = [(attention["attention"], attention["layer"]) for attention in lists["attentions"]]
    assert kinds == [("encoder", 0), ("encoder", 1), ("decoder", 0), ("cross", 0), ("decoder", 1), ("cross", 1)]
    paths = {"encoder": "encoder.{}.self", "decoder": "decoder.{}.self", "cross": "decoder.{}.cross"}
    assert lists["arrays"] == {} and lists["dependence"] is None
    for compact, readable in zip(packed["attentions"], lists["attentions"], strict=True):
        path = paths[readable["attention"]].format(readable["layer"]) + "_attention"
        assert readable["path"] == path
        trace = look.trace.at(path)
        for name in ("q", "k", "v", "scores", "scaled", "weights", "heads"):
            np.testing.assert_array_equal(decoded(compact[name]), trace[name][0])
            np.testing.assert_allclose(np.array(readable[name]), trace[name][0], rtol=1e-5, atol=1e-20)
        if readable["attention"] == "decoder":
            np.testing.assert_array_equal(np.array(readable["visible"]), np.tri(len(look.steps)))
        else:
            assert compact["visible"] is None
    names = [(sublayer["stack"], sublayer["layer"], sublayer["name"]) for sublayer in lists["sublayers"]]
    assert names[:3] == [("encoder", 0, "self"), ("encoder", 0, "feed_forward"), ("encoder", 1, "self")]
    assert names[4:7] == [("decoder", 0, "self"), ("decoder", 0, "cross"), ("decoder", 0, "feed_forward")]
    for sublayer in packed["sublayers"]:
        assert sublayer["path"].startswith(f"{sublayer['stack']}.{sublayer['layer']}.{sublayer['name']}")
        trace = look.trace.at(sublayer["path"])
        for part in ("before", "added", "after"):
            norms = np.linalg.norm(trace[part][0], axis=-1)
            np.testing.assert_allclose(decoded(sublayer[f"norm_{part}"]), norms, rtol=1e-5)
        np.testing.assert_array_equal(decoded(sublayer["added"]), trace["added"][0])
        np.testing.assert_array_equal(decoded(sublayer["after"]), trace["after"][0])
    for block in packed["feed_forward"]:
        hidden = look.trace[f"{block['stack']}.{block['layer']}.feed_forward.hidden"][0]
        np.testing.assert_array_equal(decoded(block["hidden"]), hidden)
    for side in ("source", "target"):
        parts = packed["embedding"][side]
        np.testing.assert_array_equal(decoded(parts["sum"]), decoded(parts["embedded"]) + decoded(parts["position"]))


def test_json_describes_model_and_sentence(look: Look) -> None:
    record = look.to_dict()
    assert record["format"] == "regard-look/1"
    model = record["model"]
    assert (model["name"], model["d_k"], model["alignment_head"]) == ("nonsense", 8, {"layer": 1, "head": 2})
    assert model["label_smoothing"] is None
    assert record["source"]["text"] == SENTENCE
    assert record["source"]["pieces"][-1] | {"word": 0} == {"text": "</s>", "id": 3, "word": 0, "special": True}
    assert record["target"]["inputs"]["words"][0] == {"text": "<s>", "pieces": [0], "special": True}
    assert record["interventions"] == {"heads_off": [], "scale": True, "mask": True, "positions": "normal"}
    assert record["beam"] is None
    assert record["change"] is None


def test_json_lists_have_six_significant_digits() -> None:
    values = [0.0, 1 / 3, -2e-7 / 3, 123456.789, 1.5, -1e-30, 12345678.0]
    written = as_list(torch.tensor(values, dtype=torch.float64))
    assert written[:5] == [0.0, 0.333333, -6.66667e-08, 123457.0, 1.5]
    assert max(len(repr(value)) for value in written) <= 12


def test_loading_a_run_reads_its_name_and_label_smoothing(tmp_path: Any, lens: Lens) -> None:
    from regard.artifact import save_model
    from regard.models import ModelSpec, named_weights

    loaded, run = lens.loaded, tmp_path / "en-de"
    run.mkdir()
    spec = ModelSpec("translation", loaded.architecture, loaded.config, loaded.tokenizers.sizes)
    parts = {"spec": spec, "assets": loaded.tokenizers.files(), "weights": named_weights(loaded.model)}
    save_model(run / "model", facts=loaded.facts, card="", **parts)
    assert Lens.load(run).look("one", "two").model["label_smoothing"] is None
    os.mkfifo(run / "recipe.toml")  # in a directory from someone else: reading it must not block
    assert Lens.load(run).look("one", "two").model["label_smoothing"] is None
    (run / "recipe.toml").unlink()
    (run / "recipe.toml").write_text("[training]\nsmoothing = 0.1\n")
    model = Lens.load(run / "model").look("one", "two").model
    assert (model["name"], model["label_smoothing"]) == ("en-de", 0.1)


def test_target_language_tag_comes_first(make_lens: LensMaker) -> None:
    lens = make_lens(tags=("de", "ko"))
    look = lens.look("one two", "two", target="ko")
    assert look.source.labels("words") == [">>ko<<", "one", "two", "</s>"]
    assert [word.special for word in look.source.words] == [True, False, False, True]
    with pytest.raises(DataError, match="no target language 'fr'"):
        lens.look("one", target="fr")


def test_target_language_is_required_only_if_the_model_has_several(make_lens: LensMaker) -> None:
    several = make_lens(tags=("de", "ko"))
    for call in (
        lambda: several.look("one"),
        lambda: several.change("one", Interventions()),
        lambda: several.heads([("one", "two")]),
    ):
        with pytest.raises(UserError, match="this model translates into de, ko; hint: choose one: --target de"):
            call()
    assert make_lens(tags=("de",)).look("one two", "two").source.labels("words") == [">>de<<", "one", "two", "</s>"]


@pytest.mark.parametrize(
    ("text", "translation", "message"),
    [
        (" \t ", None, "the text is blank"),
        ("one " * 60, None, "this text has .* sub-words; the model takes at most 40; hint: give one sentence"),
        ("one", "two " * 60, "this translation has .* sub-words; the model takes at most 40"),
        ("one", "  ", "the given translation is blank"),
    ],
)
def test_invalid_text_raises_a_one_line_error(lens: Lens, text: str, translation: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        lens.look(text, translation)
    assert "\n" not in str(raised.value)


def test_learned_positions_limit_the_length(make_lens: LensMaker) -> None:
    lens = make_lens(positions="learned", max_positions=16)
    assert lens.max_length == 15
    with pytest.raises(UserError, match="the model takes at most 15"):
        lens.look(SENTENCE * 2)
    look = lens.look("one two three")
    assert len(look.steps) <= 16


def test_unknown_interventions_and_formats_are_errors(lens: Lens) -> None:
    with pytest.raises(UserError, match=r"no head cross\.2\.0; hint: it has encoder\.0\.0 to encoder\.1\.3, decoder"):
        lens.look("one", interventions=Interventions(heads_off=frozenset([Head("cross", 2, 0)])))
    with pytest.raises(UserError, match="positions cannot be 'sideways'"):
        lens.look("one", interventions=Interventions(positions="sideways"))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="arrays cannot be 'tuple'"):
        lens.look("one", "two").to_dict("tuple")  # type: ignore[arg-type]


def test_probability_of_a_word_is_the_product_over_its_pieces(lens: Lens) -> None:
    change, look = lens.change("one two", Interventions(scale=False)), lens.look("one two")
    words = [word for word in look.target.outputs.words if not word.special]
    for (text, probability), word in zip(change.before.words, words, strict=True):
        assert text == word.text
        steps = [log(look.steps[i].chosen.probability) for i in word.pieces]
        assert probability == pytest.approx(exp(sum(steps)), rel=1e-3)
