"""Recurrent layers: the plain RNN, LSTM and GRU, over whole padded sequences or one step at a time.

`forward` is one fused call of torch per layer. `step` computes the same for one position, for decoders whose input
depends on their last output.

Shapes: B batch, T length, I input, D size of a state, G gates and candidates of a cell
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.nn.cost import product_flops
from regard.nn.dropout import Dropout
from regard.nn.linear import linear
from regard.nn.trace import Trace

CellName = Literal["rnn", "lstm", "gru"]
LayerState = tuple[Tensor, ...]  # h (B, D), and for an LSTM its memory c (B, D)
States = tuple[LayerState, ...]  # one per layer
_Turn = Callable[[Tensor], Tensor]


def _rnn(x: Tensor, u: Tensor, state: LayerState) -> LayerState:
    """tanh(Wx + Uh), the biases included (Elman, 1990)."""
    return (torch.tanh(x + u),)


def _lstm(x: Tensor, u: Tensor, state: LayerState) -> LayerState:
    """Gates decide what enters the memory, what is kept of it, and what is shown."""
    i, f, g, o = (x + u).chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(x: Tensor, u: Tensor, state: LayerState) -> LayerState:
    """As in torch: the reset gate multiplies Uh + b. Cho et al. (2014) have U(r∘h), and the opposite meaning of z."""
    d = x.shape[-1] // 3
    r, z = (x[:, : 2 * d] + u[:, : 2 * d]).sigmoid().chunk(2, -1)
    n = torch.tanh(x[:, 2 * d :] + r * u[:, 2 * d :])
    return (n + z * (state[0] - n),)


class _Cell(NamedTuple):
    module: Callable[..., nn.RNNBase]
    n_parts: int  # matrices in each of its parameters, (G·D, I) and (G·D, D)
    step: Callable[[Tensor, Tensor, LayerState], LayerState]
    gates: Mapping[str, int]  # which of the parts


CELLS: dict[CellName, _Cell] = {
    "rnn": _Cell(nn.RNN, 1, _rnn, {}),
    "lstm": _Cell(nn.LSTM, 4, _lstm, {"input_gate": 0, "forget_gate": 1, "output_gate": 3}),
    "gru": _Cell(nn.GRU, 3, _gru, {"reset_gate": 0, "update_gate": 1}),
}


def select_states(states: States, rows: Tensor) -> States:
    """Batch rows reordered, repeated or dropped."""
    return tuple(tuple(part.index_select(0, rows) for part in layer) for layer in states)


def reverse(x: Tensor, lengths: Tensor | None) -> Tensor:
    """(B, T, I) with every sequence reversed; the padding stays behind it."""
    if lengths is None:
        return x.flip(1)
    position = torch.arange(x.shape[1], device=x.device)[None]  # (1, T)
    source = lengths[:, None] - 1 - position  # (B, T)
    return x.take_along_dim(torch.where(source < 0, position, source)[:, :, None], 1)


class Recurrence(nn.Module):
    """Recurrent layers in one direction or both: (B, T, I) → (B, T, D), with D / 2 per direction if there are two.

    With `backwards`, sequences are read from their end; the outputs are still in the order of the inputs.
    """

    def __init__(
        self,
        cell: CellName,
        d_input: int,
        d_hidden: int,
        n_layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
        backwards: bool = False,
    ) -> None:
        super().__init__()
        self.cell, self.backwards = CELLS[cell], backwards
        d_cell = d_hidden // 2 if bidirectional else d_hidden
        self.layers = nn.ModuleList(
            self.cell.module(d_hidden if i else d_input, d_cell, batch_first=True, bidirectional=bidirectional)
            for i in range(n_layers)
        )
        self.dropout = Dropout(dropout)  # between layers
        self.matrices = {name: self.cell.n_parts for name, p in self.named_parameters() if p.dim() == 2}  # for Muon
        for name, parameter in self.named_parameters():
            for part in parameter.chunk(self.cell.n_parts):
                if part.dim() == 1:
                    nn.init.zeros_(part)
                else:
                    (nn.init.orthogonal_ if "weight_hh" in name else nn.init.xavier_uniform_)(part)
            if "bias_ih" in name and cell == "lstm":
                nn.init.ones_(parameter.chunk(4)[1])  # the forget gate is open at first

    @property
    def rnns(self) -> list[nn.RNNBase]:
        return [layer for layer in self.layers if isinstance(layer, nn.RNNBase)]

    @property
    def start_flops(self) -> int:
        """Of the products with the state before a text, into which no gradient goes."""
        return product_flops(1, *(weight for name, weight in self.named_parameters() if "weight_hh" in name))

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, states: States | None = None, trace: Trace | None = None
    ) -> tuple[Tensor, States]:
        """(B, T, I) → (B, T, D), and the states after the last position.

        With `lengths` (B,), padding has no influence on them, and what is returned for padding is 0.
        """
        last = []
        turn = partial(reverse, lengths=lengths) if self.backwards else lambda y: y
        x = turn(x)
        for i, layer in enumerate(self.rnns):
            x = self.dropout(x) if i else x
            first = None if states is None else states[i]
            outputs, state = self._run(layer, x, lengths, first)
            if trace is not None:
                self._record(layer, x, outputs, first, turn, trace.at(f"layers.{i}"))
            x = outputs
            last.append(state)
        return turn(x), tuple(last)

    def step(self, x: Tensor, states: States) -> tuple[Tensor, States]:
        """(B, G·D): the input, times the weights of the first layer → (B, D), and the new states."""
        new: list[LayerState] = []
        for i, (layer, state) in enumerate(zip(self.rnns, states, strict=True)):
            w_ih, w_hh, b_ih, b_hh = layer.all_weights[0]
            if i:
                x = linear(self.dropout(new[-1][0]), w_ih, b_ih)
            u = linear(state[0], w_hh, b_hh)  # (B, G·D)
            new.append(self.cell.step(x, u, state))
        return new[-1][0], tuple(new)

    def _run(
        self, layer: nn.RNNBase, x: Tensor, lengths: Tensor | None, first: LayerState | None
    ) -> tuple[Tensor, LayerState]:
        """(B, T, I) → (B, T, D) and the last state: of both directions, if there are two."""
        is_lstm = isinstance(layer, nn.LSTM)
        hx = None if first is None else tuple(part[None] for part in first)  # (1, B, D)
        inputs = x if lengths is None else pack_padded_sequence(x, lengths.cpu(), True, enforce_sorted=False)
        outputs, last = layer(inputs, hx if hx is None or is_lstm else hx[0])  # last: (directions, B, D)
        if lengths is not None:
            outputs = pad_packed_sequence(outputs, True, total_length=x.shape[1])[0]
        return outputs, tuple(part.transpose(0, 1).flatten(1) for part in (last if is_lstm else (last,)))

    def _record(
        self, layer: nn.RNNBase, x: Tensor, outputs: Tensor, first: LayerState | None, turn: _Turn, trace: Trace
    ) -> None:
        """Records the outputs, and the gates, which are computed a second time."""
        axes = (trace.axes[0], "unit")
        trace.record("states", turn(outputs), kind="state", axes=axes)
        for name, number in self.cell.gates.items():
            gates = []
            for direction, h in enumerate(outputs.chunk(len(layer.all_weights), -1)):
                start = torch.zeros_like(h[:, 0]) if first is None else first[0]
                before = F.pad(h[:, 1:], (0, 0, 0, 1)) if direction else torch.cat([start[:, None], h[:, :-1]], 1)
                w_ih, w_hh, b_ih, b_hh = (p.chunk(self.cell.n_parts)[number] for p in layer.all_weights[direction])
                gates.append(torch.sigmoid(F.linear(x, w_ih, b_ih) + F.linear(before, w_hh, b_hh)))  # (B, T, D)
            trace.record(name, turn(torch.cat(gates, -1)), kind="gates", axes=axes)
