"""The trace itself, and what attention records; tests/models/test_trace.py tests what a model records."""

import pytest
import torch

from regard.nn import FeedForward, MultiHeadAttention, Trace, at


def test_names_are_paths_and_a_view_has_its_own_part() -> None:
    trace = Trace()
    layer = trace.at("decoder.2")
    layer.at("cross").record("weights", torch.ones(1), kind="vector", axes=())
    layer.record("after", torch.zeros(1), kind="vector", axes=())
    trace.record("logits", torch.zeros(2), kind="logits", axes=())
    assert list(trace) == ["decoder.2.cross.weights", "decoder.2.after", "logits"]
    assert list(layer) == ["cross.weights", "after"]
    assert len(layer.at("cross")) == 1
    assert torch.equal(trace["decoder.2.cross.weights"], layer.at("cross")["weights"])
    assert "decoder.2.cross.heads" not in trace


def test_layer_1_does_not_include_layer_10() -> None:
    trace = Trace()
    trace.at("decoder.1").record("after", torch.ones(1), kind="vector", axes=())
    trace.at("decoder.10").record("after", torch.zeros(1), kind="vector", axes=())
    assert list(trace.at("decoder.1")) == ["after"]


def test_recorded_tensors_are_detached_unless_gradients_are_asked_for() -> None:
    for gradient in (False, True):
        trace = Trace(gradient)
        trace.at("y").record("x", torch.ones(1, requires_grad=True) * 2, kind="vector", axes=())
        assert trace["y.x"].requires_grad == gradient


def test_gradients_of_an_embedding_exist_even_if_its_weights_are_frozen() -> None:
    trace = Trace(gradient=True)
    embedded = trace.record("embedding", torch.ones(1, 2, 3), kind="embedding", axes=("source", "unit"))
    [gradient] = torch.autograd.grad((embedded * 2).sum(), trace["embedding"])
    assert torch.equal(gradient, torch.full((1, 2, 3), 2.0))


def test_sites_say_what_the_dimensions_are() -> None:
    trace = Trace()
    cross = trace.at("decoder.0").at("cross_attention", ("target", "source"))
    MultiHeadAttention(8, 2)(torch.randn(3, 5, 8), torch.randn(3, 4, 8), trace=cross)
    [weights] = trace.sites("attention")
    assert weights == ("decoder.0.cross_attention.weights", "attention", ("head", "target", "source"), (2, 5, 4))
    assert (weights.module, weights.name) == ("decoder.0.cross_attention", "weights")
    assert [site.name for site in trace.sites()] == ["q", "k", "v", "scores", "scaled", "weights", "heads"]
    assert trace.at("decoder.1").sites() == ()


def test_a_tensor_needs_a_name_for_every_dimension_after_the_batch() -> None:
    with pytest.raises(ValueError, match=r"decoder\.x has the shape \(1, 2, 3\)"):
        Trace().at("decoder").record("x", torch.zeros(1, 2, 3), kind="vector", axes=("unit",))


def test_at_without_a_trace_is_none() -> None:
    assert at(None, "decoder.0") is None


def test_attention_records_every_step_of_the_formula() -> None:
    torch.manual_seed(1)
    module, trace, x = MultiHeadAttention(8, 2), Trace(), torch.randn(2, 5, 8)
    out = module(x, causal=True, trace=trace)
    assert set(trace) == {"q", "k", "v", "scores", "scaled", "visible", "weights", "heads"}
    torch.testing.assert_close(trace["scores"], trace["q"] @ trace["k"].transpose(-1, -2))
    torch.testing.assert_close(trace["scaled"], trace["scores"] / 2)  # √d_k = √4
    masked = trace["scaled"].masked_fill(~trace["visible"], float("-inf"))
    torch.testing.assert_close(trace["weights"], masked.softmax(-1))
    torch.testing.assert_close(trace["heads"], trace["weights"] @ trace["v"], atol=1e-6, rtol=0)
    torch.testing.assert_close(out, module.out(trace["heads"].transpose(1, 2).flatten(2)))


def test_unscaled_kinds_record_equal_scores_and_scaled() -> None:
    x = torch.randn(2, 5, 8)
    for kind in ("dot_product", "additive"):
        trace = Trace()
        module = MultiHeadAttention(8, 2, kind)
        module(x, trace=trace)
        assert torch.equal(trace["scores"], trace["scaled"])
        assert "visible" not in trace


def test_without_a_trace_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a trace was used")

    for method in ("__init__", "at", "record"):
        monkeypatch.setattr(Trace, method, fail)
    MultiHeadAttention(8, 2)(torch.randn(2, 5, 8), causal=True)
    FeedForward(8, 8)(torch.randn(2, 5, 8))
