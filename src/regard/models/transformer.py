"""The Transformer (section 3, Figure 1).

B batch, S source, T target, D d_model, H heads, K d_k, V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch.nn.functional as F
from pydantic import BaseModel, Field, model_validator
from torch import Tensor, nn

from regard.nn import (
    Activation,
    AttentionKind,
    Embedding,
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
    padding_visible,
    shared_rows,
)


class TransformerConfig(BaseModel, frozen=True, extra="forbid"):
    """The defaults are "base" of Table 3."""

    n_encoder_layers: int = Field(default=6, ge=1, le=1000)
    n_decoder_layers: int = Field(default=6, ge=1, le=1000)
    d_model: int = Field(default=512, ge=2, le=65_536, multiple_of=2)
    d_ff: int = Field(default=2048, ge=1, le=1_048_576)
    n_heads: int = Field(default=8, ge=1, le=1024)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    norm: Norm = "post"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: int = Field(default=1024, ge=1, le=1_048_576)  # of learned positions; the waves have no end
    attention: AttentionKind = "scaled_dot_product"
    activation: Activation = "relu"
    # "all": both embeddings and the softmax share one matrix (section 3.4; needs a joint vocabulary);
    # "target": the target embedding and the softmax; "none": three matrices
    tie: Literal["all", "target", "none"] = "all"

    @property
    def d_k(self) -> int:
        """Width of a head."""
        return self.d_model // self.n_heads

    @model_validator(mode="after")
    def _heads_divide_the_model(self) -> Self:
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model ({self.d_model}) must be a multiple of n_heads ({self.n_heads})")
        return self


# "base" and "big" are the paper's; "tiny" and "small" are sizes that a CPU trains in minutes.
PRESETS: dict[str, TransformerConfig] = {
    "tiny": TransformerConfig(n_encoder_layers=4, n_decoder_layers=4, d_model=128, d_ff=256, n_heads=4),
    "small": TransformerConfig(n_encoder_layers=3, n_decoder_layers=3, d_model=256, d_ff=1024, n_heads=4),
    "base": TransformerConfig(),
    "big": TransformerConfig(d_model=1024, d_ff=4096, n_heads=16, dropout=0.3),
}


@dataclass(frozen=True)
class TransformerMemory:
    """The encoder's output z (B, S, D), and which of it is real."""

    z: Tensor
    visible: Tensor | None

    def select(self, rows: Tensor) -> TransformerMemory:
        return TransformerMemory(self.z[rows], None if self.visible is None else self.visible[rows])


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of every decoder layer: of the target so far, a row each, and of the source, a sentence each.

    The beams of a sentence follow one another and share its source.
    """

    position: int
    past: tuple[KeyValues | None, ...]  # (B·n_beams, H, T, K)
    memory: tuple[KeyValues, ...]  # (B, H, S, K)
    visible: Tensor | None  # (B, 1, 1, S)
    n_beams: int = 1

    def select(self, rows: Tensor) -> TransformerState:
        past = tuple(None if kv is None else kv.select(rows) for kv in self.past)
        sentences, n_beams = shared_rows(rows, self.n_beams)
        if len(sentences) == len(self.memory[0].k) and bool((sentences.diff() == 1).all()):
            return TransformerState(self.position, past, self.memory, self.visible, n_beams)  # all stay in place
        memory = tuple(kv.select(sentences) for kv in self.memory)
        visible = None if self.visible is None else self.visible[sentences]
        return TransformerState(self.position, past, memory, visible, n_beams)


class EncoderLayer(nn.Module):
    """Two sub-layers: self-attention over all positions, feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.n_heads, config.attention)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.residuals = nn.ModuleList(Residual(config.d_model, config.dropout, config.norm) for _ in range(2))

    def forward(self, x: Tensor, visible: Tensor | None, trace: Trace | None = None) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        look, think = at(trace, "self"), at(trace, "feed_forward")
        x = self.residuals[0](x, lambda y: self.self_attention(y, visible=visible, trace=look), look)
        x = self.residuals[1](x, lambda y: self.feed_forward(y, think), think)
        return x


class DecoderLayer(nn.Module):
    """Three sub-layers: masked self-attention, attention over the encoder's output, feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.n_heads, config.attention)
        self.cross_attention = MultiHeadAttention(config.d_model, config.n_heads, config.attention)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.residuals = nn.ModuleList(Residual(config.d_model, config.dropout, config.norm) for _ in range(3))

    def forward(self, y: Tensor, memory: TransformerMemory, trace: Trace | None = None) -> Tensor:
        """(B, T, D) → (B, T, D), all positions at once; the mask keeps the future unseen."""
        look, cross, think = at(trace, "self"), at(trace, "cross"), at(trace, "feed_forward")
        # target padding stands behind the real symbols, where the causal mask already hides it
        y = self.residuals[0](y, lambda x: self.self_attention(x, causal=True, trace=look), look)
        y = self.residuals[1](y, lambda x: self.cross_attention(x, memory.z, memory.visible, trace=cross), cross)
        y = self.residuals[2](y, lambda x: self.feed_forward(x, think), think)
        return y

    def step(
        self, y: Tensor, past: KeyValues | None, memory: KeyValues, visible: Tensor | None
    ) -> tuple[Tensor, KeyValues]:
        """(R, 1, D) → (R, 1, D): one position, with the past from the cache.

        The R rows are the beams of B sentences, whose memory (B, H, S, K) they share: B·n = R.
        """
        grown: list[KeyValues] = []

        def look_back(x: Tensor) -> Tensor:
            q, new = self.self_attention.all_heads(x)
            grown.append(new if past is None else past.append(new))
            return self.self_attention.attend(q, grown[0])

        def look_across(x: Tensor) -> Tensor:
            beams = x.view(len(memory.k), -1, x.shape[-1])  # (B, n, D): a sentence's beams as its queries
            return self.cross_attention.attend(self.cross_attention.queries(beams), memory, visible).view_as(x)

        y = self.residuals[0](y, look_back)
        y = self.residuals[1](y, look_across)
        y = self.residuals[2](y, self.feed_forward)
        return y, grown[0]


class Transformer(nn.Module):
    """Encoder, decoder, and the shared matrix of section 3.4."""

    def __init__(self, config: TransformerConfig, n_src_symbols: int, n_tgt_symbols: int, pad_id: int = 0) -> None:
        super().__init__()
        if config.tie == "all" and n_src_symbols != n_tgt_symbols:
            raise ValueError("tie = 'all' needs one vocabulary for both languages; use 'target' or 'none'")
        self.config, self.pad_id = config, pad_id
        target = Embedding(n_tgt_symbols, config.d_model)
        source = target if config.tie == "all" else Embedding(n_src_symbols, config.d_model)
        self.source = InputEmbedding(source, self._positions(), config.dropout)
        self.target = InputEmbedding(target, self._positions(), config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        # pre-norm leaves the last sum as it is, so each stack ends with one LayerNorm more
        final = nn.LayerNorm if config.norm == "pre" else lambda _: nn.Identity()
        self.encoder_norm, self.decoder_norm = final(config.d_model), final(config.d_model)
        self.output = None if config.tie != "none" else Embedding(n_tgt_symbols, config.d_model)

    def _positions(self) -> SinusoidalPositions | LearnedPositions:
        if self.config.positions == "learned":
            return LearnedPositions(self.config.d_model, self.config.max_positions)
        return SinusoidalPositions(self.config.d_model)

    @property
    def output_weight(self) -> Tensor:
        """(V, D): the pre-softmax linear transformation."""
        return self.target.embedding.weight if self.output is None else self.output.weight

    def forward(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, S), (B, T) → logits (B, T, V) of the symbol after each position."""
        logits = F.linear(self.features(src, tgt_in, trace), self.output_weight)
        if trace is not None:
            trace.record("logits", logits)
        return logits

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, S), (B, T) → (B, T, D): the decoder's output before the softmax's linear."""
        return self.decode(self.encode(src, trace), tgt_in, trace)

    def decode(self, memory: TransformerMemory, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """z, (B, T) → (B, T, D): all positions at once, over a source that is encoded already."""
        y = self.target(tgt_in, trace=at(trace, "target"))
        for i, layer in enumerate(self.decoder):
            y = layer(y, memory, at(trace, f"decoder.{i}"))
        out: Tensor = self.decoder_norm(y)
        return out

    def encode(self, src: Tensor, trace: Trace | None = None) -> TransformerMemory:
        """(B, S) → z: all positions at once."""
        visible = padding_visible(src, self.pad_id)
        x = self.source(src, trace=at(trace, "source"))
        for i, layer in enumerate(self.encoder):
            x = layer(x, visible, at(trace, f"encoder.{i}"))
        return TransformerMemory(self.encoder_norm(x), visible)

    def start(self, memory: TransformerMemory) -> TransformerState:
        """The state before the first symbol: the source's keys and values, computed once."""
        across = tuple(layer.cross_attention.keys_values(memory.z) for layer in self._decoder_layers)
        return TransformerState(0, (None,) * len(across), across, memory.visible)

    def step(self, last: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """(B,) → log-probabilities (B, V) of the next symbol, and the state that includes `last`."""
        y = self.target(last[:, None], first=state.position)  # (B, 1, D)
        past = []
        for layer, before, memory in zip(self._decoder_layers, state.past, state.memory, strict=True):
            y, kv = layer.step(y, before, memory, state.visible)
            past.append(kv)
        logits = F.linear(self.decoder_norm(y[:, 0]), self.output_weight)  # (B, V)
        return logits.log_softmax(-1), TransformerState(
            state.position + 1, tuple(past), state.memory, state.visible, state.n_beams
        )

    @property
    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]

    @property
    def n_parameters(self) -> int:
        """Every number that is learned, shared ones once."""
        return sum(p.numel() for p in self.parameters())
