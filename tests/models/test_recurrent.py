"""RNN, LSTM and GRU encoder–decoders: what the papers say, written out with plain loops."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from regard.lens.ablate import ablate
from regard.lens.interventions import Head, Interventions
from regard.models import ARCHITECTURES, PRESETS, ModelSpec
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.nn import Trace
from regard.training.optimizers import declared_matrices

CLOSE = {"atol": 1e-5, "rtol": 1e-4}
SRC, TGT = torch.tensor([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0]]), torch.tensor([[2, 5, 7, 8], [2, 6, 6, 9]])


def make(cell: str = "gru", n_symbols: int = 12, **config: Any) -> Recurrent:
    torch.manual_seed(3)
    sizes = {"n_src_symbols": n_symbols, "n_tgt_symbols": n_symbols, "pad_id": 0}
    model = ModelSpec("translation", cell, RecurrentConfig(**({"d_model": 8} | config)), sizes).build().eval()
    assert isinstance(model, Recurrent)
    return model


def traced(model: Recurrent) -> tuple[Tensor, Trace]:
    trace = Trace()
    return model.features(SRC, TGT, trace), trace


def assert_attends(trace: Trace, scores: list[Tensor], values: Tensor, row: int) -> Tensor:
    """The recorded scores and weights are these, with no weight on padding; returns the contexts (T, D)."""
    expected = torch.stack(scores)  # (T, S)
    n_words = int((SRC[row] != 0).sum())
    weights = torch.zeros_like(expected)
    weights[:, :n_words] = expected[:, :n_words].softmax(-1)
    torch.testing.assert_close(trace["attention.scores"][row, 0, :, :n_words], expected[:, :n_words], **CLOSE)
    torch.testing.assert_close(trace["attention.weights"][row, 0], weights, **CLOSE)
    return weights @ values


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_additive_attention_comes_from_the_state_before_and_enters_the_cell(cell: str) -> None:
    model = make(cell, attention="additive")
    features, trace = traced(model)
    first = model.encode(SRC).first[0]
    for row in (0, 1):
        outputs, states = trace["encoder.layers.0.states"][row], trace["decoder.layers.0.states"][row]
        scores, before = [], first[0][row]
        for state in states:
            energies = [
                sum(
                    v * torch.tanh(w @ before + u @ h)
                    for v, w, u in zip(
                        model.attention.energy[0], model.attention.query.weight, model.attention.key.weight, strict=True
                    )
                )
                for h in outputs
            ]
            scores.append(torch.stack(energies))
            before = state
        contexts = assert_attends(trace, scores, outputs, row)
        words = trace["target.embedding"][row]
        inputs = torch.cat([words, contexts], -1)
        row_first = tuple(part[row : row + 1] for part in first)
        torch.testing.assert_close(model.decoder(inputs[None], states=(row_first,))[0][0], states, **CLOSE)
        readout = torch.tanh(model.readout(torch.cat([states, contexts, words], -1)))
        torch.testing.assert_close(features[row], readout, **CLOSE)


@pytest.mark.parametrize("feeds", [False, True])
@pytest.mark.parametrize("attention", ["dot", "general"])
def test_luongs_attention_comes_from_the_current_state(attention: str, feeds: bool) -> None:
    model = make("lstm", attention=attention, input_feeding=feeds)
    features, trace = traced(model)
    for row in (0, 1):
        outputs, states = trace["encoder.layers.0.states"][row], trace["decoder.layers.0.states"][row]
        w = torch.eye(8) if attention == "dot" else model.attention.key.weight
        scores = [torch.stack([state @ w @ h for h in outputs]) for state in states]
        contexts = assert_attends(trace, scores, outputs, row)
        expected = torch.tanh(model.readout(torch.cat([states, contexts], -1)))  # tanh(W_c[c; h])
        torch.testing.assert_close(features[row], expected, **CLOSE)


def test_input_feeding_adds_the_last_output_to_the_next_input() -> None:
    model = make("lstm", attention="dot", input_feeding=True)
    features, trace = traced(model)
    fed = torch.cat([torch.zeros(2, 1, 8), features[:, :-1]], 1)
    states, _ = model.decoder(torch.cat([trace["target.embedding"], fed], -1), states=model.encode(SRC).first)
    torch.testing.assert_close(states, trace["decoder.layers.0.states"], **CLOSE)


def test_bahdanaus_first_state_comes_from_the_direction_that_ends_at_the_first_word() -> None:
    model = make("gru", attention="additive")
    trace = traced(model)[1]
    backwards = trace["encoder.layers.0.states"][:, 0, 4:]  # (B, D / 2) at the first word
    torch.testing.assert_close(model.encode(SRC).first[0][0], torch.tanh(model.bridge[0](backwards)), **CLOSE)


def test_without_attention_the_decoder_starts_from_the_encoders_last_state() -> None:
    model = make("lstm", attention="none", bidirectional=False, n_layers=2)
    features, trace = traced(model)
    memory = model.encode(SRC)
    vector = trace["encoder.layers.1.states"][:, 0]  # the source is read from its end
    torch.testing.assert_close(memory.first[1][0], vector, **CLOSE)
    assert memory.source.v.shape == (2, 1, 1, 8)  # whatever the length of the source
    states, words = trace["decoder.layers.1.states"], trace["target.embedding"]
    readout = torch.tanh(model.readout(torch.cat([states, vector[:, None].expand_as(states), words], -1)))
    torch.testing.assert_close(features, readout, **CLOSE)
    assert not trace.sites("attention")


def test_the_source_is_read_from_its_end_only_without_attention() -> None:
    readings = {name: make(attention=name).encoder.backwards for name in ("none", "additive", "dot", "general")}
    assert readings == {"none": True, "additive": False, "dot": False, "general": False}
    assert not make(attention="none", reverse=False).encoder.backwards


@pytest.mark.parametrize("attention", ["additive", "general"])
def test_without_its_head_the_decoder_gets_zeros_from_attention(attention: str) -> None:
    model = make(attention=attention)
    ablated = ablate(model, Interventions(heads_off=frozenset([Head("cross", 0, 0)])), 1)
    features, trace = traced(ablated)
    states, words = trace["decoder.layers.0.states"], trace["target.embedding"]
    seen = [states, torch.zeros_like(states)] + ([words] if attention == "additive" else [])
    torch.testing.assert_close(features, torch.tanh(model.readout(torch.cat(seen, -1))), **CLOSE)
    assert not torch.equal(features, traced(model)[0])


@pytest.mark.parametrize("attention", ["none", "additive"])
def test_input_feeding_is_refused_where_it_means_nothing(attention: str) -> None:
    with pytest.raises(ValidationError, match="input_feeding needs attention = 'dot' or 'general'"):
        RecurrentConfig(attention=attention, input_feeding=True)


@pytest.mark.parametrize("attention", ["none", "additive", "general"])
def test_every_matrix_but_the_embeddings_is_declared_for_muon(attention: str) -> None:
    model = make(attention=attention)
    declared = declared_matrices(model)
    others = [name for name, p in model.named_parameters() if p.dim() == 2 and p not in declared]
    assert others == ["target.weight", *["attention.energy"] * (attention == "additive")]


def test_tracing_draws_no_random_numbers() -> None:
    model, outputs = make(attention="additive", n_layers=2, dropout=0.3).train(), []
    for trace in (None, Trace()):
        torch.manual_seed(7)
        outputs.append(model(SRC, TGT, trace=trace))
    torch.testing.assert_close(outputs[1], outputs[0], **CLOSE)


@pytest.mark.parametrize("preset", ["tiny", "small"])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_presets_have_about_as_many_parameters_as_the_transformers(cell: str, preset: str) -> None:
    def n_parameters(architecture: str, config: Any) -> int:
        sizes = {"n_src_symbols": 8000, "n_tgt_symbols": 8000, "pad_id": 0}
        with torch.device("meta"):
            return ModelSpec("translation", architecture, config, sizes).build().n_parameters

    expected = n_parameters("transformer", PRESETS[preset])
    assert n_parameters(cell, ARCHITECTURES[cell].presets[preset]) == pytest.approx(expected, rel=0.1)
