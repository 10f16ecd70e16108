"""Looks at models that are not Transformers: a bag of words with a GRU, one with one attention, and another task."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.artifact import LoadedModel
from regard.cli.look.terminal import print_look
from regard.data import Place, collate_pairs
from regard.decoding import DecodingOptions
from regard.engines.alignment_head import alignment_facts
from regard.engines.torch_engine import TorchEngine
from regard.errors import ArtifactError, UserError
from regard.lens import Head, Interventions, Lens
from regard.lens.html import look_page
from regard.lens.inspect import inspect
from regard.lens.look import Look
from regard.lens.plots.pictures import draw_vectors
from regard.models import ARCHITECTURES
from regard.nn import Trace
from regard.tasks import TASKS
from regard.text import Tokenizer, TokenizerPair

from ..foreign.bag_of_words import BagOfWords, BagOfWordsConfig
from ..foreign.vectors import VectorClassifier, Vectors, VectorsConfig
from .conftest import SENTENCE, LensMaker

for name in ("bag-of-words", "vector-classifier"):
    del ARCHITECTURES[name]  # other tests in this process look at what regard itself has
del TASKS["vectors"]

TRANSLATION = "das Tier überquerte die Straße nicht"


class Attentive(BagOfWords):
    """The same model, which records the weights of a mean as one attention, as an RNN with attention would."""

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        if trace is not None:
            weights = torch.full((len(src), 1, tgt_in.shape[1], src.shape[1]), 1 / src.shape[1])
            axes = ("head", "target", "source")
            trace.at("gru").record("attention", weights, kind="attention", axes=axes)
        return super().features(src, tgt_in, trace)


def lens_of(model_type: type[BagOfWords], tokenizer: Tokenizer, facts: dict[str, Any] | None = None) -> Lens:
    config = BagOfWordsConfig(d_hidden=8)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = model_type(config, tokenizer.size, tokenizer.size, tokenizer.pad_id).eval()
    facts = {"max_length": 40} | (facts or {})
    return Lens(LoadedModel("bag-of-words", config, model, TokenizerPair(tokenizer, tokenizer), facts), "bag")


@pytest.fixture(scope="module")
def bag(tokenizer: Tokenizer) -> Lens:
    return lens_of(BagOfWords, tokenizer)


@pytest.fixture(scope="module")
def look(bag: Lens) -> Look:
    return bag.look(SENTENCE, TRANSLATION, dependence=True)


def test_json_has_what_there_is(look: Look) -> None:
    record = look.to_dict()
    json.dumps(record, allow_nan=False)
    assert (record["attentions"], record["sublayers"], record["feed_forward"]) == ([], [], [])
    assert record["embedding"]["source"]["position"] is None and record["embedding"]["target"]["embedded"] is None
    assert np.array(record["embedding"]["source"]["embedded"]).shape == (len(look.source.ids), 8)
    assert [(block["path"], block["kinds"]) for block in record["blocks"]] == [
        ("words_in", ["embedding"]),
        ("gru", ["state"]),
        ("", ["logits"]),
    ]
    states = {"path": "gru.states", "kind": "state", "axes": ("target", "unit"), "shape": (len(look.steps), 8)}
    assert record["sites"][1] == states
    assert list(record["arrays"]) == ["gru.states"]
    np.testing.assert_allclose(record["arrays"]["gru.states"], look.trace["gru.states"][0], rtol=1e-5)
    model = record["model"]
    assert (model["architecture"], model["task"], model["size"]) == (
        "bag-of-words",
        "translation",
        "a bag of words and a GRU of 8",
    )
    assert model["config"]["d_hidden"] == 8 and model["alignment_head"] is None
    assert not any(model["interventions"].values())


def test_a_search_and_the_html_file_work_too(bag: Lens) -> None:
    look = bag.look(SENTENCE)
    assert look.beam is not None and look.dependence is None and look.importance() == {}
    assert "gru.states" in look_page(look.to_dict("base64"))


def test_terminal_lists_probabilities_alternatives_and_what_was_recorded(
    bag: Lens, capsys: pytest.CaptureFixture[str]
) -> None:
    look = bag.look(SENTENCE, TRANSLATION)
    print_look(look)
    output = capsys.readouterr().out
    assert "instead of" in output and f"{look.steps[0].chosen.probability:.1%}" in output
    [states] = [line for line in output.splitlines() if line.startswith("gru.states")]
    assert "state" in states and f"target {len(look.steps)} × unit 8" in states
    norms = look.trace["gru.states"][0].norm(dim=-1)
    assert states[-len(look.steps) :][int(norms.argmax())] == "█"


@pytest.mark.parametrize(
    ("interventions", "message"),
    [
        (Interventions(heads_off=frozenset([Head("cross", 0, 0)])), "no head cross.0.0; hint: it has no attention"),
        (Interventions(scale=False), "no scale"),
        (Interventions(mask=False), "no mask"),
        (Interventions(positions="none"), "no vectors of positions"),
    ],
)
def test_interventions_that_a_model_does_not_offer_are_refused(
    bag: Lens, interventions: Interventions, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        bag.look(SENTENCE, TRANSLATION, interventions=interventions)


def test_heads_cannot_be_measured_where_there_are_none(bag: Lens) -> None:
    assert bag.all_heads == []
    with pytest.raises(UserError, match="no attention heads"):
        bag.heads([(SENTENCE, TRANSLATION)])


def test_the_picture_is_the_states(bag: Lens, look: Look) -> None:
    assert draw_vectors(look).figure.axes[0].images[0].get_array().shape == (len(look.steps), 8)


def test_no_alignment_head_without_attention_to_the_source(bag: Lens, tokenizer: Tokenizer) -> None:
    model, ids = bag.loaded.model, tokenizer.encode("one two three")
    batch = collate_pairs([(ids, ids)], pad_id=0, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id)
    assert alignment_facts(model, [batch]) == {}
    [[hypothesis]] = TorchEngine(bag.loaded).translate([ids], DecodingOptions(beam=1), with_attention=True)
    assert hypothesis.attention is None
    with pytest.raises(ArtifactError, match="no alignment head"):
        lens_of(BagOfWords, tokenizer, {"alignment_head": {"layer": 0, "head": 0}})


def test_a_single_attention_is_one_layer_with_one_head(tokenizer: Tokenizer) -> None:
    lens = lens_of(Attentive, tokenizer, {"alignment_head": {"layer": 0, "head": 0}})
    assert lens.all_heads == [Head("cross", 0, 0)]
    look, ids = lens.look(SENTENCE, TRANSLATION), tokenizer.encode("one two three")
    np.testing.assert_allclose(look.weights("cross", 0).sum(-1), 1, rtol=1e-5)
    [attention] = look.to_dict()["attentions"]
    assert (attention["attention"], attention["layer"], attention["path"]) == ("cross", 0, "gru")
    assert attention["q"] is None and np.array(attention["weights"]).shape == (1, len(look.steps), len(look.source.ids))
    with pytest.raises(UserError, match="gru did not record its scores"):
        look.scores("cross", 0)
    assert not look.model["interventions"]["heads_off"]  # this attention cannot be ablated
    with pytest.raises(UserError, match=r"no head cross\.0\.0"):
        lens.look(SENTENCE, TRANSLATION, interventions=Interventions(heads_off=frozenset([Head("cross", 0, 0)])))
    [[hypothesis]] = TorchEngine(lens.loaded).translate([ids], DecodingOptions(beam=1), with_attention=True)
    assert hypothesis.attention is not None
    assert hypothesis.attention[0] == pytest.approx([1 / (len(ids) + 1)] * len(ids))
    batch = collate_pairs([(ids, ids)], pad_id=0, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id)
    assert alignment_facts(lens.loaded.model, [batch])["alignment_head"]["head"] == 0


@pytest.mark.parametrize("architecture", ["transformer", "bag"])
def test_gradients_equal_finite_differences(make_lens: LensMaker, bag: Lens, architecture: str) -> None:
    lens = make_lens() if architecture == "transformer" else bag
    look = lens.look("one two three", "four five", dependence=True)
    assert look.dependence is not None
    src, tgt_in = torch.tensor([look.source.ids]), torch.tensor([look.target.inputs.ids])
    position, output, step = 1, 2, 1e-5
    with torch.inference_mode(False), torch.no_grad():
        model = type(lens.loaded.model)(lens.loaded.config, *[lens.loaded.tokenizers.source.size] * 2).eval().double()
        model.load_state_dict({name: value.double() for name, value in lens.loaded.model.state_dict().items()})
        module = model.source.embedding if architecture == "transformer" else model.words_in
        change = torch.zeros(1, src.shape[1], look.trace.sites("embedding")[0].shape[-1], dtype=torch.float64)

        def log_prob(unit: int, by: float) -> float:
            change.zero_()[0, position, unit] = by
            hook = module.register_forward_hook(lambda _, ids, out: out + change if ids[0].shape == src.shape else out)
            logits = model(src, tgt_in)
            hook.remove()
            return float(logits[0, output].log_softmax(-1)[look.target.outputs.ids[output]])

        slopes = [(log_prob(unit, step) - log_prob(unit, -step)) / (2 * step) for unit in range(change.shape[-1])]
    assert src.shape != tgt_in.shape  # the hook tells source from target by it
    assert float(look.dependence.gradients[output, position]) == pytest.approx(float(np.linalg.norm(slopes)), rel=1e-3)


def test_a_look_with_dependence_is_otherwise_the_same(make_lens: LensMaker) -> None:
    lens = make_lens()
    plain, with_dependence = (
        lens.look(SENTENCE, TRANSLATION, dependence=dependence).to_dict() for dependence in (False, True)
    )
    assert plain.pop("dependence") is None and with_dependence.pop("dependence") is not None
    assert plain == with_dependence
    for parameter in lens.loaded.model.parameters():
        assert parameter.grad is None
        parameter.requires_grad_(False)
    frozen = lens.look(SENTENCE, TRANSLATION, dependence=True).dependence
    assert frozen is not None and bool((frozen.gradients > 0).all())


def test_gradients_are_shares_of_each_row(look: Look) -> None:
    for level in ("words", "pieces"):
        np.testing.assert_allclose(look.importance(level)["gradient"].sum(1), 1, rtol=1e-5)


def test_another_task_is_inspected_by_its_sites() -> None:
    model = VectorClassifier(VectorsConfig(d_hidden=5), n_features=2, n_classes=3)
    lines = [{"x": [0.5, None], "class": 1, "side": None}, {"x": [1.0, 2.0], "class": 2, "side": 1}]
    batch = Vectors(lines).collate(np.arange(2), Place())
    record = inspect(model, batch, {"label": "class 1"}).to_dict()
    assert [site["path"] for site in record["sites"]] == list(record["arrays"]) == ["hidden.states"]
    assert record["blocks"] == [{"path": "hidden", "kinds": ["state"]}]
    expected = model.hidden(torch.tensor([0.5, 0.0])).relu().detach()
    np.testing.assert_allclose(record["arrays"]["hidden.states"], expected, rtol=1e-5)
    assert record["prediction"] == {"label": "class 1"}
