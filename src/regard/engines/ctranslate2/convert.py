"""Converts a model to CTranslate2: the same weights in the layout of that library.

- Tokens are the ids as strings, "0" … "V-1", so that no text can be mistaken for a special token. Other programs work
  with sub-words: for them (`for_others`), tokens are sub-words.
- The engine appends the end token to the source. If CTranslate2 did, its attention would leave that token out. Other
  programs do not append it, so for them CTranslate2 does.
- Positions are our own table: sine and cosine alternate in the paper, but not in CTranslate2.
- CTranslate2 can only return the attention of the first heads of a layer, so the alignment head changes places with
  head 0. The sum over heads does not change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.artifact import LoadedModel
from regard.engines.alignment_head import alignment_head
from regard.errors import ArtifactError
from regard.models.transformer import DecoderLayer, Transformer
from regard.nn import EncoderLayer, FeedForward, MultiHeadAttention, Residual
from regard.text.vocabulary import BOS_ID, EOS_ID, UNK_ID

Quantization = Literal["float32", "int8"]

SUBDIRECTORY = "ctranslate2"
N_POSITIONS = 4096  # of the sinusoids: far more than in training; a longer text should be split


def unsupported_reason(model: nn.Module) -> str | None:
    """Why CTranslate2 cannot run such a model; None if it can."""
    if not isinstance(model, Transformer):
        return f"CTranslate2 does not have the architecture of {type(model).__name__}"
    if model.config.attention == "additive":
        return "CTranslate2 does not support additive attention"
    return None


def convert(loaded: LoadedModel, directory: Path, quantization: Quantization, *, for_others: bool = False) -> None:
    """Write the model as CTranslate2 model into `directory`, which must not exist."""
    reason = unsupported_reason(loaded.model)
    if reason is not None:
        raise ArtifactError(f"the model cannot be converted: {reason}", hint="use the engine 'torch'")
    spec = _make_spec(loaded)
    _set_vocabulary(spec, loaded, for_others)
    spec.validate()
    spec.optimize(quantization=quantization)
    directory.mkdir()
    spec.save(str(directory))


@torch.no_grad()
def _make_spec(loaded: LoadedModel) -> Any:
    from ctranslate2.specs import TransformerSpec, common_spec  # slow to import

    model: Transformer = loaded.model
    config = model.config
    activation = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}[config.activation]
    named_head = alignment_head(loaded)
    layer, head = named_head or (config.n_decoder_layers - 1, 0)
    spec = TransformerSpec.from_config(
        (config.n_encoder_layers, config.n_decoder_layers),
        config.n_heads,
        pre_norm=config.norm == "pre",
        activation=common_spec.Activation[activation],
        ffn_glu=config.activation == "swiglu",
        alignment_layer=layer,
        alignment_heads=0 if named_head is None else 1,  # 0: the mean of all heads, which the engine does not return
    )
    encoder, decoder = spec.encoder, spec.decoder
    encoder.embeddings[0].weight = _array(model.source.embedding.weight)
    decoder.embeddings.weight = _array(model.target.embedding.weight)
    decoder.projection.weight = _array(model.output_weight)
    if model.output_bias is not None:
        decoder.projection.bias = _array(model.output_bias)
    n_positions = config.max_length or N_POSITIONS
    encoder.position_encodings.encodings = _array(model.source.positions(n_positions))
    decoder.position_encodings.encodings = _array(model.target.positions(n_positions))
    for i, module in enumerate(model.encoder):
        _set_layer(encoder.layer[i], module)
    for i, module in enumerate(model.decoder):
        _set_layer(decoder.layer[i], module, first_head=head if i == layer else 0)
    if config.norm == "pre":
        _set_norm(encoder.layer_norm, model.encoder_norm)
        _set_norm(decoder.layer_norm, model.decoder_norm)
    spec.config.layer_norm_epsilon = 1e-5  # the default of torch
    return spec


def _set_vocabulary(spec: Any, loaded: LoadedModel, for_others: bool) -> None:
    """The tokens, and which of them are special."""
    tokenizers = loaded.tokenizers
    source, target = (
        tokenizer.symbols if for_others else [str(i) for i in range(tokenizer.size)]
        for tokenizer in (tokenizers.source, tokenizers.target)
    )
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.bos_token = spec.config.decoder_start_token = target[BOS_ID]
    spec.config.eos_token, spec.config.unk_token = target[EOS_ID], target[UNK_ID]
    spec.config.add_source_bos, spec.config.add_source_eos = False, for_others


def _set_layer(spec: Any, layer: nn.Module, first_head: int = 0) -> None:
    """A layer of the encoder or the decoder; `first_head` of the cross-attention changes places with head 0."""
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    _set_self_attention(spec.self_attention, layer.self_attention)
    _set_feed_forward(spec.ffn, layer.feed_forward)
    sublayers = [spec.self_attention, spec.ffn]
    if isinstance(layer, DecoderLayer):
        _set_cross_attention(spec.attention, layer.cross_attention, first_head)
        sublayers.insert(1, spec.attention)
    for sublayer, residual in zip(sublayers, layer.residuals, strict=True):
        _set_norm(sublayer.layer_norm, residual)


def _set_self_attention(spec: Any, module: MultiHeadAttention) -> None:
    weight, bias = _scaled(module)
    _set_linear(spec.linear[0], weight, bias)  # W_Q, W_K, W_V in one matrix, like ours
    _set_linear(spec.linear[1], module.out.weight, module.out.bias)


def _set_cross_attention(spec: Any, module: MultiHeadAttention, first_head: int) -> None:
    """One matrix for the queries, one for keys and values; `first_head` changes places with head 0."""
    heads = list(range(module.n_heads))
    heads[0], heads[first_head] = first_head, 0
    rows = torch.arange(module.d_model).view(module.n_heads, module.d_k)[heads].flatten()  # (D,)
    weight, bias = _scaled(module)
    weight = weight.view(3, module.d_model, -1)[:, rows]  # (3, D, D)
    bias = bias.view(3, module.d_model)[:, rows]  # (3, D)
    _set_linear(spec.linear[0], weight[0], bias[0])
    _set_linear(spec.linear[1], weight[1:].flatten(0, 1), bias[1:].flatten())
    _set_linear(spec.linear[2], module.out.weight[:, rows], module.out.bias)


def _scaled(module: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    """Weight (3D, D) and bias (3D,) of W_Q, W_K, W_V. CTranslate2 always divides scores by √d_k; undo it if needed."""
    weight, bias = module.qkv.weight.clone(), module.qkv.bias.clone()
    if module.kind == "dot_product":
        weight[: module.d_model] *= module.d_k**0.5
        bias[: module.d_model] *= module.d_k**0.5
    return weight, bias


def _set_feed_forward(spec: Any, module: FeedForward) -> None:
    weight: Tensor = module.inner.weight
    bias: Tensor = module.inner.bias
    if module.activation == "swiglu":
        (weight, ungated), (bias, ungated_bias) = weight.chunk(2), bias.chunk(2)  # (F, D), (F,)
        _set_linear(spec.linear_0_noact, ungated, ungated_bias)
    _set_linear(spec.linear_0, weight, bias)
    _set_linear(spec.linear_1, module.outer.weight, module.outer.bias)


def _set_linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = _array(weight), _array(bias)


def _set_norm(spec: Any, module: nn.Module) -> None:
    norm = module.norm if isinstance(module, Residual) else module
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    """A float32 copy: quantisation works in place."""
    return tensor.detach().to("cpu", torch.float32, copy=True).contiguous().numpy()
