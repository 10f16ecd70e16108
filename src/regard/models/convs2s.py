"""Convolutional sequence to sequence learning (ConvS2S; Gehring et al., 2017).

Encoder and decoder are stacks of convolutions with gated linear units; every decoder layer attends to the source. All
sums of two terms are multiplied by √½, and the weights are initialised so that the variance stays the same from layer
to layer (sections 3.4 and 3.5). The paper's weight normalisation is left out: the initialisation alone keeps the
variance, and Muon normalises the updates.

Shapes: B sentences, R = B · n_beams rows of a search, S source, T target, D d_model
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.models.base import TranslationModel
from regard.models.config import TranslationConfig
from regard.nn import (
    Convolution,
    Cost,
    Dropout,
    InputEmbedding,
    KeyValues,
    LearnedPositions,
    Linear,
    Trace,
    at,
    attention_flops,
    attention_weights,
    dot_product_scores,
    layers_to_reach,
    longest,
    padding_visible,
    product_flops,
    select_shared,
)

EMBEDDING_STD = 0.1  # section 3.5
ROOT_HALF = sqrt(0.5)


class ConvS2SConfig(TranslationConfig, frozen=True, extra="forbid"):
    """Sizes and variants. The defaults are fairseq's for small corpora; the paper has 15+15 layers of 512 to 2048."""

    n_encoder_layers: int = Field(default=4, ge=1, le=1000)
    n_decoder_layers: int = Field(default=3, ge=1, le=1000)
    d_model: int = Field(default=256, ge=1, le=65_536)  # of embeddings, of the vectors between layers, and of attention
    kernel: int = Field(default=3, ge=1, le=99)
    max_positions: int = Field(default=1024, ge=1, le=1_048_576)

    @property
    def width(self) -> int:
        return self.d_model

    @property
    def depth(self) -> int:
        return self.n_encoder_layers + self.n_decoder_layers

    @property
    def max_length(self) -> int | None:
        return self.max_positions

    def describe(self) -> str:
        return f"{self.n_encoder_layers}+{self.n_decoder_layers} layers of {self.d_model}, kernel {self.kernel}"


# About as many parameters as the Transformer's presets, with a vocabulary of 8,000
PRESETS = {
    "tiny": ConvS2SConfig(n_encoder_layers=5, n_decoder_layers=5, d_model=128),
    "small": ConvS2SConfig(n_encoder_layers=5, n_decoder_layers=5, d_model=256),
}


@dataclass(frozen=True)
class ConvS2SMemory:
    """The encoder's output: z, and the values of attention, (z + the embeddings) · √½."""

    source: KeyValues  # (B, 1, S, D)
    visible: Tensor | None  # (B, 1, 1, S): False at padding; None if nothing is padded
    root_m: Tensor  # (B, 1, 1, 1): √m, where m is the length of the source without padding

    def select(self, rows: Tensor) -> ConvS2SMemory:
        visible = None if self.visible is None else self.visible[rows]
        return ConvS2SMemory(self.source.select(rows), visible, self.root_m[rows])


@dataclass(frozen=True)
class ConvS2SState:
    """The decoder between two steps. The beams of a sentence are consecutive rows and share its memory."""

    position: int  # of the next token
    past: tuple[Tensor, ...]  # the last inputs of each layer's convolution: (R, kernel - 1, D)
    memory: ConvS2SMemory  # of B sentences
    n_beams: int = 1

    def select(self, rows: Tensor) -> ConvS2SState:
        past = tuple(inputs.index_select(0, rows) for inputs in self.past)
        memory, n_beams = select_shared(self.memory, len(self.memory.root_m), rows, self.n_beams)
        return ConvS2SState(self.position, past, memory, n_beams)


def scaled_linear(d_input: int, d_output: int, dropout: float) -> Linear:
    """A layer that keeps the variance of an input after dropout (appendix A.1)."""
    layer = Linear(d_input, d_output)
    nn.init.normal_(layer.weight, std=sqrt((1 - dropout) / d_input))
    nn.init.zeros_(layer.bias)
    return layer


def joined(x: Tensor, y: Tensor) -> Tensor:
    """(x + y) · √½: of two terms with equal variance, that variance (section 3.4)."""
    return (x + y) * ROOT_HALF


class GatedConvolution(nn.Module):
    """Section 3.2: dropout, a convolution to 2D channels, and a gated linear unit, a · σ(b), back to D."""

    def __init__(self, config: ConvS2SConfig, causal: bool) -> None:
        super().__init__()
        d = config.d_model
        self.convolution = Convolution(d, 2 * d, config.kernel, causal=causal, n_parts=2)
        # a gated linear unit keeps a quarter of the variance (appendix A.2)
        nn.init.normal_(self.convolution.weight, std=sqrt(4 * (1 - config.dropout) / (config.kernel * d)))
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, is_real: Tensor | None = None, trace: Trace | None = None) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        return self._gated(self.convolution(self.dropout(x), is_real), trace)

    def step(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """(R, D) → (R, D): one position, and the cache including it."""
        convolved, past = self.convolution.step(x, past)
        return self._gated(convolved), past

    def _gated(self, convolved: Tensor, trace: Trace | None = None) -> Tensor:
        if trace is not None:
            trace.record("gates", convolved.chunk(2, -1)[1].sigmoid(), kind="gates", axes=(trace.axes[0], "unit"))
        return F.glu(convolved)


class ConvAttention(nn.Module):
    """Section 3.3: with one head, from the state of a layer and the embedding of its token."""

    matrices: ClassVar[dict[str, int]] = {"query.weight": 1, "out.weight": 1}  # for Muon
    has_scale = False
    is_off = False

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.query = scaled_linear(config.d_model, config.d_model, config.dropout)
        self.out = scaled_linear(config.d_model, config.d_model, config.dropout)

    def forward(self, h: Tensor, g: Tensor, memory: ConvS2SMemory, trace: Trace | None = None) -> Tensor:
        """States h and embeddings g, (R, T, D) → (R, T, D). The beams of a sentence are queries to it."""
        q = joined(self.query(h), g)
        q = q.view(len(memory.root_m), 1, -1, q.shape[-1])  # (B, 1, n_beams · T, D)
        scores = dot_product_scores(q, memory.source.k)  # (B, 1, n_beams · T, S)
        weights = attention_weights(scores, memory.visible)
        if trace is not None:
            trace.record("scores", scores, kind="scores", axes=("head", *trace.axes))
            trace.record("weights", weights, kind="attention", axes=("head", *trace.axes))
        # a mean of m vectors has 1/m of their variance if they have equal weights, so it is multiplied by √m
        mean = weights @ memory.source.v * memory.root_m
        mean = torch.zeros_like(mean) if self.is_off else mean
        return joined(self.out(mean.view_as(h)), h)

    def ablated(self, heads_off: Collection[int] = (), scale: bool = True, sees_future: bool = False) -> Self:
        """The same weights, but without its head the mean is zero."""
        ablated = copy(self)
        ablated.is_off = bool(heads_off)
        return ablated


class DecoderLayer(nn.Module):
    """Convolution, then attention; a residual connection around both."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.gated = GatedConvolution(config, causal=True)
        self.attention = ConvAttention(config)

    def forward(self, x: Tensor, g: Tensor, memory: ConvS2SMemory, trace: Trace | None = None) -> Tensor:
        """(B, T, D) → (B, T, D): all positions at once. g (B, T, D) are the embeddings of the target."""
        h = self.gated(x, trace=at(trace, "gated"))
        return joined(self.attention(h, g, memory, at(trace, "attention")), x)

    def step(self, x: Tensor, g: Tensor, memory: ConvS2SMemory, past: Tensor) -> tuple[Tensor, Tensor]:
        """(R, D) → (R, D): one position, and the cache including it."""
        h, past = self.gated.step(x, past)
        return joined(self.attention(h[:, None], g[:, None], memory)[:, 0], x), past


class ConvS2S(TranslationModel):
    """Encoder, decoder, and the embedding matrix that they share."""

    matrices: ClassVar[dict[str, int]] = {
        f"{name}.weight": 1 for name in ("encoder_in", "encoder_out", "decoder_in", "decoder_out")
    }  # for Muon

    def __init__(self, config: ConvS2SConfig, n_src_symbols: int, n_tgt_symbols: int, pad_id: int = 0) -> None:
        super().__init__()
        config.check_symbols(n_src_symbols, n_tgt_symbols)
        self.config: ConvS2SConfig = config
        self.pad_id = pad_id
        d, p = config.d_model, config.dropout
        target = nn.Embedding(n_tgt_symbols, d)
        source = target if config.tie == "all" else nn.Embedding(n_src_symbols, d)
        self.target = InputEmbedding(target, LearnedPositions(d, config.max_positions), p)
        self.source = InputEmbedding(source, LearnedPositions(d, config.max_positions), p)
        self.encoder = nn.ModuleList(GatedConvolution(config, causal=False) for _ in range(config.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        self.encoder_in, self.encoder_out = scaled_linear(d, d, p), scaled_linear(d, d, p)
        self.decoder_in, self.decoder_out = scaled_linear(d, d, p), scaled_linear(d, d, p)
        self.output = nn.Embedding(n_tgt_symbols, d) if config.tie == "none" else None
        self.bias = nn.Parameter(torch.zeros(n_tgt_symbols))
        self.dropout = Dropout(p)
        for module in self.modules():
            if isinstance(module, nn.Embedding | LearnedPositions):
                nn.init.normal_(next(module.parameters()), std=EMBEDDING_STD)

    @property
    def output_weight(self) -> Tensor:
        return self.target.embedding.weight if self.output is None else self.output.weight

    @property
    def output_bias(self) -> Tensor:
        return self.bias

    def encode(self, src: Tensor, trace: Trace | None = None) -> ConvS2SMemory:
        visible = padding_visible(src, self.pad_id)  # (B, 1, 1, S)
        is_real = None if visible is None else visible[:, 0, 0, :, None].to(self.bias.dtype)  # (B, S, 1)
        embedded = self.source(src, trace=at(trace, "source", ("source",)))  # (B, S, D)
        x = self.encoder_in(embedded)
        for i, layer in enumerate(self.encoder):
            x = self._recorded(
                joined(layer(x, is_real, at(trace, f"encoder.{i}", ("source",))), x), "encoder", i, trace
            )
        z = self.encoder_out(x)
        if self.training and z.requires_grad:
            n_attentions = self.config.n_decoder_layers
            z.register_hook(lambda gradient: gradient / n_attentions)  # section 3.5
        m = (src != self.pad_id).sum(1)[:, None, None, None]  # (B, 1, 1, 1)
        source = KeyValues(z[:, None], joined(z, embedded)[:, None])  # (B, 1, S, D)
        return ConvS2SMemory(source, visible, m.to(self.bias.dtype).sqrt())

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        memory = self.encode(src, trace)
        g = self.target(tgt_in, trace=at(trace, "target", ("target",)))  # (B, T, D)
        x = self.decoder_in(g)
        for i, layer in enumerate(self.decoder):
            x = self._recorded(
                layer(x, g, memory, at(trace, f"decoder.{i}", ("target", "source"))), "decoder", i, trace
            )
        out: Tensor = self.dropout(self.decoder_out(x))
        return out

    def start(self, memory: ConvS2SMemory) -> ConvS2SState:
        past = tuple(layer.gated.convolution.start(memory.source.k) for layer in self._decoder_layers)
        return ConvS2SState(0, past, memory)

    def step(self, last: Tensor, state: ConvS2SState) -> tuple[Tensor, ConvS2SState]:
        g = self.target(last[:, None], first=state.position)[:, 0]  # (R, D)
        x, new = self.decoder_in(g), []
        for layer, past in zip(self._decoder_layers, state.past, strict=True):
            x, past = layer.step(x, g, state.memory, past)
            new.append(past)
        log_probs = self.logits(self.decoder_out(x)).log_softmax(-1)
        return log_probs, ConvS2SState(state.position + 1, tuple(new), state.memory, state.n_beams)

    def cost(self, *lengths: int) -> Cost:
        """Table 1, convolutional, without dilation: paths grow with the length, except those that attention takes."""
        (s, t), reach = lengths, self.config.kernel - 1
        n_encoder, n_decoder = len(self.encoder), len(self.decoder)
        flops = product_flops(s, self.encoder, self.encoder_in, self.encoder_out)
        flops += product_flops(t, self.decoder, self.decoder_in, self.decoder_out)
        output = product_flops(t, self.output_weight)
        flops += n_decoder * attention_flops(t, s, self.config.d_model)
        in_encoder, in_decoder = (
            layers_to_reach(s - 1, [reach // 2] * n_encoder),
            layers_to_reach(t - 1, [reach] * n_decoder),
        )
        return Cost(flops + output, n_encoder + n_decoder, longest(in_encoder, in_decoder), output)

    def _recorded(self, x: Tensor, stack: Literal["encoder", "decoder"], layer: int, trace: Trace | None) -> Tensor:
        """The output of a layer, (B, T, D)."""
        if trace is not None:
            axes = ("source" if stack == "encoder" else "target", "unit")
            trace.at(f"{stack}.{layer}").record("after", x, kind="vector", axes=axes)
        return x

    @property
    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]
