"""The collector itself; that a model hands everything to it is shown in tests/models/test_trace.py."""

import pytest
import torch

from regard.nn import FeedForward, MultiHeadAttention, Trace, at
from regard.nn.trace import Trace as HomeOfTrace


def test_names_are_paths_and_every_level_sees_its_own_part() -> None:
    trace = Trace()
    layer = trace.at("decoder.2")
    layer.at("cross").record("weights", torch.ones(1))
    layer.record("after", torch.zeros(1))
    trace.record("logits", torch.zeros(2))
    assert list(trace) == ["decoder.2.cross.weights", "decoder.2.after", "logits"]
    assert list(layer) == ["cross.weights", "after"]
    assert len(layer.at("cross")) == 1
    assert torch.equal(trace["decoder.2.cross.weights"], layer.at("cross")["weights"])
    assert "decoder.2.cross.heads" not in trace


def test_a_level_is_not_confused_with_one_whose_number_starts_alike() -> None:
    trace = Trace()
    trace.at("decoder.1").record("after", torch.ones(1))
    trace.at("decoder.10").record("after", torch.zeros(1))
    assert list(trace.at("decoder.1")) == ["after"]


def test_what_is_recorded_holds_on_to_no_graph() -> None:
    trace = Trace()
    trace.record("x", torch.ones(1, requires_grad=True) * 2)
    assert not trace["x"].requires_grad


def test_nobody_looking_is_nobody_looking_further_inside() -> None:
    assert at(None, "decoder.0") is None


def test_attention_hands_over_every_step_of_the_formula() -> None:
    torch.manual_seed(1)
    module, trace, x = MultiHeadAttention(8, 2), Trace(), torch.randn(2, 5, 8)
    out = module(x, causal=True, trace=trace)
    assert set(trace) == {"q", "k", "v", "scores", "scaled", "visible", "weights", "heads"}
    torch.testing.assert_close(trace["scores"], trace["q"] @ trace["k"].transpose(-1, -2))
    torch.testing.assert_close(trace["scaled"], trace["scores"] / 2)  # √d_k = √4
    hidden = trace["scaled"].masked_fill(~trace["visible"], float("-inf"))
    torch.testing.assert_close(trace["weights"], hidden.softmax(-1))
    torch.testing.assert_close(trace["heads"], trace["weights"] @ trace["v"], atol=1e-6, rtol=0)
    torch.testing.assert_close(out, module.out(trace["heads"].transpose(1, 2).flatten(2)))


def test_the_three_kinds_differ_in_what_their_scores_are() -> None:
    x = torch.randn(2, 5, 8)
    for kind in ("dot_product", "additive"):
        trace = Trace()
        module = MultiHeadAttention(8, 2, kind)
        module(x, trace=trace)
        assert torch.equal(trace["scores"], trace["scaled"])
        assert "visible" not in trace


def test_without_a_trace_nothing_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("nobody was looking")

    for method in ("__init__", "at", "record"):
        monkeypatch.setattr(HomeOfTrace, method, fail)
    MultiHeadAttention(8, 2)(torch.randn(2, 5, 8), causal=True)
    FeedForward(8, 8)(torch.randn(2, 5, 8))
