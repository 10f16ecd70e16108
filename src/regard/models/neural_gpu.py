"""The Neural GPU (Kaiser and Sutskever, 2016) and the Extended Neural GPU (Kaiser and Bengio, 2016).

There is no attention and no state that moves along the sentence. The source is written into a memory of columns, one
per symbol, and the same two convolutions, each with the gates of a GRU, are applied to all columns at once, n times
for a source of n symbols. A symbol moves by at most four columns per step, so everything can meet.

- The plain form reads the output from the memory, all symbols at once: an algorithm, such as addition. It cannot
  translate, because no symbol of the output knows the others.
- The extended form goes on, one step per symbol of the target. The symbols so far are on a tape, which every
  convolution of the decoder reads too.

Differences from the papers: dropout is of the candidates, not of the memory; the tape has the last symbol in the column
that is read next, so that the begin symbol has a place; the memory is 1.2 times as long as the source, and grows.

Shapes: B sentences or rows of a search, N columns, R rows of the memory, D d_model, S source, T target
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.data import Place
from regard.models.base import TranslationModel
from regard.models.config import TranslationConfig
from regard.nn import Cost, Dropout, Embedding, LinearPart, Trace, at, product_flops

KERNEL = 3  # columns, and rows if there are several
RECOMPUTED_FROM = 48  # steps from this one on are computed again for the gradient, or long sentences need gigabytes
FULL_DROPOUT_STEPS = 8  # with more steps, the rate of dropout falls as 8 / n


class NeuralGPUConfig(TranslationConfig, frozen=True, extra="forbid"):
    """Sizes and form. With several sets of weights, steps use them in turn, and `pull` draws them together."""

    form: Literal["extended", "plain"] = "extended"
    d_model: int = Field(default=128, ge=1, le=65_536)  # values in each cell of the memory
    n_rows: int = Field(default=1, ge=1, le=64)  # cells in each column
    n_layers: int = Field(default=2, ge=1, le=1000)  # gated convolutions in a step
    n_sets: int = Field(default=1, ge=1, le=1000)  # 6 in the first paper ("relaxation"); 1 is plain weight sharing
    pull: float = Field(default=0.0005, ge=0)

    @property
    def width(self) -> int:
        return self.d_model

    @property
    def depth(self) -> int:
        return self.n_layers

    def describe(self) -> str:
        return f"{self.form}, {self.n_layers} gated convolutions of {self.n_rows} × {self.d_model}"


PRESETS = {
    "tiny": NeuralGPUConfig(d_model=128),
    "small": NeuralGPUConfig(d_model=288),
}


def hard_sigmoid(x: Tensor) -> Tensor:
    """Reaches 0 and 1, so that a closed gate keeps everything: the memory survives any number of steps."""
    return (1.2 * x.sigmoid() - 0.1).clamp(0, 1)


class ConvolutionalGRU(nn.Module):
    """s' = u∘s + (1−u)∘tanh(K∗(r∘s) + b), with gates r, u = σ'(K'∗s + b'), over columns and rows of the memory.

    With a tape, its own convolution is added inside the tanh and both σ'.
    """

    def __init__(self, d_model: int, n_rows: int, n_sets: int = 1, has_tape: bool = False) -> None:
        super().__init__()
        self.d_model, self.n_rows, self.n_sets = d_model, n_rows, n_sets
        fan_in = KERNEL * (KERNEL if n_rows > 1 else 1) * d_model
        self.gates = nn.Parameter(torch.empty(2 * n_sets * d_model, fan_in))
        self.candidate = nn.Parameter(torch.empty(n_sets * d_model, fan_in))
        self.gates_bias = nn.Parameter(torch.ones(2 * n_sets * d_model))  # at first, all is kept
        self.candidate_bias = nn.Parameter(torch.zeros(n_sets * d_model))
        self.tape = nn.Parameter(torch.empty(3 * d_model, fan_in)) if has_tape else None  # r, u, candidate
        self.matrices = {"gates": 2 * n_sets, "candidate": n_sets} | ({"tape": 3} if has_tape else {})  # for Muon
        for name in self.matrices:
            nn.init.normal_(self.get_parameter(name), std=fan_in**-0.5)

    def forward(
        self, s: Tensor, dropout: Dropout, number: int = 0, tape: Tensor | None = None, frozen: Tensor | None = None
    ) -> Tensor:
        """(B, N, R, D) → (B, N, R, D), in the step of this number. What is `frozen`, (B, N, 1, 1), stays as it is."""
        d, chosen = self.d_model, number % self.n_sets
        gates = self._convolve(s, self.gates, self.gates_bias, (chosen * 2 * d, (chosen + 1) * 2 * d))
        gates = hard_sigmoid(gates if tape is None else gates + tape[..., : 2 * d])  # (B, N, R, 2·D)
        r, u = gates[..., :d], gates[..., d:]
        candidate = self._convolve(r * s, self.candidate, self.candidate_bias, (chosen * d, (chosen + 1) * d))
        candidate = dropout(torch.tanh(candidate if tape is None else candidate + tape[..., 2 * d :]))
        return torch.lerp(candidate, s, u if frozen is None else u.masked_fill(frozen, 1.0))

    def from_tape(self, symbols: Tensor) -> Tensor:
        """(…, D) → (…, 3, R, 3·D): what a symbol, written into all rows of a column, adds to the convolutions of the
        column before, of its own, and of the one after.
        """
        assert self.tape is not None
        x = symbols.reshape(-1, 1, 1, self.d_model).expand(-1, 1, self.n_rows, -1)
        added = self._convolve(F.pad(x, (0, 0, 0, 0, 1, 1)), self.tape, None, (0, len(self.tape)))  # (…, 3, R, 3·D)
        return added.reshape(*symbols.shape[:-1], *added.shape[1:])

    def penalty(self) -> Tensor:
        """Half the squared distance of the sets of weights from their mean."""
        parameters = (self.gates, self.candidate, self.gates_bias, self.candidate_bias)
        sets = (parameter.reshape(self.n_sets, -1) for parameter in parameters)
        return torch.stack([(each - each.mean(0)).square().sum() / 2 for each in sets]).sum()

    def _convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None, rows: tuple[int, int]) -> Tensor:
        """(B, N, R, D) → (B, N, R, G) by G rows of the weight (…, 3·(3 or 1)·D); the faster of two ways on a CPU."""
        if self.n_rows == 1:  # one matrix product over windows of three columns
            n, padded = x.shape[1], F.pad(x, (0, 0, 0, 0, 1, 1))
            y = LinearPart(weight, bias, rows)(torch.cat([padded[:, i : i + n] for i in range(KERNEL)], -1))
        else:
            kernel = weight[slice(*rows)].view(-1, KERNEL, KERNEL, self.d_model).permute(0, 3, 1, 2)  # channels last
            part = None if bias is None else bias[slice(*rows)]
            y = F.conv2d(x.permute(0, 3, 1, 2), kernel, part, padding=KERNEL // 2).permute(0, 2, 3, 1)
        return y.to(x.dtype)  # bfloat16 is for the products; the memory is exact


class Steps(nn.Module):
    """The layers that make up a step."""

    def __init__(self, config: NeuralGPUConfig, has_tape: bool = False) -> None:
        super().__init__()
        sizes = (config.d_model, config.n_rows, config.n_sets, has_tape)
        self.layers = nn.ModuleList(ConvolutionalGRU(*sizes) for _ in range(config.n_layers))

    @property
    def grus(self) -> list[ConvolutionalGRU]:
        return [layer for layer in self.layers if isinstance(layer, ConvolutionalGRU)]

    def forward(
        self, s: Tensor, dropout: Dropout, number: int, tapes: Sequence[Tensor] = (), frozen: Tensor | None = None
    ) -> Tensor:
        """(B, N, R, D) → (B, N, R, D)."""
        if number >= RECOMPUTED_FROM and torch.is_grad_enabled():
            recomputed: Tensor = checkpoint(self._step, s, dropout, number, tapes, frozen, use_reentrant=False)
            return recomputed
        return self._step(s, dropout, number, tapes, frozen)

    def _step(self, s: Tensor, dropout: Dropout, number: int, tapes: Sequence[Tensor], frozen: Tensor | None) -> Tensor:
        for i, layer in enumerate(self.grus):
            s = layer(s, dropout, number, tapes[i] if tapes else None, frozen)
        return s


@dataclass(frozen=True)
class NeuralGPUState:
    """The memory after some symbols of the target."""

    memory: Tensor  # (B, N, R, D); 0 from column `n_columns` on
    n_columns: Tensor  # (B,) columns of each sentence's own memory
    dropout: Dropout  # of the steps to come
    position: int = 0  # of the next symbol
    # one per layer, (B, N + 2, R, 3·D): what the tape adds to the convolutions, from column −1 on
    tapes: tuple[Tensor, ...] = ()

    def select(self, rows: Tensor) -> NeuralGPUState:
        tapes = tuple(tape.index_select(0, rows) for tape in self.tapes)
        return replace(
            self, memory=self.memory.index_select(0, rows), n_columns=self.n_columns.index_select(0, rows), tapes=tapes
        )

    def frozen(self) -> Tensor | None:
        """(B, N, 1, 1): the columns that a sentence does not have yet; None if it has all."""
        n_columns = self.n_columns.clamp(min=self.position + 1)
        return _outside(n_columns, self.memory.shape[1]) if int(n_columns.min()) < self.memory.shape[1] else None

    def grown(self) -> NeuralGPUState:
        """With a column for the next symbol, empty if it is new."""
        n_new = max(0, self.position + 1 - self.memory.shape[1])
        if not n_new:
            return self
        memory, *tapes = (F.pad(x, (0, 0, 0, 0, 0, n_new)) for x in (self.memory, *self.tapes))
        return replace(self, memory=memory, tapes=tuple(tapes))


def _outside(n_columns: Tensor, n: int) -> Tensor:
    """(B,) → (B, N, 1, 1): the columns after each sentence's own."""
    return (torch.arange(n, device=n_columns.device) >= n_columns[:, None])[:, :, None, None]


class NeuralGPU(TranslationModel):
    """Both forms."""

    def __init__(self, config: NeuralGPUConfig, n_src_symbols: int, n_tgt_symbols: int, pad_id: int = 0) -> None:
        super().__init__()
        config.check_symbols(n_src_symbols, n_tgt_symbols)
        self.config: NeuralGPUConfig = config
        self.pad_id = pad_id
        is_extended = config.form == "extended"
        self.output = Embedding(n_tgt_symbols, config.d_model)
        self.source = self.output if config.tie == "all" else Embedding(n_src_symbols, config.d_model)
        self.encoder = Steps(config)
        self.target, self.decoder = None, None
        if is_extended:  # the plain form never reads the target
            self.target = self.output if config.tie != "none" else Embedding(n_tgt_symbols, config.d_model)
            self.decoder = Steps(config, has_tape=True)

    @property
    def output_weight(self) -> Tensor:
        return self.output.weight

    def penalty(self, place: Place) -> Tensor | None:
        """Relaxation-pull (section 2.2 of the first paper): the sets of weights approach each other."""
        if self.config.n_sets == 1 or not self.config.pull:
            return None
        layers = [module for module in self.modules() if isinstance(module, ConvolutionalGRU)]
        return self.config.pull * torch.stack([layer.penalty() for layer in layers]).sum()

    def encode(self, src: Tensor, trace: Trace | None = None) -> NeuralGPUState:
        lengths = (src != self.pad_id).sum(1)  # (B,)
        n_columns = self._n_columns(lengths)
        n_steps, n = int(lengths.max()), int(n_columns.max())
        x = self._embed(self.source, src, at(trace, "source", ("source",)))  # (B, S, D)
        x = x.masked_fill((src == self.pad_id)[:, :, None], 0.0)[:, :, None]
        memory = F.pad(x, (0, 0, 0, self.config.n_rows - 1, 0, n - src.shape[1]))  # (B, N, R, D): in the first row
        dropout, outside = self._dropout(n_steps), _outside(n_columns, n)
        is_padded, over_time = int(lengths.min()) < n_steps, [memory]
        for step in range(n_steps):  # a sentence of n symbols stops after n steps
            frozen = outside | (lengths <= step)[:, None, None, None] if is_padded else None
            memory = self.encoder(memory, dropout, step, (), frozen)
            over_time.append(memory)
        if trace is not None:
            axes = ("step", "column", "row", "unit")
            trace.at("encoder").record("memory", torch.stack(over_time, 1), kind="memory", axes=axes)
        return NeuralGPUState(memory, n_columns, dropout)

    def _n_columns(self, lengths: Tensor) -> Tensor:
        return lengths if self.decoder is None else (6 * lengths + 4) // 5 + 2

    def start(self, memory: NeuralGPUState) -> NeuralGPUState:
        if self.decoder is None:
            return replace(memory, memory=memory.memory[:, :, :1])  # only the first row is read
        b, n, r, d = memory.memory.shape
        empty = memory.memory.new_zeros(b, n + 2, r, 3 * d)
        return replace(memory, tapes=(empty,) * len(self.decoder.layers))

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        state = self.start(self.encode(src, trace))
        if self.decoder is None:
            n_missing = tgt_in.shape[1] - state.memory.shape[1]
            return F.pad(state.memory[:, :, 0], (0, 0, 0, n_missing))  # all symbols at once
        written = self._write(tgt_in, at(trace, "target", ("target",)))  # per layer (B, T, 3, R, 3·D)
        features, over_time = [], []
        for symbol in zip(*(layer.unbind(1) for layer in written), strict=True):
            read, state = self._advance(symbol, state)
            features.append(read)
            over_time.append(state.memory)
        if trace is not None:
            n = over_time[-1].shape[1]
            memory = torch.stack([F.pad(m, (0, 0, 0, 0, 0, n - m.shape[1])) for m in over_time], 1)
            trace.at("decoder").record("memory", memory, kind="memory", axes=("target", "column", "row", "unit"))
        return torch.stack(features, 1)

    def step(self, last: Tensor, state: NeuralGPUState) -> tuple[Tensor, NeuralGPUState]:
        if self.decoder is None:
            grown = state.grown()
            read, new = grown.memory[:, state.position, 0], replace(grown, position=state.position + 1)
        else:
            read, new = self._advance([layer[:, 0] for layer in self._write(last[:, None])], state)
        return self.logits(read).log_softmax(-1), new

    def cost(self, *lengths: int) -> Cost:
        """A step over all columns for each symbol of the source, and for each of the target.

        Information moves by two columns per layer: as far as r, and from there as far as the candidate.
        """
        (s, t), n_rows = lengths, self.config.n_rows
        n_columns = int(self._n_columns(torch.tensor(s)))
        flops = product_flops(s * n_columns * n_rows, self.encoder) // self.config.n_sets
        n_layers, n_steps, distance = self.config.n_layers, s, max(s, t) - 1
        if self.decoder is not None:
            n_steps += t
            n_cells = n_rows * sum(max(n_columns, position + 1) for position in range(t))
            weights = [(layer.gates, layer.candidate) for layer in self.decoder.grus]
            flops += sum(product_flops(n_cells, *pair) for pair in weights) // self.config.n_sets
            tapes = [layer.tape for layer in self.decoder.grus if layer.tape is not None]
            flops += product_flops(3 * n_rows * t, *tapes)  # a symbol is seen from three columns
        output = product_flops(t, self.output_weight)
        return Cost(flops + output, n_layers * n_steps, max(1, (distance + 1) // 2), output)

    def _advance(self, symbol: Sequence[Tensor], state: NeuralGPUState) -> tuple[Tensor, NeuralGPUState]:
        """Writes a symbol, per layer (B, 3, R, 3·D), and makes a step → the features (B, D) of the next one."""
        assert self.decoder is not None
        state = state.grown()
        columns = torch.arange(3, device=state.memory.device) + state.position
        tapes = tuple(tape.index_add(1, columns, new) for tape, new in zip(state.tapes, symbol, strict=True))
        inner = [tape[:, 1:-1] for tape in tapes]
        memory = self.decoder(state.memory, state.dropout, state.position, inner, state.frozen())
        return memory[:, state.position, 0], replace(state, memory=memory, tapes=tapes, position=state.position + 1)

    def _write(self, ids: Tensor, trace: Trace | None = None) -> list[Tensor]:
        """(B, T) → per layer (B, T, 3, R, 3·D): what each symbol adds to the convolutions."""
        assert self.decoder is not None and self.target is not None
        symbols = self._embed(self.target, ids, trace)
        return [layer.from_tape(symbols) for layer in self.decoder.grus]

    def _embed(self, embedding: Embedding, ids: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, T) → (B, T, D)."""
        embedded = torch.tanh(embedding(ids))
        if trace is not None:
            embedded = trace.record("embedding", embedded, kind="embedding", axes=(trace.axes[0], "unit"))
        return embedded

    def _dropout(self, n_steps: int) -> Dropout:
        """Of many steps each drops less (section 2.2 of the first paper)."""
        return Dropout(self.config.dropout * min(1.0, FULL_DROPOUT_STEPS / n_steps)).train(self.training)
