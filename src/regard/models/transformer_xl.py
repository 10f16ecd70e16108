"""Transformer-XL (Dai et al., 2019): a language model that reads segment after segment and remembers the earlier ones.

The memory of a layer is what it read in the segments before (section 3.2). It gets no gradient, but its keys and values
are computed with the layer's weights of today. Positions are relative (section 3.3), so the memory can be longer in use
than it was in training.

Shapes: B batch, T length of a segment, M length of the memory, S = M + T, P distances, D d_model, H heads, K d_k
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.models.base import LanguageModel
from regard.models.config import StackConfig
from regard.nn import (
    TRAINING_FLOPS,
    Activation,
    Cost,
    Distances,
    Embedding,
    FeedForward,
    InputEmbedding,
    KeyValues,
    NoPositions,
    Norm,
    RelativeAttention,
    Residual,
    ScoreBiases,
    Trace,
    at,
    attention_flops,
    causal_visible,
    product_flops,
)


class TransformerXLConfig(StackConfig, frozen=True, extra="forbid"):
    """Sizes and variants, with the Transformer's names."""

    d_ff: int = Field(default=512, ge=1, le=1_048_576)
    memory: int = Field(default=64, ge=0, le=1_048_576)  # tokens of earlier segments that a segment sees
    norm: Norm = "pre"  # the paper's is "post"
    activation: Activation = "relu"
    tie: bool = True  # the output matrix is the embedding

    @property
    def layers(self) -> tuple[str, ...]:
        return ("words", *(f"decoder.{i}" for i in range(self.n_layers)))

    def describe(self) -> str:
        return f"{super().describe()}, memory of {self.memory}"


PRESETS: dict[str, TransformerXLConfig] = {
    "tiny": TransformerXLConfig(n_layers=4, d_model=128, d_ff=512, n_heads=4),
    "small": TransformerXLConfig(n_layers=6, d_model=256, d_ff=1024, n_heads=4),
}


@dataclass(frozen=True)
class LayerMemory:
    """What a layer read before, and what it computed from that: used again wherever no gradient is needed."""

    inputs: Tensor  # (B, M, D)
    kv: KeyValues  # (B, H, M, K)
    encoded: Tensor  # (H, P, K): the distances P - 2 … -1

    def select(self, rows: Tensor) -> LayerMemory:
        return LayerMemory(self.inputs.index_select(0, rows), self.kv.select(rows), self.encoded)

    def last(self, n: int) -> LayerMemory:
        """Of the last n positions, without gradients."""
        first = max(0, self.inputs.shape[1] - n)
        kv = KeyValues(*(x[:, :, first:].detach() for x in self.kv))
        return LayerMemory(self.inputs[:, first:].detach(), kv, self.encoded.detach())


@dataclass(frozen=True)
class TransformerXLState:
    """The memory of every layer, and how long it may become."""

    layers: tuple[LayerMemory, ...]
    limit: int

    def select(self, rows: Tensor) -> TransformerXLState:
        return TransformerXLState(tuple(memory.select(rows) for memory in self.layers), self.limit)


class TransformerXLLayer(nn.Module):
    """Attention over the memory and the segment so far, then feed-forward."""

    def __init__(self, config: TransformerXLConfig, biases: ScoreBiases) -> None:
        super().__init__()
        self.self_attention = RelativeAttention(config.d_model, config.n_heads, biases)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        first, second = (Residual(config.d_model, config.dropout, config.norm) for _ in range(2))
        self.residuals = nn.ModuleList([first, second])
        self.memory_norm = first.norm if config.norm == "pre" else nn.Identity()  # the memory is normalised like x

    def forward(
        self, x: Tensor, memory: LayerMemory, distances: Distances, trace: Trace | None = None
    ) -> tuple[Tensor, LayerMemory]:
        """(B, T, D) → (B, T, D), and the memory followed by this segment."""
        n_queries, n_keys = x.shape[1], memory.inputs.shape[1] + x.shape[1]
        columns = "source" if n_keys == n_queries else "context"
        attention_trace, ff_trace = at(trace, "self_attention", ("source", columns)), at(trace, "feed_forward")
        past, encoded = self._project(memory, n_keys, distances)
        visible = None if n_queries == 1 else causal_visible(n_queries, n_keys, x.device)
        cache: list[KeyValues] = []

        def attend(y: Tensor) -> Tensor:
            cache.append(past.append(self.self_attention.keys_values(y)))  # (B, H, S, K)
            q, near = self.self_attention.queries(y), encoded[:, -n_keys - 1 :]
            return self.self_attention.attend(q, cache[0], near, visible, trace=attention_trace)

        inputs = torch.cat([memory.inputs, x], 1)  # (B, S, D)
        x = self.residuals[0](x, attend, attention_trace)
        x = self.residuals[1](x, lambda y: self.feed_forward(y, ff_trace), ff_trace)
        return x, LayerMemory(inputs, cache[0], encoded)

    def _project(self, memory: LayerMemory, n_keys: int, distances: Distances) -> tuple[KeyValues, Tensor]:
        """Keys and values of the memory, and distances for at least `n_keys`, with gradients for the weights."""
        if torch.is_grad_enabled():
            past = self.self_attention.keys_values(self.memory_norm(memory.inputs))
            return past, self.self_attention.encode(distances(1, n_keys))
        if memory.encoded.shape[1] > n_keys:
            return memory.kv, memory.encoded
        return memory.kv, self.self_attention.encode(distances(1, 2 * n_keys))  # enough for many steps


class TransformerXL(LanguageModel):
    """Embedding, layers with memories, and a softmax with the embedding's matrix."""

    def __init__(self, config: TransformerXLConfig, n_symbols: int, segment: int, pad_id: int = 0) -> None:
        super().__init__()
        self.config: TransformerXLConfig = config
        self.segment, self.pad_id = segment, pad_id
        d = config.d_model
        self.words = InputEmbedding(Embedding(n_symbols, d), NoPositions(d), config.dropout)
        self.distances = Distances(d)
        self.biases = ScoreBiases(config.n_heads, d // config.n_heads)  # u and v, the same in every layer
        self.decoder = nn.ModuleList(TransformerXLLayer(config, self.biases) for _ in range(config.n_layers))
        # pre-norm does not normalise the output of the last layer
        self.decoder_norm = nn.LayerNorm(d) if config.norm == "pre" else nn.Identity()
        self.output = None if config.tie else Embedding(n_symbols, d)

    @property
    def output_weight(self) -> Tensor:
        return self.words.embedding.weight if self.output is None else self.output.weight

    def start(self, n_rows: int, memory: int | None = None) -> TransformerXLState:
        d, h = self.config.d_model, self.config.n_heads
        inputs = self.output_weight.new_zeros(n_rows, 0, d)
        kv = inputs.view(n_rows, h, 0, d // h)
        empty = LayerMemory(inputs, KeyValues(kv, kv), inputs.new_zeros(h, 0, d // h))
        return TransformerXLState((empty,) * len(self.decoder), self.config.memory if memory is None else memory)

    def read(
        self, ids: Tensor, state: TransformerXLState, trace: Trace | None = None
    ) -> tuple[Tensor, TransformerXLState]:
        x = self.words(ids, trace=at(trace, "words", ("source",)))  # (B, T, D)
        memories = []
        for i, (layer, memory) in enumerate(zip(self.decoder, state.layers, strict=True)):
            x, memory = layer(x, memory, self.distances, at(trace, f"decoder.{i}", ("source", "source")))
            memories.append(memory.last(state.limit))
        features: Tensor = self.decoder_norm(x)
        return features, TransformerXLState(tuple(memories), state.limit)

    def cost(self, *lengths: int) -> Cost:
        """Segment by segment: keys and values of the memory are computed again, and every distance once per layer."""
        [length] = lengths
        d, n_layers, path, extra = self.config.d_model, len(self.decoder), 0, 0
        flops = output = product_flops(length, self.output_weight)
        for first in range(0, length, self.segment):
            t, m = min(self.segment, length - first), min(self.config.memory, first)
            flops += product_flops(t, self.decoder)  # W_R for t distances, but there are m + 1 more
            flops += n_layers * (2 * d * d * (2 * m + m + 1) + attention_flops(t, t + m, d))
            flops += n_layers * attention_flops(t, t + m + 1, d) // 2  # only scores
            # a batch shares the distances, and the inputs of the memory have no gradient
            extra -= 2 * d * d * n_layers * (TRAINING_FLOPS * (t + m + 1) + 2 * m)
        position = length - 1
        while position > 0 and path <= n_layers:  # each layer sees the own segment and the memory before it
            path, position = path + 1, max(0, position - position % self.segment - self.config.memory)
        return Cost(flops, n_layers, path if path <= n_layers else None, output, extra)
