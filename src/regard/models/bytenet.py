"""ByteNet (Kalchbrenner et al., 2016): two stacks of dilated convolutions, one on top of the other, without attention.

Dilation doubles from block to block, so the number of positions that an output can depend on grows exponentially with
depth. The decoder gets the encoder's output column by column: position t of the target gets column t of the source,
which is unfolded, with empty columns, to the estimated length of the target (sections 3.1 and 3.2). So whatever is
elsewhere in the translation has to be moved by the convolutions.

Shapes: B sentences, R = B · n_beams rows of a search, S source, L unfolded source, T target, D d_model
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
    Embedding,
    Linear,
    Trace,
    at,
    layers_to_reach,
    longest,
    product_flops,
    select_shared,
)


class ByteNetConfig(TranslationConfig, frozen=True, extra="forbid"):
    """Sizes and variants. The paper has 6 sets, d_model 1600 (its d is 800) and text in characters."""

    n_sets: int = Field(default=2, ge=1, le=100)  # of the encoder, and as many of the decoder
    n_dilations: int = Field(default=5, ge=1, le=12)  # blocks of a set: dilations 1, 2, 4 … 2^(n_dilations - 1)
    d_model: int = Field(default=160, ge=2, le=65_536, multiple_of=2)  # the paper's 2d; inside a block, half of it
    kernel: int = Field(default=3, ge=2, le=99)
    # The estimated length of the target is a|s| + b, with the end token in |s| (equation 2)
    unfold_ratio: float = Field(default=1.2, ge=1, le=100)  # a
    unfold_extra: int = Field(default=0, ge=0, le=1000)  # b

    @property
    def width(self) -> int:
        return self.d_model

    @property
    def depth(self) -> int:
        return 2 * len(dilations(self))

    def describe(self) -> str:
        n = len(dilations(self))
        return f"{n}+{n} blocks of {self.d_model}, dilations 1 to {dilations(self)[-1]}"


def dilations(config: ByteNetConfig) -> list[int]:
    """Of the blocks, from the first to the last."""
    return [2**i for i in range(config.n_dilations)] * config.n_sets


# About as many parameters as the Transformer's presets, with a vocabulary of 8,000
PRESETS = {"tiny": ByteNetConfig(d_model=160), "small": ByteNetConfig(d_model=352)}


@dataclass(frozen=True)
class ByteNetMemory:
    """The unfolded source."""

    columns: Tensor  # (B, L, D): 0 behind the estimated length

    def select(self, rows: Tensor) -> ByteNetMemory:
        return ByteNetMemory(self.columns.index_select(0, rows))


@dataclass(frozen=True)
class ByteNetState:
    """The decoder between two steps. The beams of a sentence are consecutive rows and share its columns."""

    position: int  # of the next token
    past: tuple[Tensor, ...]  # the last inputs of each block's convolution: (R, P, D / 2)
    memory: ByteNetMemory  # of B sentences
    n_beams: int = 1

    def select(self, rows: Tensor) -> ByteNetState:
        past = tuple(inputs.index_select(0, rows) for inputs in self.past)
        memory, n_beams = select_shared(self.memory, len(self.memory.columns), rows, self.n_beams)
        return ByteNetState(self.position, past, memory, n_beams)


class ResidualBlock(nn.Module):
    """Figure 3, with ReLUs: 1×1 to half the width, dilated convolution, 1×1 back, each after LayerNorm and ReLU."""

    matrices: ClassVar[dict[str, int]] = {"reduce.weight": 1, "expand.weight": 1}  # for Muon

    def __init__(self, config: ByteNetConfig, dilation: int, causal: bool) -> None:
        super().__init__()
        d = config.d_model // 2
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in (2 * d, d, d))
        self.reduce, self.expand = Linear(2 * d, d), Linear(d, 2 * d)
        self.convolution = Convolution(d, d, config.kernel, dilation, causal)
        self.dropout = Dropout(config.dropout)
        for linear in (self.reduce, self.expand):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor, is_real: Tensor | None = None) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        return self._expanded(x, self.convolution(self._reduced(x), is_real))

    def step(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """(R, D) → (R, D): one position, and the cache including it."""
        convolved, past = self.convolution.step(self._reduced(x), past)
        return self._expanded(x, convolved), past

    def _reduced(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D / 2): the input of the convolution."""
        return F.relu(self.norms[1](self.reduce(F.relu(self.norms[0](x)))))

    def _expanded(self, x: Tensor, convolved: Tensor) -> Tensor:
        """(…, D / 2) → (…, D): x plus the output of the block."""
        return self.dropout.add(x, self.expand(F.relu(self.norms[2](convolved))))


class ByteNet(TranslationModel):
    """The target network stacked on the source network (Figure 1)."""

    matrices: ClassVar[dict[str, int]] = {"join.weight": 1, "readout.weight": 1}  # for Muon

    def __init__(self, config: ByteNetConfig, n_src_symbols: int, n_tgt_symbols: int, pad_id: int = 0) -> None:
        super().__init__()
        config.check_symbols(n_src_symbols, n_tgt_symbols)
        self.config: ByteNetConfig = config
        self.pad_id = pad_id
        d = config.d_model
        self.target = Embedding(n_tgt_symbols, d)
        self.source = self.target if config.tie == "all" else Embedding(n_src_symbols, d)
        self.output = None if config.tie != "none" else Embedding(n_tgt_symbols, d)
        self.encoder = nn.ModuleList(ResidualBlock(config, dilation, causal=False) for dilation in dilations(config))
        self.decoder = nn.ModuleList(ResidualBlock(config, dilation, causal=True) for dilation in dilations(config))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.join = Linear(2 * d, d)  # of a target embedding and a source column; the paper does not say how
        self.readout = Linear(d, d)
        self.dropout = Dropout(config.dropout)
        for linear in (self.join, self.readout):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    @property
    def output_weight(self) -> Tensor:
        return self.target.weight if self.output is None else self.output.weight

    def encode(self, src: Tensor, trace: Trace | None = None) -> ByteNetMemory:
        """(B, S) → columns (B, L, D)."""
        is_token = (src != self.pad_id)[:, :, None]  # (B, S, 1)
        x = self._embed(self.source, src, at(trace, "source", ("source",))) * is_token  # (B, S, D)
        lengths = self.unfolded_lengths(is_token.flatten(1).sum(1))  # (B,)
        n_columns = int(lengths.max())
        is_real = (torch.arange(n_columns, device=src.device) < lengths[:, None])[:, :, None]  # (B, L, 1)
        x = F.pad(x, (0, 0, 0, n_columns - x.shape[1]))  # (B, L, D)
        for i, block in enumerate(self.encoder):
            x = block(x, is_real)
            if trace is not None:  # without the empty columns
                trace.at(f"encoder.{i}").record("after", x[:, : src.shape[1]], kind="vector", axes=("source", "unit"))
        return ByteNetMemory(self.encoder_norm(x) * is_real)

    def unfolded_lengths(self, lengths: Tensor) -> Tensor:
        """Equation 2: (B,) → (B,)."""
        estimates = lengths.double() * self.config.unfold_ratio + self.config.unfold_extra
        return (estimates - 1e-6).ceil().long()  # 1.1 · 10 is 11, not 12

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        memory, n = self.encode(src, trace), tgt_in.shape[1]
        columns = F.pad(memory.columns[:, :n], (0, 0, 0, max(0, n - memory.columns.shape[1])))  # (B, T, D)
        y = self._embed(self.target, tgt_in, at(trace, "target", ("target",)))  # (B, T, D)
        y = self.join(torch.cat([y, columns], -1))
        for i, block in enumerate(self.decoder):
            y = block(y)
            if trace is not None:
                trace.at(f"decoder.{i}").record("after", y, kind="vector", axes=("target", "unit"))
        out: Tensor = self.dropout(self._read(y))
        return out

    def start(self, memory: ByteNetMemory) -> ByteNetState:
        return ByteNetState(0, tuple(block.convolution.start(memory.columns) for block in self._blocks), memory)

    def step(self, last: Tensor, state: ByteNetState) -> tuple[Tensor, ByteNetState]:
        y, columns, t = self._embed(self.target, last), state.memory.columns, state.position  # (R, D)
        column = columns[:, t] if t < columns.shape[1] else torch.zeros_like(columns[:, 0])  # (B, D)
        y = self.join(torch.cat([y, column.repeat_interleave(state.n_beams, 0)], -1))
        new = []
        for block, past in zip(self._blocks, state.past, strict=True):
            y, past = block.step(y, past)
            new.append(past)
        log_probs = self.logits(self._read(y)).log_softmax(-1)
        return log_probs, ByteNetState(t + 1, tuple(new), state.memory, state.n_beams)

    def cost(self, *lengths: int) -> Cost:
        """Table 1, convolutional: paths grow with the logarithm of the length, as long as dilations double."""
        (s, t), kernel, dilated = lengths, self.config.kernel, dilations(self.config)
        n_columns = int(self.unfolded_lengths(torch.tensor([s])))
        flops = product_flops(n_columns, self.encoder)
        flops += product_flops(t, self.decoder, self.join, self.readout)
        output = product_flops(t, self.output_weight)
        in_encoder = layers_to_reach(s - 1, [(kernel - 1) // 2 * dilation for dilation in dilated])
        in_decoder = layers_to_reach(t - 1, [(kernel - 1) * dilation for dilation in dilated])
        return Cost(flops + output, 2 * len(dilated), longest(in_encoder, in_decoder), output)

    def _embed(self, embedding: Embedding, ids: Tensor, trace: Trace | None = None) -> Tensor:
        """(…) → (…, D)."""
        embedded: Tensor = embedding(ids)
        if trace is not None:
            embedded = trace.record("embedding", embedded, kind="embedding", axes=(trace.axes[0], "unit"))
        out: Tensor = self.dropout(embedded)
        return out

    def _read(self, y: Tensor) -> Tensor:
        """(…, D) → (…, D): the layers after the last block."""
        return F.relu(self.readout(F.relu(self.decoder_norm(y))))

    @property
    def _blocks(self) -> list[ResidualBlock]:
        return [block for block in self.decoder if isinstance(block, ResidualBlock)]
