"""The same numbers as torch.nn.Transformer on the same weights: outputs and every gradient."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import Transformer
from regard.nn import FeedForward, MultiHeadAttention, sinusoid

TOLERANCE = 1e-5

# name of our parameter → name of torch's, within a layer
ENCODER = {
    "self_attention.qkv.weight": "self_attn.in_proj_weight",
    "self_attention.qkv.bias": "self_attn.in_proj_bias",
    "self_attention.out.weight": "self_attn.out_proj.weight",
    "self_attention.out.bias": "self_attn.out_proj.bias",
    "feed_forward.inner.weight": "linear1.weight",
    "feed_forward.inner.bias": "linear1.bias",
    "feed_forward.outer.weight": "linear2.weight",
    "feed_forward.outer.bias": "linear2.bias",
    "residuals.0.norm.weight": "norm1.weight",
    "residuals.0.norm.bias": "norm1.bias",
    "residuals.1.norm.weight": "norm2.weight",
    "residuals.1.norm.bias": "norm2.bias",
}
DECODER = ENCODER | {
    "cross_attention.qkv.weight": "multihead_attn.in_proj_weight",
    "cross_attention.qkv.bias": "multihead_attn.in_proj_bias",
    "cross_attention.out.weight": "multihead_attn.out_proj.weight",
    "cross_attention.out.bias": "multihead_attn.out_proj.bias",
    "residuals.2.norm.weight": "norm3.weight",
    "residuals.2.norm.bias": "norm3.bias",
}


def torch_transformer(model: Transformer) -> nn.Transformer:
    """torch's Transformer of the same form; its own final norms only with pre-norm, as in ours and the paper."""
    c, pre = model.config, model.config.norm == "pre"
    form = {"dim_feedforward": c.d_ff, "dropout": 0.0, "activation": c.activation, "batch_first": True}
    return nn.Transformer(
        c.d_model,
        c.n_heads,
        batch_first=True,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(c.d_model, c.n_heads, norm_first=pre, **form),
            c.n_encoder_layers,
            norm=nn.LayerNorm(c.d_model) if pre else None,
            enable_nested_tensor=False,
        ),
        custom_decoder=nn.TransformerDecoder(
            nn.TransformerDecoderLayer(c.d_model, c.n_heads, norm_first=pre, **form),
            c.n_decoder_layers,
            norm=nn.LayerNorm(c.d_model) if pre else None,
        ),
    )


def same_parameters(model: Transformer, other: nn.Transformer) -> list[tuple[str, nn.Parameter, nn.Parameter]]:
    """(name, ours, torch's) of every parameter but the embedding."""
    ours, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    names = {}
    for stack, layers, table in (("encoder", model.encoder, ENCODER), ("decoder", model.decoder, DECODER)):
        for i in range(len(layers)):
            names |= {f"{stack}.{i}.{a}": f"{stack}.layers.{i}.{b}" for a, b in table.items()}
        if model.config.norm == "pre":
            names |= {f"{stack}_norm.{part}": f"{stack}.norm.{part}" for part in ("weight", "bias")}
    assert set(names) == ours.keys() - {"source.embedding.weight"}, "a parameter of ours has no partner"
    assert set(names.values()) == theirs.keys(), "a parameter of torch's has no partner"
    return [(a, ours[a], theirs[b]) for a, b in names.items()]


def torch_logits(other: nn.Transformer, embedding: Tensor, src: Tensor, tgt: Tensor, pad_id: int) -> Tensor:
    """Section 3.4 and 3.5 around torch's layers."""

    def enter(ids: Tensor) -> Tensor:
        return F.embedding(ids, embedding) * embedding.shape[1] ** 0.5 + sinusoid(ids.shape[1], embedding.shape[1])

    out = other(
        enter(src),
        enter(tgt),
        tgt_mask=torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1),  # torch: True is hidden
        src_key_padding_mask=src == pad_id,
        tgt_key_padding_mask=tgt == pad_id,
        memory_key_padding_mask=src == pad_id,
    )
    return out @ embedding.t()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padding", [True, False])
def test_outputs_and_gradients_equal_those_of_torch(
    make_model, src: Tensor, tgt: Tensor, norm: str, activation: str, padding: bool
) -> None:
    if not padding:
        src, tgt = src.clamp(min=1), tgt.clamp(min=1)
    model = make_model(norm=norm, activation=activation, dropout=0.0).train()
    other = torch_transformer(model).train()
    pairs = same_parameters(model, other)
    with torch.no_grad():
        for _, ours, theirs in pairs:
            theirs.copy_(ours)
    embedding = model.output_weight.detach().clone().requires_grad_()
    real = tgt != model.pad_id
    found = model(src, tgt)[real]
    expected = torch_logits(other, embedding, src, tgt, model.pad_id)[real]
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    answers = torch.randint(1, 23, (len(found),), generator=torch.Generator().manual_seed(3))
    for logits in (found, expected):
        F.cross_entropy(logits, answers).backward()
    gradients = [(name, ours.grad, theirs.grad) for name, ours, theirs in pairs]
    for name, ours, theirs in [*gradients, ("embedding", model.output_weight.grad, embedding.grad)]:
        torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0, msg=lambda m, n=name: f"{n}: {m}")
        # there is something to compare; only the keys' bias has no effect, as it moves all scores alike
        assert float(theirs.abs().max()) > 100 * TOLERANCE, name


def test_attention_equals_torchs_with_padding_and_a_causal_mask() -> None:
    torch.manual_seed(1)
    ours, theirs = MultiHeadAttention(16, 4), nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.in_proj_bias.copy_(ours.qkv.bias.normal_())
        theirs.out_proj.weight.copy_(ours.out.weight)
        theirs.out_proj.bias.copy_(ours.out.bias.normal_())
    x, hidden = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    expected, _ = theirs(
        x, x, x, key_padding_mask=hidden, attn_mask=torch.ones(5, 5, dtype=torch.bool).triu(1), need_weights=False
    )
    found = ours(x, visible=~hidden[:, None, None, :], causal=True)
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)


def test_feed_forward_has_torchs_names_for_the_same_activations() -> None:
    x = torch.randn(5, 8)
    for name, function in (("relu", F.relu), ("gelu", F.gelu)):
        assert torch.equal(FeedForward(8, 8, name).activate(x), function(x))
