"""Everything in a trace is what the model computed: from the trace and the weights alone, all of it follows again.

The paper's formulas are written out here once more, in plain tensor operations, and each number of the trace is derived
from those one step before it. "base" and "big" have their widths and heads, but 2 + 2 and 1 + 1 layers.

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
    """A random model and its trace of one pair, computed in float32; both then in float64, to be checked exactly."""
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
    for name, value in trace.items():
        exact.record(name, value.double())
    return model.double(), exact


def normal(x: Tensor, norm: nn.Module) -> Tensor:
    """Layer normalisation; nothing where a stack does not end with one."""
    if isinstance(norm, nn.Identity):
        return x
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def heads_of(x: Tensor, attention: MultiHeadAttention, part: int) -> Tensor:
    """W_Q, W_K or W_V of x (B, T, D), head by head: (B, H, T, K)."""
    d_model, d_k = attention.d_model, attention.d_k
    found = []
    for head in range(attention.n_heads):
        rows = slice(part * d_model + head * d_k, part * d_model + (head + 1) * d_k)
        found.append(x @ attention.qkv.weight[rows].t() + attention.qkv.bias[rows])
    return torch.stack(found, 1)


def check_attention(seen: Trace, attention: MultiHeadAttention, x: Tensor, memory: Tensor, kind: str) -> None:
    """From what enters the sub-layer to what it adds."""
    for name, part, given in (("q", 0, x), ("k", 1, memory), ("v", 2, memory)):
        close(seen[name], heads_of(given, attention, part))
    q, k, v = seen["q"], seen["k"], seen["v"]
    if kind == "additive":
        raw = torch.einsum("bhtsk,hk->bhts", torch.tanh(q[:, :, :, None] + k[:, :, None]), attention.energy)
    else:
        raw = torch.einsum("bhtk,bhsk->bhts", q, k)
    close(seen["scores"], raw)
    close(seen["scaled"], seen["scores"] / attention.d_k**0.5 if kind == "scaled_dot_product" else seen["scores"])
    powers = seen["scaled"].exp()
    if "visible" in seen:
        powers = powers * seen["visible"]
    close(seen["weights"], powers / powers.sum(-1, keepdim=True))
    close(seen["heads"], torch.einsum("bhts,bhsk->bhtk", seen["weights"], v))
    mixed = sum(
        seen["heads"][:, head] @ attention.out.weight[:, head * attention.d_k : (head + 1) * attention.d_k].t()
        for head in range(attention.n_heads)
    )
    close(seen["added"], mixed + attention.out.bias)


def close(found: Tensor, expected: Tensor) -> None:
    """To 1e-6 of the largest value, or of 1: as near as float32 comes."""
    assert found.shape == expected.shape
    error = (found - expected).abs().max() / expected.abs().max().clamp(min=1)
    assert error < 1e-6, f"off by {error:.1e}"


def check_feed_forward(seen: Trace, module: Any, x: Tensor) -> None:
    inner = x @ module.inner.weight.t() + module.inner.bias
    if module.activation == "relu":
        hidden = inner.clamp(min=0)
    elif module.activation == "gelu":
        hidden = inner * (1 + torch.erf(inner / 2**0.5)) / 2
    else:
        gate, value = inner.chunk(2, -1)
        hidden = gate * torch.sigmoid(gate) * value
    close(seen["hidden"], hidden)
    close(seen["added"], seen["hidden"] @ module.outer.weight.t() + module.outer.bias)


@torch.no_grad()
def check_all(model: Transformer, trace: Trace) -> None:
    config = model.config
    for side in ("source", "target"):
        close(trace[f"{side}.sum"], trace[f"{side}.embedding"] + trace[f"{side}.position"])
    z = normal(trace[f"encoder.{config.n_encoder_layers - 1}.feed_forward.after"], model.encoder_norm)
    for stack, x in (("encoder", trace["source.sum"]), ("decoder", trace["target.sum"])):
        names = ("self", "feed_forward") if stack == "encoder" else ("self", "cross", "feed_forward")
        for i, layer in enumerate(getattr(model, stack)):
            for name, residual in zip(names, layer.residuals, strict=True):
                seen = trace.at(f"{stack}.{i}.{name}")
                assert torch.equal(seen["before"], x)
                entering = x if config.norm == "post" else normal(x, residual.norm)
                if name == "feed_forward":
                    check_feed_forward(seen, layer.feed_forward, entering)
                else:
                    memory = z if name == "cross" else entering
                    check_attention(seen, getattr(layer, f"{name}_attention"), entering, memory, config.attention)
                total = x + seen["added"]
                close(seen["after"], normal(total, residual.norm) if config.norm == "post" else total)
                x = seen["after"]
        end = normal(x, model.encoder_norm if stack == "encoder" else model.decoder_norm)
    close(trace["logits"], end @ model.output_weight.t())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_the_trace_of_every_preset_and_attention_gives_the_same_outputs_and_logits(preset: str, kind: str) -> None:
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
def test_the_trace_of_every_other_choice_does_so_too(changes: dict[str, Any], kind: str) -> None:
    check_all(*traced(PRESETS["tiny"].model_copy(update=changes | {"attention": kind})))
