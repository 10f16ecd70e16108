"""A language model: a Transformer with a decoder only, as in GPT (Radford et al., 2018), or a Sparse Transformer.

Its positions are absolute, so it sees no more than `segment` tokens. A longer text is read in a window: when there are
no positions left, the last tokens are read again, from position 0.

Shapes: B batch, T length of a segment, C tokens that are cached, D d_model, H heads, K d_k
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.models.base import LanguageModel
from regard.models.config import StackConfig
from regard.nn import (
    Activation,
    Cost,
    Embedding,
    FeedForward,
    Fixed,
    InputEmbedding,
    KeyValues,
    LearnedPositions,
    MultiHeadAttention,
    Norm,
    Pattern,
    PatternName,
    Residual,
    SinusoidalPositions,
    SparseAttention,
    Strided,
    Trace,
    at,
    attention_flops,
    product_flops,
)


class LanguageConfig(StackConfig, frozen=True, extra="forbid"):
    """Sizes and variants, with the Transformer's names."""

    d_ff: int = Field(default=512, ge=1, le=1_048_576)
    norm: Norm = "pre"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    activation: Activation = "relu"
    pattern: PatternName = "full"  # the others are those of the Sparse Transformer (Child et al., 2019)
    stride: int = Field(default=32, ge=1, le=1_048_576)  # of a sparse pattern: about √segment
    summary: int = Field(default=4, ge=1, le=1_048_576)  # of "fixed": positions at the end of each stride
    tie: bool = True  # the output matrix is the embedding

    @property
    def layers(self) -> tuple[str, ...]:
        return ("words", *(f"decoder.{i}" for i in range(self.n_layers)))

    @property
    def sparse(self) -> Pattern | None:
        """What attention sees, if not everything before."""
        patterns: dict[str, Pattern] = {"strided": Strided(self.stride), "fixed": Fixed(self.stride, self.summary)}
        return patterns.get(self.pattern)

    def describe(self) -> str:
        return super().describe() + ("" if self.pattern == "full" else f", {self.pattern} attention")

    @model_validator(mode="after")
    def _a_summary_is_part_of_a_stride(self) -> Self:
        if self.pattern == "fixed" and self.summary > self.stride:
            raise ValueError(f"summary ({self.summary}) must not be greater than stride ({self.stride})")
        return self


PRESETS: dict[str, LanguageConfig] = {
    "tiny": LanguageConfig(n_layers=4, d_model=128, d_ff=512, n_heads=4),
    "small": LanguageConfig(n_layers=6, d_model=256, d_ff=1024, n_heads=4),
}


@dataclass(frozen=True)
class LanguageState:
    """The tokens in the window, and their keys and values in every layer."""

    ids: Tensor  # (B, C)
    past: tuple[KeyValues | None, ...]  # per layer (B, H, C, K); None before the first token
    memory: int | None

    def select(self, rows: Tensor) -> LanguageState:
        past = tuple(None if kv is None else kv.select(rows) for kv in self.past)
        return LanguageState(self.ids.index_select(0, rows), past, self.memory)


class LanguageLayer(nn.Module):
    """Masked self-attention, then feed-forward: the decoder's layer of section 3.1 without a source."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        size, pattern = (config.d_model, config.n_heads), config.sparse
        self.self_attention = MultiHeadAttention(*size) if pattern is None else SparseAttention(*size, pattern)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.residuals = nn.ModuleList(Residual(config.d_model, config.dropout, config.norm) for _ in range(2))

    def forward(self, x: Tensor, past: KeyValues | None, trace: Trace | None = None) -> tuple[Tensor, KeyValues]:
        """(B, T, D) → (B, T, D), and the keys and values including those of earlier positions."""
        columns = "source" if past is None else "context"
        attention_trace, ff_trace = at(trace, "self_attention", ("source", columns)), at(trace, "feed_forward")
        cache: list[KeyValues] = []

        def attend(y: Tensor) -> Tensor:
            q, new = self.self_attention.queries_keys_values(y)  # each (B, H, T, K)
            cache.append(new if past is None else past.append(new))  # (B, H, C + T, K)
            return self.self_attention.attend(q, cache[0], causal=True, trace=attention_trace)

        x = self.residuals[0](x, attend, attention_trace)
        x = self.residuals[1](x, lambda y: self.feed_forward(y, ff_trace), ff_trace)
        return x, cache[0]


class Language(LanguageModel):
    """Embedding, layers, and a softmax with the embedding's matrix."""

    training_memory = 0  # to read tokens again costs as much as to read others
    usual_segments = (128, 1)

    def __init__(self, config: LanguageConfig, n_symbols: int, segment: int, pad_id: int = 0) -> None:
        super().__init__()
        self.config: LanguageConfig = config
        self.segment, self.pad_id = segment, pad_id
        d = config.d_model
        positions = LearnedPositions(d, segment) if config.positions == "learned" else SinusoidalPositions(d)
        self.words = InputEmbedding(Embedding(n_symbols, d), positions, config.dropout)
        self.decoder = nn.ModuleList(LanguageLayer(config) for _ in range(config.n_layers))
        # pre-norm does not normalise the output of the last layer
        self.decoder_norm = nn.LayerNorm(d) if config.norm == "pre" else nn.Identity()
        self.output = None if config.tie else Embedding(n_symbols, d)

    @property
    def output_weight(self) -> Tensor:
        return self.words.embedding.weight if self.output is None else self.output.weight

    @property
    def evaluation_segment(self) -> int:
        return max(1, self.segment // 2)  # so that a token sees at least as many before it

    def start(self, n_rows: int, memory: int | None = None) -> LanguageState:
        ids = torch.empty(n_rows, 0, dtype=torch.long, device=self.output_weight.device)
        return LanguageState(ids, (None,) * len(self.decoder), memory)

    def read(self, ids: Tensor, state: LanguageState, trace: Trace | None = None) -> tuple[Tensor, LanguageState]:
        n_cached, n_new = state.ids.shape[1], ids.shape[1]
        n_seen = self._n_seen(n_cached, n_new, state.memory)
        if n_seen < n_cached:  # these are read again, in front of the new ones
            ids, state = torch.cat([state.ids[:, n_cached - n_seen :], ids], 1), self.start(len(ids), state.memory)
        x = self.words(ids, first=state.ids.shape[1], trace=at(trace, "words", ("source",)))  # (B, T, D)
        past = []
        for i, (layer, kv) in enumerate(zip(self.decoder, state.past, strict=True)):
            x, kv = layer(x, kv, at(trace, f"decoder.{i}", ("source", "source")))
            past.append(KeyValues(kv.k.detach(), kv.v.detach()))
        features: Tensor = self.decoder_norm(x[:, -n_new:])
        return features, LanguageState(torch.cat([state.ids, ids], 1), tuple(past), state.memory)

    def cost(self, *lengths: int) -> Cost:
        """As of the Transformer's encoder, segment by segment: nothing connects two of them in training."""
        [length] = lengths
        segments = [min(self.segment, length - first) for first in range(0, length, self.segment)]
        output = product_flops(length, self.output_weight)
        flops = product_flops(length, self.decoder) + output
        pattern, n_layers = self.config.sparse, len(self.decoder)
        n_scores = sum(t * t if pattern is None else pattern.n_scores(t) for t in segments)
        flops += n_layers * attention_flops(1, n_scores, self.config.d_model)
        path = 1 if pattern is None else pattern.path(length)
        return Cost(flops, n_layers, path if len(segments) == 1 and path <= n_layers else None, output)

    def _n_seen(self, n_cached: int, n_new: int, memory: int | None) -> int:
        """How many earlier tokens the new ones see. If `memory` is None, as many as fit, or else half a window.

        So a text that is read token by token is not read again for each of them.
        """
        n_free = self.segment - n_new
        if memory is None:
            return n_cached if n_cached <= n_free else min(self.segment // 2, n_free)
        return min(n_cached, n_free, memory)
