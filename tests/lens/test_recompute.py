"""Every value in a trace follows from the values one step earlier and the weights.

The paper's formulas are repeated here in plain tensor operations. "base" and "big" have their widths and heads, but
2 + 2 and 1 + 1 layers.

B batch, H heads, T queries, S keys, D d_model, K d_k
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.models import PRESETS, Transformer, TransformerConfig
from regard.nn import MultiHeadAttention, Trace

KINDS = ("scaled_dot_product", "dot_product", "additive")
N_SYMBOLS = 60
FEWER_LAYERS = {"base": 2, "big": 1}


@torch.no_grad()
def traced(config: TransformerConfig) -> tuple[Transformer, Trace]:
    """A random model and its trace of one pair, computed in float32 and converted to float64 for exact checks."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = Transformer(config, N_SYMBOLS, N_SYMBOLS).eval()
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.3)
        src, tgt_in = torch.randint(4, N_SYMBOLS, (1, 9)), torch.randint(4, N_SYMBOLS, (1, 7))
        trace = Trace()
        model(src, tgt_in, trace)
    exact = Trace()
    for site in trace.sites():
        exact.record(site.path, trace[site.path].double(), kind=site.kind, axes=site.axes)
    return model.double(), exact


def layer_norm(x: Tensor, norm: nn.Module) -> Tensor:
    """Layer normalisation; the identity where a stack has none at its end."""
    if isinstance(norm, nn.Identity):
        return x
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def project_heads(x: Tensor, attention: MultiHeadAttention, part: int) -> Tensor:
    """W_Q, W_K or W_V applied to x (B, T, D), head by head: (B, H, T, K)."""
    d_model, d_k = attention.d_model, attention.d_k
    heads = []
    for head in range(attention.n_heads):
        rows = slice(part * d_model + head * d_k, part * d_model + (head + 1) * d_k)
        heads.append(x @ attention.qkv.weight[rows].t() + attention.qkv.bias[rows])
    return torch.stack(heads, 1)


def check_attention(trace: Trace, attention: MultiHeadAttention, x: Tensor, memory: Tensor, kind: str) -> None:
    """From the input of the sub-layer to what it adds."""
    for name, part, inputs in (("q", 0, x), ("k", 1, memory), ("v", 2, memory)):
        close(trace[name], project_heads(inputs, attention, part))
    q, k, v = trace["q"], trace["k"], trace["v"]
    if kind == "additive":
        scores = torch.einsum("bhtsk,hk->bhts", torch.tanh(q[:, :, :, None] + k[:, :, None]), attention.energy)
    else:
        scores = torch.einsum("bhtk,bhsk->bhts", q, k)
    close(trace["scores"], scores)
    close(trace["scaled"], trace["scores"] / attention.d_k**0.5 if kind == "scaled_dot_product" else trace["scores"])
    powers = trace["scaled"].exp()
    if "visible" in trace:
        powers = powers * trace["visible"]
    close(trace["weights"], powers / powers.sum(-1, keepdim=True))
    close(trace["heads"], torch.einsum("bhts,bhsk->bhtk", trace["weights"], v))
    mixed = sum(
        trace["heads"][:, head] @ attention.out.weight[:, head * attention.d_k : (head + 1) * attention.d_k].t()
        for head in range(attention.n_heads)
    )
    close(trace["added"], mixed + attention.out.bias)


def close(actual: Tensor, expected: Tensor) -> None:
    """Within 1e-6 of the largest value, or of 1: the precision of float32."""
    assert actual.shape == expected.shape
    error = (actual - expected).abs().max() / expected.abs().max().clamp(min=1)
    assert error < 1e-6, f"off by {error:.1e}"


def check_feed_forward(trace: Trace, module: Any, x: Tensor) -> None:
    inner = x @ module.inner.weight.t() + module.inner.bias
    if module.activation == "relu":
        hidden = inner.clamp(min=0)
    elif module.activation == "gelu":
        hidden = inner * (1 + torch.erf(inner / 2**0.5)) / 2
    else:
        gate, value = inner.chunk(2, -1)
        hidden = gate * torch.sigmoid(gate) * value
    close(trace["hidden"], hidden)
    close(trace["added"], trace["hidden"] @ module.outer.weight.t() + module.outer.bias)


@torch.no_grad()
def check_all(model: Transformer, trace: Trace) -> None:
    config = model.config
    for side in ("source", "target"):
        close(trace[f"{side}.sum"], trace[f"{side}.embedding"] + trace[f"{side}.position"])
    z = layer_norm(trace[f"encoder.{config.n_encoder_layers - 1}.feed_forward.after"], model.encoder_norm)
    for stack, x in (("encoder", trace["source.sum"]), ("decoder", trace["target.sum"])):
        attention = ("self_attention",) if stack == "encoder" else ("self_attention", "cross_attention")
        names = (*attention, "feed_forward")
        for i, layer in enumerate(getattr(model, stack)):
            for name, residual in zip(names, layer.residuals, strict=True):
                sublayer = trace.at(f"{stack}.{i}.{name}")
                assert torch.equal(sublayer["before"], x)
                inputs = x if config.norm == "post" else layer_norm(x, residual.norm)
                if name == "feed_forward":
                    check_feed_forward(sublayer, layer.feed_forward, inputs)
                else:
                    memory = z if name == "cross_attention" else inputs
                    check_attention(sublayer, getattr(layer, name), inputs, memory, config.attention)
                total = x + sublayer["added"]
                close(sublayer["after"], layer_norm(total, residual.norm) if config.norm == "post" else total)
                x = sublayer["after"]
        end = layer_norm(x, model.encoder_norm if stack == "encoder" else model.decoder_norm)
    close(trace["logits"], end @ model.output_weight.t())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_trace_of_every_preset_and_attention_can_be_recomputed(preset: str, kind: str) -> None:
    changes: dict[str, Any] = {"attention": kind}
    if preset in FEWER_LAYERS:
        changes |= dict.fromkeys(("n_encoder_layers", "n_decoder_layers"), FEWER_LAYERS[preset])
    check_all(*traced(PRESETS[preset].model_copy(update=changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "pre"},
        {"positions": "learned"},
        {"activation": "gelu"},
        {"activation": "swiglu", "norm": "pre"},
        {"tie": "none"},
        {"tie": "target"},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_trace_of_every_other_option_can_be_recomputed(changes: dict[str, Any], kind: str) -> None:
    check_all(*traced(PRESETS["tiny"].model_copy(update=changes | {"attention": kind})))
