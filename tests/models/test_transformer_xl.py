"""Transformer-XL against XLNet in its one-directional mode with memory, which is the same stack in transformers."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.models.transformer_xl import TransformerXL, TransformerXLConfig
from regard.nn import Trace

VOCAB, SEGMENT = 23, 6
SIZE: dict[str, Any] = {"n_layers": 3, "d_model": 16, "d_ff": 24, "n_heads": 4, "dropout": 0.0, "norm": "post"}


def make_model(**changes: Any) -> TransformerXL:
    torch.manual_seed(1)
    model = TransformerXL(TransformerXLConfig(**(SIZE | changes)), n_symbols=VOCAB, segment=SEGMENT).eval()
    for parameter in (*model.biases.parameters(), *(p for name, p in model.named_parameters() if "bias" in name)):
        nn.init.normal_(parameter, std=0.5)
    return model


def ids(length: int, n_rows: int = 2) -> Tensor:
    return torch.randint(1, VOCAB, (n_rows, length), generator=torch.Generator().manual_seed(length))


@torch.no_grad()
def as_xlnet(model: TransformerXL, memory: int) -> nn.Module:
    """An XLNetModel with the weights of a post-norm model."""
    from transformers import XLNetConfig, XLNetModel

    config = model.config
    theirs = XLNetModel(
        XLNetConfig(
            vocab_size=VOCAB, d_model=config.d_model, n_layer=config.n_layers, n_head=config.n_heads,
            d_inner=config.d_ff, ff_activation="relu", attn_type="uni", untie_r=True, mem_len=memory, dropout=0.0,
            layer_norm_eps=1e-5,
        )
    ).eval()  # fmt: skip
    theirs.word_embedding.weight.copy_(model.output_weight * config.d_model**0.5)
    for ours, layer in zip(model.decoder, theirs.layer, strict=True):
        attention, w = layer.rel_attn, ours.self_attention
        for their, weight in zip((attention.q, attention.k, attention.v), w.qkv.weight.chunk(3), strict=True):
            their.copy_(weight.T.view_as(their))
        attention.r.copy_(w.distance.weight.T.view_as(attention.r))
        attention.o.copy_(w.out.weight.view_as(attention.o))
        attention.r_w_bias.copy_(w.biases.u)
        attention.r_r_bias.copy_(w.biases.v)
        attention.layer_norm.load_state_dict(ours.residuals[0].norm.state_dict())
        layer.ff.layer_norm.load_state_dict(ours.residuals[1].norm.state_dict())
        layer.ff.layer_1.load_state_dict(ours.feed_forward.inner.state_dict())
        layer.ff.layer_2.load_state_dict(ours.feed_forward.outer.state_dict())
    return theirs


@pytest.mark.parametrize("memory", [4, 6, 9])
def test_outputs_and_gradients_are_those_of_xlnet_with_memory(memory: int) -> None:
    """Three segments; the gradient of the last goes into the weights, and not into the segments before."""
    model = make_model()
    theirs, text, state, mems = as_xlnet(model, memory), ids(3 * SEGMENT), model.start(2, memory), None
    for segment in text.split(SEGMENT, 1):
        features, state = model.read(segment, state)
        output = theirs(segment, mems=mems, use_mems=True)
        expected, mems = output.last_hidden_state, output.mems
        torch.testing.assert_close(features, expected, atol=1e-5, rtol=1e-5)
    direction = torch.randn_like(features)
    (features * direction).sum().backward()
    (expected * direction).sum().backward()
    attention, xl = theirs.layer[0].rel_attn, model.decoder[0].self_attention
    parts = [p.grad.flatten(1).T for p in (attention.q, attention.k, attention.v)]
    torch.testing.assert_close(xl.qkv.weight.grad, torch.cat(parts), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(xl.distance.weight.grad, attention.r.grad.flatten(1).T, atol=1e-4, rtol=1e-4)
    u = sum(layer.rel_attn.r_w_bias.grad for layer in theirs.layer)  # ours has one u for all layers
    torch.testing.assert_close(model.biases.u.grad, u, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_what_is_kept_without_gradients_equals_what_is_computed_again(norm: str) -> None:
    model, text = make_model(norm=norm, memory=10), ids(40)
    with torch.no_grad():
        state, kept = model.start(2), []
        for segment in text.split([6, 6, 1, 1, 5, 6, 6, 1, 6, 2], 1):
            features, state = model.read(segment, state)
            kept.append(features)
    state, again = model.start(2), []
    for segment in text.split([6, 6, 1, 1, 5, 6, 6, 1, 6, 2], 1):
        features, state = model.read(segment, state)
        again.append(features)
    torch.testing.assert_close(torch.cat(kept, 1), torch.cat(again, 1), atol=1e-5, rtol=1e-5)


def test_memory_can_be_longer_in_use_than_in_training() -> None:
    model, text = make_model(memory=3), ids(30)
    outputs = {}
    for memory in (0, 3, 24, 1000):
        state = model.start(2, memory)
        for segment in text.split(SEGMENT, 1):
            features, state = model.read(segment, state)
        assert state.layers[0].inputs.shape[1] == min(memory, 30)
        outputs[memory] = features
    assert not torch.allclose(outputs[3], outputs[24], atol=1e-3)
    torch.testing.assert_close(outputs[24], outputs[1000])  # the whole text before


def test_how_far_back_a_prediction_sees_grows_with_the_layers() -> None:
    """Section 3.2: a layer sees `memory` tokens before its segment, so two layers see twice as many."""
    for n_layers in (1, 2):
        model, text = make_model(n_layers=n_layers, memory=4), ids(4 * SEGMENT, 1)
        before = model.features(text)[:, -SEGMENT]  # the first position of the last segment
        for position in range(3 * SEGMENT):
            changed = text.clone()
            changed[:, position] = text[:, position] % (VOCAB - 1) + 1
            after = model.features(changed)[:, -SEGMENT]
            is_seen = not torch.equal(before, after)
            # the memory is 14 … 17; in the layer below, these saw their segment, from 12 on, and a memory of 8 … 11
            assert is_seen == (position >= (14 if n_layers == 1 else 8))


def test_a_trace_shows_attention_into_the_segment_before() -> None:
    model, trace = make_model(memory=4), Trace()
    model(ids(2 * SEGMENT), trace)
    sites = trace.sites("attention")
    assert [site.axes for site in sites] == [("head", "source", "context")] * 3
    assert [site.shape for site in sites] == [(4, SEGMENT, 4 + SEGMENT)] * 3
    weights = trace["decoder.0.self_attention.weights"]
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert bool((weights[..., :4] > 0).all())
    assert bool((trace["decoder.0.self_attention.position_bias"][:, :, 1:, :5] != 0).any())
