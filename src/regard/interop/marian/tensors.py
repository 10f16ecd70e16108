"""The same tensors under two names: ours, and those of MarianMTModel (and of Pegasus, which is pre-norm)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from regard.models import TransformerConfig

# Our names, and theirs. Embeddings that are not shared have a matrix on either side, and perhaps one of the output.
EMBEDDING, TARGET_EMBEDDING, OUTPUT = "source.embedding.weight", "target.embedding.weight", "output.weight"
OUTPUT_BIAS, FINAL_BIAS = "bias", "final_logits_bias"
SHARED, LM_HEAD = "model.shared.weight", "lm_head.weight"
SIDES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")  # computed, not learned


class Entry(NamedTuple):
    """A tensor of ours; stacked in it, one or more of theirs."""

    ours: str
    theirs: tuple[str, ...]
    permuted: tuple[int, ...]  # the dimensions that are the vector between layers

    def to_ours(self, theirs: list[Tensor]) -> Tensor:
        tensor = torch.cat(theirs)
        for dim in self.permuted:
            tensor = tensor.index_select(dim, alternating(tensor.shape[dim]))
        return tensor

    def to_theirs(self, ours: Tensor) -> dict[str, Tensor]:
        for dim in self.permuted:
            ours = ours.index_select(dim, alternating(ours.shape[dim]).argsort())
        return {name: part.clone() for name, part in zip(self.theirs, ours.chunk(len(self.theirs)), strict=True)}


def alternating(d_model: int) -> Tensor:
    """Which of their dimensions each of ours is: sine and cosine alternate, where theirs come one after the other."""
    return torch.arange(d_model).view(2, -1).t().flatten()


def entries(config: TransformerConfig) -> Iterator[Entry]:
    """All tensors except the embedding and the output bias, whose rows belong to the vocabulary."""
    for i in range(config.n_encoder_layers):
        yield from _layer(f"encoder.{i}", f"model.encoder.layers.{i}", has_cross_attention=False)
    for i in range(config.n_decoder_layers):
        yield from _layer(f"decoder.{i}", f"model.decoder.layers.{i}", has_cross_attention=True)
    if config.norm == "pre":
        yield from _norm("encoder_norm", "model.encoder.layer_norm")
        yield from _norm("decoder_norm", "model.decoder.layer_norm")


def _layer(ours: str, theirs: str, has_cross_attention: bool) -> Iterator[Entry]:
    yield from _attention(f"{ours}.self_attention", f"{theirs}.self_attn")
    norms = ["self_attn_layer_norm", "final_layer_norm"]
    if has_cross_attention:
        yield from _attention(f"{ours}.cross_attention", f"{theirs}.encoder_attn")
        norms.insert(1, "encoder_attn_layer_norm")
    yield Entry(f"{ours}.feed_forward.inner.weight", (f"{theirs}.fc1.weight",), (1,))
    yield Entry(f"{ours}.feed_forward.inner.bias", (f"{theirs}.fc1.bias",), ())
    yield Entry(f"{ours}.feed_forward.outer.weight", (f"{theirs}.fc2.weight",), (0,))
    yield Entry(f"{ours}.feed_forward.outer.bias", (f"{theirs}.fc2.bias",), (0,))
    for i, norm in enumerate(norms):
        yield from _norm(f"{ours}.residuals.{i}.norm", f"{theirs}.{norm}")


def _attention(ours: str, theirs: str) -> Iterator[Entry]:
    """Queries, keys and values are one matrix in ours; their rows are heads, which stay in place."""
    for kind, permuted in (("weight", (1,)), ("bias", ())):
        yield Entry(f"{ours}.qkv.{kind}", tuple(f"{theirs}.{part}_proj.{kind}" for part in "qkv"), permuted)
        yield Entry(f"{ours}.out.{kind}", (f"{theirs}.out_proj.{kind}",), (0,))


def _norm(ours: str, theirs: str) -> Iterator[Entry]:
    for kind in ("weight", "bias"):
        yield Entry(f"{ours}.{kind}", (f"{theirs}.{kind}",), (0,))
