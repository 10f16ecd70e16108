"""Tracing changes no result and records every intermediate tensor from ids to logits."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from regard.models import Transformer
from regard.nn import Trace

Maker = Callable[..., Transformer]
ATTENTION = {"q", "k", "v", "scores", "scaled", "weights", "heads", "before", "added", "after"}
FEED_FORWARD = {"hidden", "before", "added", "after"}
INPUT = {"embedding", "position", "sum"}
KINDS = ("scaled_dot_product", "dot_product", "additive")


def expected_names(model: Transformer, padded: bool) -> set[str]:
    names = {f"{side}.{name}" for side in ("source", "target") for name in INPUT} | {"logits"}
    for stack, layers, uses in (
        ("encoder", model.encoder, ["self_attention"]),
        ("decoder", model.decoder, ["self_attention", "cross_attention"]),
    ):
        for i in range(len(layers)):
            names |= {f"{stack}.{i}.{use}.{name}" for use in uses for name in ATTENTION}
            names |= {f"{stack}.{i}.feed_forward.{name}" for name in FEED_FORWARD}
    names |= {f"decoder.{i}.self_attention.visible" for i in range(len(model.decoder))}
    if padded:
        names |= {f"encoder.{i}.self_attention.visible" for i in range(len(model.encoder))}
        names |= {f"decoder.{i}.cross_attention.visible" for i in range(len(model.decoder))}
    return names


@pytest.mark.parametrize("padded", [True, False])
def test_every_intermediate_tensor_is_recorded(make_model: Maker, src: Tensor, tgt: Tensor, padded: bool) -> None:
    model, trace = make_model(), Trace()
    model(src if padded else src.clamp(min=1), tgt, trace=trace)
    assert set(trace) == expected_names(model, padded)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_tracing_does_not_change_the_output(make_model: Maker, src: Tensor, tgt: Tensor, kind: str, norm: str) -> None:
    model, trace = make_model(attention=kind, norm=norm), Trace()
    plain = model(src, tgt)
    traced = model(src, tgt, trace=trace)
    torch.testing.assert_close(traced, plain, atol=1e-5, rtol=1e-5)
    assert torch.equal(trace["logits"], traced)
    assert torch.equal(model(src, tgt), plain)


def test_tracing_draws_no_random_numbers(make_model: Maker, src: Tensor, tgt: Tensor) -> None:
    model, outputs = make_model(dropout=0.3).train(), []
    for trace in (None, Trace()):
        torch.manual_seed(7)
        outputs.append(model(src, tgt, trace=trace))
    torch.testing.assert_close(outputs[1], outputs[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["scaled_dot_product", "dot_product"])
def test_heads_can_be_recomputed_from_the_traced_q_k_and_v(
    make_model: Maker, src: Tensor, tgt: Tensor, kind: str
) -> None:
    model, trace = make_model(attention=kind), Trace()
    model(src, tgt, trace=trace)
    modules = [f"encoder.{i}.self_attention" for i in range(2)] + [
        f"decoder.{i}.{u}" for i in range(3) for u in ("self_attention", "cross_attention")
    ]
    for module in modules:
        view = trace.at(module)
        scores = view["q"] @ view["k"].transpose(-1, -2) * (0.5 if kind == "scaled_dot_product" else 1)  # √d_k = 2
        weights = scores.masked_fill(~view["visible"], float("-inf")).softmax(-1)
        torch.testing.assert_close(view["weights"], weights, atol=1e-6, rtol=0)
        torch.testing.assert_close(view["heads"], weights @ view["v"], atol=1e-6, rtol=0)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_output_of_each_sub_layer_is_the_input_of_the_next(
    make_model: Maker, src: Tensor, tgt: Tensor, norm: str
) -> None:
    model, trace = make_model(norm=norm), Trace()
    model(src, tgt, trace=trace)
    torch.testing.assert_close(trace["source.sum"], trace["source.embedding"] + trace["source.position"])
    assert torch.equal(trace["target.sum"], trace["decoder.0.self_attention.before"])
    assert torch.equal(trace["source.sum"], trace["encoder.0.self_attention.before"])
    chain = [
        (f"decoder.{i}.{sublayer}", i, n)
        for i in range(3)
        for n, sublayer in enumerate(("self_attention", "cross_attention", "feed_forward"))
    ]
    for (sublayer, i, n), (following, _, _) in pairwise(chain):
        assert torch.equal(trace[f"{sublayer}.after"], trace[f"{following}.before"])
        total = trace[f"{sublayer}.before"] + trace[f"{sublayer}.added"]
        if norm == "post":
            total = model.decoder[i].residuals[n].norm(total)
        torch.testing.assert_close(trace[f"{sublayer}.after"], total)


def test_attention_weights_sum_to_one_and_are_zero_for_padding_and_later_positions(
    make_model: Maker, src: Tensor, tgt: Tensor
) -> None:
    trace = Trace()
    make_model()(src, tgt, trace=trace)
    all_weights = [value for name, value in trace.items() if name.endswith(".weights")]
    assert len(all_weights) == 2 + 2 * 3
    for weights in all_weights:
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert bool((trace["decoder.1.cross_attention.weights"][1, :, :, 4:] == 0).all())  # row 1 has 4 tokens
    assert bool((trace["encoder.1.self_attention.weights"][1, :, :, 4:] == 0).all())
    assert bool((trace["decoder.2.self_attention.weights"].triu(1) == 0).all())


def test_without_a_trace_the_model_never_uses_one(
    make_model: Maker, src: Tensor, tgt: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a trace was used")

    for method in ("__init__", "at", "record"):
        monkeypatch.setattr(Trace, method, fail)
    model = make_model()
    model(src, tgt)
    model.step(tgt[:, 0], model.start(model.encode(src)))
