"""With the same weights, outputs and all gradients equal those of torch.nn.Transformer."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import Transformer
from regard.nn import FeedForward, MultiHeadAttention, sinusoid

TOLERANCE = 1e-5

# our parameter → torch's parameter, within a layer
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
    """torch's Transformer of the same sizes, with final norms only for pre-norm, as in ours and the paper."""
    c, pre = model.config, model.config.norm == "pre"
    options = {"dim_feedforward": c.d_ff, "dropout": 0.0, "activation": c.activation, "batch_first": True}
    return nn.Transformer(
        c.d_model,
        c.n_heads,
        batch_first=True,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(c.d_model, c.n_heads, norm_first=pre, **options),
            c.n_encoder_layers,
            norm=nn.LayerNorm(c.d_model) if pre else None,
            enable_nested_tensor=False,
        ),
        custom_decoder=nn.TransformerDecoder(
            nn.TransformerDecoderLayer(c.d_model, c.n_heads, norm_first=pre, **options),
            c.n_decoder_layers,
            norm=nn.LayerNorm(c.d_model) if pre else None,
        ),
    )


def paired_parameters(model: Transformer, torch_model: nn.Transformer) -> list[tuple[str, nn.Parameter, nn.Parameter]]:
    """(name, ours, torch's) of every parameter except the embedding."""
    ours, theirs = dict(model.named_parameters()), dict(torch_model.named_parameters())
    names = {}
    for stack, layers, table in (("encoder", model.encoder, ENCODER), ("decoder", model.decoder, DECODER)):
        for i in range(len(layers)):
            names |= {f"{stack}.{i}.{a}": f"{stack}.layers.{i}.{b}" for a, b in table.items()}
        if model.config.norm == "pre":
            names |= {f"{stack}_norm.{part}": f"{stack}.norm.{part}" for part in ("weight", "bias")}
    assert set(names) == ours.keys() - {"source.embedding.weight"}, "a parameter of ours has no counterpart"
    assert set(names.values()) == theirs.keys(), "a parameter of torch's has no counterpart"
    return [(a, ours[a], theirs[b]) for a, b in names.items()]


def torch_logits(torch_model: nn.Transformer, embedding: Tensor, src: Tensor, tgt: Tensor, pad_id: int) -> Tensor:
    """torch's layers with the embeddings of sections 3.4 and 3.5."""

    def embed(ids: Tensor) -> Tensor:
        return F.embedding(ids, embedding) * embedding.shape[1] ** 0.5 + sinusoid(ids.shape[1], embedding.shape[1])

    out = torch_model(
        embed(src),
        embed(tgt),
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
    torch_model = torch_transformer(model).train()
    pairs = paired_parameters(model, torch_model)
    with torch.no_grad():
        for _, ours, theirs in pairs:
            theirs.copy_(ours)
    embedding = model.output_weight.detach().clone().requires_grad_()
    is_token = tgt != model.pad_id
    logits = model(src, tgt)[is_token]
    expected = torch_logits(torch_model, embedding, src, tgt, model.pad_id)[is_token]
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=0)
    targets = torch.randint(1, 23, (len(logits),), generator=torch.Generator().manual_seed(3))
    for each in (logits, expected):
        F.cross_entropy(each, targets).backward()
    gradients = [(name, ours.grad, theirs.grad) for name, ours, theirs in pairs]
    for name, ours, theirs in [*gradients, ("embedding", model.output_weight.grad, embedding.grad)]:
        torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0, msg=lambda m, n=name: f"{n}: {m}")
        # not trivially equal: only the bias of the keys has no effect, since it adds the same to all scores
        assert float(theirs.abs().max()) > 100 * TOLERANCE, name


def test_attention_with_padding_and_causal_mask_equals_torch() -> None:
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
    out = ours(x, visible=~hidden[:, None, None, :], causal=True)
    torch.testing.assert_close(out, expected, atol=TOLERANCE, rtol=0)


def test_activations_equal_torchs_of_the_same_name() -> None:
    x = torch.randn(5, 8)
    for name, function in (("relu", F.relu), ("gelu", F.gelu)):
        assert torch.equal(FeedForward(8, 8, name).activate(x), function(x))
