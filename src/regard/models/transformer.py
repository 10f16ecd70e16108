"""The Transformer (section 3, Figure 1).

Training computes all target positions at once: `forward`. Decoding computes one position per call and caches the keys
and values of earlier ones: `encode`, `start`, then `step` by `step`. Both give the same numbers.

Shapes: B batch, S source, T target, D d_model, H heads, K d_k, V vocabulary, R = B · n_beams rows of a search
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.models.base import TranslationModel
from regard.models.config import AttentionConfig, TranslationConfig
from regard.nn import (
    Activation,
    AttentionKind,
    Cost,
    Embedding,
    EncoderLayer,
    FeedForward,
    InputEmbedding,
    KeyValues,
    LearnedPositions,
    MultiHeadAttention,
    Norm,
    Residual,
    SinusoidalPositions,
    Trace,
    at,
    attention_flops,
    padding_visible,
    product_flops,
    shared_rows,
)


class TransformerConfig(AttentionConfig, TranslationConfig, frozen=True, extra="forbid"):
    """Sizes and variants. The defaults are the row "base" of Table 3."""

    n_encoder_layers: int = Field(default=6, ge=1, le=1000)
    n_decoder_layers: int = Field(default=6, ge=1, le=1000)
    d_model: int = Field(default=512, ge=2, le=65_536, multiple_of=2)
    d_ff: int = Field(default=2048, ge=1, le=1_048_576)
    n_heads: int = Field(default=8, ge=1, le=1024)
    norm: Norm = "post"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: int = Field(default=1024, ge=1, le=1_048_576)  # for learned positions; sinusoids have no limit
    attention: AttentionKind = "scaled_dot_product"
    activation: Activation = "relu"
    output_bias: bool = False  # a learned value per token, added to its logit; Marian's models have it

    @property
    def d_k(self) -> int:
        """Size of the queries, keys and values of one head (section 3.2.2)."""
        return self.d_model // self.n_heads

    @property
    def depth(self) -> int:
        return self.n_encoder_layers + self.n_decoder_layers

    def describe(self) -> str:
        return f"{self.n_encoder_layers}+{self.n_decoder_layers} layers of {self.d_model}"

    @property
    def max_length(self) -> int | None:
        return self.max_positions if self.positions == "learned" else None


# "base" and "big" are those of Table 3; a CPU trains "tiny" and "small" in minutes.
PRESETS: dict[str, TransformerConfig] = {
    "tiny": TransformerConfig(n_encoder_layers=4, n_decoder_layers=4, d_model=128, d_ff=256, n_heads=4),
    "small": TransformerConfig(n_encoder_layers=3, n_decoder_layers=3, d_model=256, d_ff=1024, n_heads=4),
    "base": TransformerConfig(),
    "big": TransformerConfig(d_model=1024, d_ff=4096, n_heads=16, dropout=0.3),
}


@dataclass(frozen=True)
class TransformerMemory:
    """The encoder's output."""

    z: Tensor  # (B, S, D)
    visible: Tensor | None  # (B, 1, 1, S): False at padding; None if nothing is padded

    def select(self, rows: Tensor) -> TransformerMemory:
        return TransformerMemory(self.z[rows], None if self.visible is None else self.visible[rows])


@dataclass(frozen=True)
class TransformerState:
    """Cached keys and values of every decoder layer: of the target per row, and of the source per sentence.

    The beams of a sentence are consecutive rows and share the keys and values of its source.
    """

    position: int  # of the next token
    past: tuple[KeyValues | None, ...]  # self-attention, per layer: (R, H, T, K); None before the first token
    memory: tuple[KeyValues, ...]  # cross-attention, per layer: (B, H, S, K)
    visible: Tensor | None  # (B, 1, 1, S)
    n_beams: int = 1

    def select(self, rows: Tensor) -> TransformerState:
        past = tuple(None if kv is None else kv.select(rows) for kv in self.past)
        sentences, n_beams = shared_rows(rows, self.n_beams)
        if len(sentences) == len(self.memory[0].k) and bool((sentences.diff() == 1).all()):
            return TransformerState(self.position, past, self.memory, self.visible, n_beams)  # same sentences: no copy
        memory = tuple(kv.select(sentences) for kv in self.memory)
        visible = None if self.visible is None else self.visible[sentences]
        return TransformerState(self.position, past, memory, visible, n_beams)


class DecoderLayer(nn.Module):
    """Section 3.1, decoder: masked self-attention, attention over the encoder's output, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.n_heads, config.attention)
        self.cross_attention = MultiHeadAttention(config.d_model, config.n_heads, config.attention)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.residuals = nn.ModuleList(Residual(config.d_model, config.dropout, config.norm) for _ in range(3))

    def forward(self, y: Tensor, memory: TransformerMemory, trace: Trace | None = None) -> Tensor:
        """(B, T, D) → (B, T, D): all positions at once; the causal mask hides later ones."""
        self_trace, ff_trace = at(trace, "self_attention"), at(trace, "feed_forward")
        cross_trace = at(trace, "cross_attention", ("target", "source"))
        z, visible = memory.z, memory.visible
        # no padding mask: target padding comes after the real tokens, and the causal mask already hides it
        y = self.residuals[0](y, lambda x: self.self_attention(x, causal=True, trace=self_trace), self_trace)
        y = self.residuals[1](y, lambda x: self.cross_attention(x, z, visible, trace=cross_trace), cross_trace)
        y = self.residuals[2](y, lambda x: self.feed_forward(x, ff_trace), ff_trace)
        return y

    def step(
        self, y: Tensor, past: KeyValues | None, memory: KeyValues, visible: Tensor | None
    ) -> tuple[Tensor, KeyValues]:
        """(R, 1, D) → (R, 1, D): one position, and the cache including it.

        The rows are the beams of B sentences. The beams of a sentence share its memory (B, H, S, K).
        """
        cache: list[KeyValues] = []

        def attend_target(x: Tensor) -> Tensor:
            q, new = self.self_attention.queries_keys_values(x)  # each (R, H, 1, K)
            cache.append(new if past is None else past.append(new))  # (R, H, T, K)
            return self.self_attention.attend(q, cache[0])

        def attend_source(x: Tensor) -> Tensor:
            beams = x.view(len(memory.k), -1, x.shape[-1])  # (R, 1, D) → (B, n_beams, D): beams are queries
            return self.cross_attention.attend(self.cross_attention.queries(beams), memory, visible).view_as(x)

        y = self.residuals[0](y, attend_target)
        y = self.residuals[1](y, attend_source)
        y = self.residuals[2](y, self.feed_forward)
        return y, cache[0]


class Transformer(TranslationModel):
    """Encoder, decoder, and the embedding matrix that they share (section 3.4)."""

    def __init__(self, config: TransformerConfig, n_src_symbols: int, n_tgt_symbols: int, pad_id: int = 0) -> None:
        super().__init__()
        config.check_symbols(n_src_symbols, n_tgt_symbols)
        self.config: TransformerConfig = config
        self.pad_id = pad_id
        target = Embedding(n_tgt_symbols, config.d_model)
        source = target if config.tie == "all" else Embedding(n_src_symbols, config.d_model)
        self.source = InputEmbedding(source, self._positions(), config.dropout)
        self.target = InputEmbedding(target, self._positions(), config.dropout)
        layer = (config.d_model, config.d_ff, config.n_heads, config.dropout)
        kinds = (config.norm, config.activation, config.attention)
        self.encoder = nn.ModuleList(EncoderLayer(*layer, *kinds) for _ in range(config.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        # pre-norm does not normalise the output of the last layer, so each stack ends with one more LayerNorm
        final_norm = nn.LayerNorm if config.norm == "pre" else lambda _: nn.Identity()
        self.encoder_norm, self.decoder_norm = final_norm(config.d_model), final_norm(config.d_model)
        self.output = None if config.tie != "none" else Embedding(n_tgt_symbols, config.d_model)
        self.bias = nn.Parameter(torch.zeros(n_tgt_symbols)) if config.output_bias else None

    def _positions(self) -> SinusoidalPositions | LearnedPositions:
        if self.config.positions == "learned":
            return LearnedPositions(self.config.d_model, self.config.max_positions)
        return SinusoidalPositions(self.config.d_model)

    @property
    def output_weight(self) -> Tensor:
        """(V, D): the linear transformation before the softmax (section 3.4)."""
        return self.target.embedding.weight if self.output is None else self.output.weight

    @property
    def output_bias(self) -> Tensor | None:
        """(V,)"""
        return self.bias

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, S), (B, T) → (B, T, D): the decoder's output, before `output_weight`."""
        return self.decode(self.encode(src, trace), tgt_in, trace)

    def encode(self, src: Tensor, trace: Trace | None = None) -> TransformerMemory:
        """(B, S) → z (B, S, D), with its padding mask."""
        visible = padding_visible(src, self.pad_id)  # (B, 1, 1, S)
        x = self.source(src, trace=at(trace, "source", ("source",)))  # (B, S, D)
        for i, layer in enumerate(self.encoder):
            x = layer(x, visible, at(trace, f"encoder.{i}", ("source", "source")))
        return TransformerMemory(self.encoder_norm(x), visible)

    def decode(self, memory: TransformerMemory, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """Encoded source, (B, T) → (B, T, D): all positions at once."""
        y = self.target(tgt_in, trace=at(trace, "target", ("target",)))  # (B, T, D)
        for i, layer in enumerate(self.decoder):
            y = layer(y, memory, at(trace, f"decoder.{i}", ("target", "target")))
        out: Tensor = self.decoder_norm(y)
        return out

    def start(self, memory: TransformerMemory) -> TransformerState:
        """The state before the first token, with the keys and values of the source: (B, H, S, K) per layer."""
        source = tuple(layer.cross_attention.keys_values(memory.z) for layer in self._decoder_layers)
        return TransformerState(0, (None,) * len(source), source, memory.visible)

    def step(self, last: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """(R,) last tokens → (R, V) log-probabilities of the next token, and the state that includes `last`."""
        y = self.target(last[:, None], first=state.position)  # (R, 1, D)
        past = []
        for layer, layer_past, memory in zip(self._decoder_layers, state.past, state.memory, strict=True):
            y, kv = layer.step(y, layer_past, memory, state.visible)
            past.append(kv)
        logits = self.logits(self.decoder_norm(y[:, 0]))  # (R, D) → (R, V)
        return logits.log_softmax(-1), replace(state, position=state.position + 1, past=tuple(past))

    def cost(self, *lengths: int) -> Cost:
        """Table 1, self-attention: all positions of a layer at once, and a path of one layer between any two."""
        (s, t), d = lengths, self.config.d_model
        flops = product_flops(s, self.encoder) + len(self.encoder) * attention_flops(s, s, d)
        for layer in self._decoder_layers:
            cross = layer.cross_attention
            flops += product_flops(t, layer.self_attention, layer.feed_forward, cross.out) + attention_flops(t, t, d)
            flops += (t + 2 * s) * product_flops(1, cross.qkv.weight) // 3 + attention_flops(t, s, d)
        output = product_flops(t, self.output_weight)
        return Cost(flops + output, len(self.encoder) + len(self.decoder), 1, output)

    @property
    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]
