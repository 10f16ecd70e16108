"""The encoder–decoders that the Transformer replaced: RNN, LSTM and GRU, with and without attention.

The source is read word by word, and so is the target. What the decoder knows of the source is

- without attention, one vector of fixed size: the encoder's last state, which is the decoder's first (Sutskever et al.,
  2014) and part of each of its inputs (Cho et al., 2014);
- with "additive" attention, a mean of the encoder's outputs, weighted by the decoder's state *before* each word: it is
  an input of the cell (Bahdanau et al., 2015);
- with "dot" or "general" attention, such a mean, weighted by the state *after* each word (Luong et al., 2015). It is an
  input of the next step only with `input_feeding`; without, all positions are computed at once.

Shapes: B sentences, R = B · n_beams rows of a search, S source, T target, D d_model
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.models.base import LanguageModel, TextClassificationModel, TranslationModel
from regard.models.config import TranslationConfig
from regard.nn import (
    CellName,
    Cost,
    Dropout,
    Embedding,
    KeyValues,
    Linear,
    LinearPart,
    Recurrence,
    States,
    Trace,
    additive_scores,
    at,
    attention_flops,
    attention_weights,
    dot_product_scores,
    padding_visible,
    product_flops,
    select_shared,
    select_states,
)


class RecurrentConfig(TranslationConfig, frozen=True, extra="forbid"):
    """Sizes and variants. The cell is not among them: it is the name of the architecture."""

    n_layers: int = Field(default=1, ge=1, le=1000)  # of the encoder, and of the decoder
    d_model: int = Field(default=192, ge=2, le=65_536, multiple_of=2)
    attention: Literal["none", "additive", "dot", "general"] = "additive"
    bidirectional: bool = True  # the encoder: half of d_model forwards, half backwards
    input_feeding: bool = False  # the output of a step is part of the next input: slower, for "dot" and "general"
    reverse: bool = True  # without attention, the source is read from its end, so that its first words are near

    @property
    def width(self) -> int:
        return self.d_model

    @property
    def depth(self) -> int:
        return 2 * self.n_layers

    def describe(self) -> str:
        attention = "no attention" if self.attention == "none" else f"{self.attention} attention"
        return f"{self.n_layers}+{self.n_layers} layers of {self.d_model}, {attention}"

    @model_validator(mode="after")
    def _feeding_needs_attention(self) -> Self:
        if self.input_feeding and self.attention not in ("dot", "general"):
            raise ValueError("input_feeding needs attention = 'dot' or 'general'; 'additive' always enters the cell")
        return self


# About as many parameters as the Transformer's presets, with a vocabulary of 8,000
PRESETS: dict[CellName, dict[str, RecurrentConfig]] = {
    "rnn": {"tiny": RecurrentConfig(d_model=224), "small": RecurrentConfig(n_layers=2, d_model=512)},
    "lstm": {"tiny": RecurrentConfig(d_model=192), "small": RecurrentConfig(n_layers=2, d_model=352)},
    "gru": {"tiny": RecurrentConfig(d_model=192), "small": RecurrentConfig(n_layers=2, d_model=384)},
}


@dataclass(frozen=True)
class RecurrentMemory:
    """What the decoder gets from the encoder."""

    source: KeyValues  # (B, 1, S, D): attention with one head; without attention, one vector in place of S
    visible: Tensor | None  # (B, 1, 1, S): False at padding; None if nothing is padded
    first: States  # of the decoder

    def select(self, rows: Tensor) -> RecurrentMemory:
        visible = None if self.visible is None else self.visible[rows]
        return RecurrentMemory(self.source.select(rows), visible, select_states(self.first, rows))


@dataclass(frozen=True)
class RecurrentState:
    """The decoder between two steps. The beams of a sentence are consecutive rows and share its memory."""

    hidden: States  # of R rows
    fed: Tensor  # (R, D): the last output, for input feeding
    memory: RecurrentMemory  # of B sentences
    n_beams: int = 1

    def select(self, rows: Tensor) -> RecurrentState:
        memory, n_beams = select_shared(self.memory, len(self.memory.source.k), rows, self.n_beams)
        return RecurrentState(select_states(self.hidden, rows), self.fed.index_select(0, rows), memory, n_beams)


class RecurrentAttention(nn.Module):
    """Attention with one head. Scores of a state s and an output h: vᵀ tanh(W s + U h), s·h, or s·(U h)."""

    has_scale = False
    is_off = False

    def __init__(self, kind: str, d_model: int) -> None:
        super().__init__()
        if kind != "dot":
            self.key = Linear(d_model, d_model, bias=False)  # U
        if kind == "additive":
            self.query = Linear(d_model, d_model, bias=False)  # W
            self.energy = nn.Parameter(torch.empty(1, d_model))  # v; Bahdanau's v = 0 would keep W and U from learning
            nn.init.normal_(self.energy, std=d_model**-0.5)
        self.kind, self.d_model = kind, d_model
        self.matrices = {name: 1 for name, _ in self.named_parameters() if name.endswith("weight")}  # for Muon

    def keys_values(self, outputs: Tensor) -> KeyValues:
        """(B, S, D) → two of (B, 1, S, D): for all steps."""
        return KeyValues((outputs if self.kind == "dot" else self.key(outputs))[:, None], outputs[:, None])

    def forward(self, s: Tensor, source: KeyValues, visible: Tensor | None, trace: Trace | None = None) -> Tensor:
        """(B, 1, T, D) → (B, 1, T, D): the mean of the values with the weights of each state."""
        if self.kind == "additive":
            scores = additive_scores(self.query(s), source.k, self.energy)  # (B, 1, T, S)
        else:
            scores = dot_product_scores(s, source.k)  # (B, 1, T, S)
        weights = attention_weights(scores, visible)
        if trace is not None:
            trace.record("scores", scores, kind="scores", axes=("head", "target", "source"))
            trace.record("weights", weights, kind="attention", axes=("head", "target", "source"))
        mean = weights @ source.v
        return torch.zeros_like(mean) if self.is_off else mean

    def flops(self, n_states: int, n_outputs: int) -> int:
        """Of this many states that attend to as many outputs of the encoder."""
        keys = product_flops(n_outputs, self.key) if self.kind != "dot" else 0
        queries = product_flops(n_states, self.query) if self.kind == "additive" else 0
        return keys + queries + attention_flops(n_states, n_outputs, self.d_model)

    def ablated(self, heads_off: Collection[int] = (), scale: bool = True, sees_future: bool = False) -> Self:
        """The same weights, but without its head the mean is zero."""
        ablated = copy(self)
        ablated.is_off = bool(heads_off)
        return ablated


class Recurrent(TranslationModel):
    """Encoder, decoder, and the embedding matrix that they share. A subclass names the cell."""

    cell: ClassVar[CellName]

    def __init__(self, config: RecurrentConfig, n_src_symbols: int, n_tgt_symbols: int, pad_id: int = 0) -> None:
        super().__init__()
        config.check_symbols(n_src_symbols, n_tgt_symbols)
        self.config: RecurrentConfig = config
        self.pad_id = pad_id
        d, layers, attends = config.d_model, (config.n_layers, config.dropout), config.attention != "none"
        self.is_luong = config.attention in ("dot", "general")
        self.target = Embedding(n_tgt_symbols, d)
        self.source = self.target if config.tie == "all" else Embedding(n_src_symbols, d)
        self.output = None if config.tie != "none" else Embedding(n_tgt_symbols, d)
        self.dropout = Dropout(config.dropout)
        self.encoder = Recurrence(self.cell, d, d, *layers, config.bidirectional, config.reverse and not attends)
        d_last = d // 2 if config.attention == "additive" else d
        n_bridges = (2 if self.cell == "lstm" else 1) if config.bidirectional else 0
        self.bridge = nn.ModuleList(Linear(d_last, d) for _ in range(n_bridges))
        self.attention = RecurrentAttention(config.attention, d) if attends else None
        self.decoder = Recurrence(self.cell, d if self.is_luong and not config.input_feeding else 2 * d, d, *layers)
        self.readout = Linear(2 * d if self.is_luong else 3 * d, d)
        self.matrices = {"readout.weight": 1} | {f"bridge.{i}.weight": 1 for i in range(n_bridges)}  # for Muon

    @property
    def output_weight(self) -> Tensor:
        return self.target.weight if self.output is None else self.output.weight

    def encode(self, src: Tensor, trace: Trace | None = None) -> RecurrentMemory:
        visible = padding_visible(src, self.pad_id)  # (B, 1, 1, S)
        lengths = None if visible is None else visible.flatten(1).sum(1)  # (B,)
        x = self._embed(self.source, src, at(trace, "source", ("source",)))
        outputs, last = self.encoder(x, lengths, trace=at(trace, "encoder", ("source",)))  # (B, S, D)
        first = self._first_states(last)
        if self.attention is None:
            vector = first[-1][0][:, None, None]  # (B, 1, 1, D)
            return RecurrentMemory(KeyValues(vector, vector), None, first)
        return RecurrentMemory(self.attention.keys_values(outputs), visible, first)

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        state = self.start(self.encode(src, trace))
        y = self._embed(self.target, tgt_in, at(trace, "target", ("target",)))
        out: Tensor = self.dropout(self._decode(y, state, trace)[0])
        return out

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        return RecurrentState(memory.first, torch.zeros_like(memory.first[0][0]), memory)

    def step(self, last: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        features, state = self._decode(self._embed(self.target, last[:, None]), state)  # (R, 1, D)
        return self.logits(features[:, 0]).log_softmax(-1), state

    def cost(self, *lengths: int) -> Cost:
        """Table 1, recurrent: a step for each position, of the source and of the target, and paths as long.

        Without attention, what the decoder knows of the source has passed through all steps between them.
        """
        s, t = lengths
        n, attention = self.config.n_layers, self.attention
        flops = product_flops(s, self.encoder) + product_flops(n, *self.bridge)
        output = product_flops(t, self.output_weight)
        flops += product_flops(t, self.decoder, self.readout) + output
        extra = -self.encoder.start_flops
        if attention is None:
            return Cost(flops, n * (s + t), s + t, output, extra)
        return Cost(flops + attention.flops(t, s), n * (s + t), max(s, t), output, extra)

    def _embed(self, embedding: Embedding, ids: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, T) → (B, T, D)."""
        embedded: Tensor = embedding(ids)
        if trace is not None:
            embedded = trace.record("embedding", embedded, kind="embedding", axes=(trace.axes[0], "unit"))
        out: Tensor = self.dropout(embedded)
        return out

    def _first_states(self, last: States) -> States:
        """The decoder's first states. Bahdanau's is tanh(W ←h_1): the direction that ends at the first word."""
        if not self.config.bidirectional:
            return last
        d = self.config.d_model // 2 if self.config.attention == "additive" else self.config.d_model
        return tuple(
            tuple(torch.tanh(w(part[:, -d:])) for w, part in zip(self.bridge, layer, strict=True)) for layer in last
        )

    def _decode(self, y: Tensor, state: RecurrentState, trace: Trace | None = None) -> tuple[Tensor, RecurrentState]:
        """(R, T, D) embedded words → (R, T, D) features, and the state after them."""
        memory, decoder_trace = state.memory, at(trace, "decoder", ("target",))
        if self.config.attention != "additive" and not self.config.input_feeding:  # all positions at once
            x = y if self.is_luong else torch.cat([y, self._context(y, memory)], -1)
            states, hidden = self.decoder(x, states=state.hidden, trace=decoder_trace)
            return self._read(states, self._context(states, memory, trace), y), replace(state, hidden=hidden)
        states, fed, new = self._loop(y, state)
        if self.is_luong:
            features, queries = torch.cat([fed[:, 1:], new.fed[:, None]], 1), states
        else:
            features, queries = self._read(states, fed, y), torch.cat([state.hidden[-1][0][:, None], states[:, :-1]], 1)
        if trace is not None:  # computed a second time, all positions at once
            self._context(queries, memory, trace)
            with torch.random.fork_rng(devices=[]):  # dropout may draw random numbers
                self.decoder(torch.cat([y, fed], -1), states=state.hidden, trace=decoder_trace)
        return features, new

    def _loop(self, y: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        """One position after the other: (R, T, D) → states and other inputs of the cell, each (R, T, D), and new state.

        The other inputs are Bahdanau's contexts, or for input feeding the features of the step before.
        """
        w_ih, _, b_ih, _ = self.decoder.rnns[0].all_weights[0]
        d = self.config.d_model
        from_words = LinearPart(w_ih, b_ih, columns=(0, d))(y)  # (R, T, G·D): does not depend on the loop
        from_fed = LinearPart(w_ih, columns=(d, 2 * d))
        hidden, fed, all_states, all_fed = state.hidden, state.fed, [], []
        for t, x in enumerate(from_words.unbind(1)):
            if not self.is_luong:
                fed = self._context(hidden[-1][0][:, None], state.memory)[:, 0]  # from the state before
            s, hidden = self.decoder.step(x + from_fed(fed), hidden)
            all_states.append(s)
            all_fed.append(fed)
            if self.is_luong:
                fed = self._read(s[:, None], self._context(s[:, None], state.memory), y[:, t, None])[:, 0]
        return torch.stack(all_states, 1), torch.stack(all_fed, 1), replace(state, hidden=hidden, fed=fed)

    def _context(self, states: Tensor, memory: RecurrentMemory, trace: Trace | None = None) -> Tensor:
        """(R, T, D) → (R, T, D): what each state sees of the source. The beams of a sentence are queries to it."""
        s = states.reshape(len(memory.source.v), 1, -1, states.shape[-1])  # (B, 1, n_beams · T, D)
        if self.attention is None:
            return memory.source.v.expand_as(s).reshape(states.shape)
        context: Tensor = self.attention(s, memory.source, memory.visible, at(trace, "attention"))
        return context.reshape(states.shape)

    def _read(self, states: Tensor, context: Tensor, y: Tensor) -> Tensor:
        """Luong's tanh(W[c; s]), else Bahdanau's output layer, with tanh in place of maxout: tanh(W[s; c; y])."""
        return torch.tanh(self.readout(torch.cat([states, context] if self.is_luong else [states, context, y], -1)))


class RNN(Recurrent):
    """The plain recurrent network of Elman (1990): tanh(W x + U h)."""

    cell = "rnn"


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997)."""

    cell = "lstm"


class GRU(Recurrent):
    """The gated recurrent unit (Cho et al., 2014)."""

    cell = "gru"


class RecurrentClassifier(TextClassificationModel):
    """A vector per text: the states at its ends, or with "additive" attention a weighted mean of all states.

    As Yang et al. (2016) do, attention asks with a vector that is learned, since there is no decoder.
    """

    cell: ClassVar[CellName]

    @classmethod
    def check(cls, config: RecurrentConfig) -> None:
        if config.attention not in ("none", "additive") or config.input_feeding:
            raise ValueError("a classifier needs model.attention = 'none' or 'additive', and no input_feeding")

    def __init__(
        self, config: RecurrentConfig, n_symbols: int, n_classes: int, n_segments: int = 1, pad_id: int = 0
    ) -> None:
        super().__init__()
        self.config: RecurrentConfig = config
        self.pad_id = pad_id
        d, attends = config.d_model, config.attention != "none"
        self.words = Embedding(n_symbols, d)
        self.segments = nn.Embedding(n_segments, d) if n_segments > 1 else None  # the first text of a pair, the second
        self.dropout = Dropout(config.dropout)
        layers = (config.n_layers, config.dropout, config.bidirectional, config.reverse and not attends)
        self.encoder = Recurrence(self.cell, d, d, *layers)
        self.attention = RecurrentAttention("additive", d) if attends else None
        self.question = nn.Parameter(torch.randn(d)) if attends else None
        self.output = nn.Linear(d, n_classes)

    def features(self, ids: Tensor, segments: Tensor, trace: Trace | None = None) -> Tensor:
        visible = padding_visible(ids, self.pad_id)  # (B, 1, 1, S)
        lengths = None if visible is None else visible.flatten(1).sum(1)  # (B,)
        x: Tensor = self.words(ids)  # (B, S, D)
        if trace is not None:
            x = trace.record("words.embedding", x, kind="embedding", axes=("source", "unit"))
        if self.segments is not None:
            x = x + self.segments(segments)
        states, last = self.encoder(self.dropout(x), lengths, trace=at(trace, "encoder", ("source",)))  # (B, S, D)
        vector = last[-1][0]  # (B, D)
        if self.attention is not None and self.question is not None:
            asked = self.question.expand(len(ids), 1, 1, -1)
            vector = self.attention(asked, self.attention.keys_values(states), visible, at(trace, "attention"))[:, 0, 0]
        out: Tensor = self.dropout(vector)
        return out

    def cost(self, *lengths: int) -> Cost:
        [t] = lengths
        flops = product_flops(t, self.encoder) + product_flops(1, self.output)
        if self.attention is not None:
            flops += self.attention.flops(1, t)
        return Cost(flops, self.config.n_layers * t, t, extra=-self.encoder.start_flops)


class RNNClassifier(RecurrentClassifier):
    """With the cell of `RNN`."""

    cell = "rnn"


class LSTMClassifier(RecurrentClassifier):
    """With the cell of `LSTM`."""

    cell = "lstm"


class GRUClassifier(RecurrentClassifier):
    """With the cell of `GRU`."""

    cell = "gru"


@dataclass(frozen=True)
class ReaderState:
    """What a recurrent language model remembers of a text."""

    hidden: States  # of B rows
    forgets: bool  # before each segment

    def select(self, rows: Tensor) -> ReaderState:
        return ReaderState(select_states(self.hidden, rows), self.forgets)


class RecurrentLanguageModel(LanguageModel):
    """Embedding, recurrent layers, and a softmax with the embedding's matrix (Mikolov et al., 2010).

    Gradients end at the beginning of a segment (truncated backpropagation through time), states do not.
    """

    cell: ClassVar[CellName]
    variant: ClassVar[Mapping[str, Any]] = {"attention": "none", "bidirectional": False, "reverse": False}

    @classmethod
    def check(cls, config: RecurrentConfig) -> None:
        if config.attention != "none" or config.bidirectional or config.reverse:
            raise ValueError("a language model needs model.attention = 'none', bidirectional = false, reverse = false")

    def __init__(self, config: RecurrentConfig, n_symbols: int, segment: int, pad_id: int = 0) -> None:
        super().__init__()
        self.config: RecurrentConfig = config
        self.segment, self.pad_id = segment, pad_id
        d = config.d_model
        self.words = Embedding(n_symbols, d)
        self.dropout = Dropout(config.dropout)
        self.encoder = Recurrence(self.cell, d, d, config.n_layers, config.dropout)
        self.output = Embedding(n_symbols, d) if config.tie == "none" else None

    @property
    def output_weight(self) -> Tensor:
        return self.words.weight if self.output is None else self.output.weight

    def start(self, n_rows: int, memory: int | None = None) -> ReaderState:
        zeros = self.words.weight.new_zeros(n_rows, self.config.d_model)
        layer = (zeros, zeros) if self.cell == "lstm" else (zeros,)
        return ReaderState((layer,) * self.config.n_layers, memory == 0)

    def read(self, ids: Tensor, state: ReaderState, trace: Trace | None = None) -> tuple[Tensor, ReaderState]:
        x: Tensor = self.words(ids)  # (B, T, D)
        if trace is not None:
            x = trace.record("words.embedding", x, kind="embedding", axes=("source", "unit"))
        hidden = None if state.forgets else state.hidden
        states, last = self.encoder(self.dropout(x), states=hidden, trace=at(trace, "encoder", ("source",)))
        features: Tensor = self.dropout(states)
        return features, ReaderState(tuple(tuple(part.detach() for part in layer) for layer in last), state.forgets)

    def cost(self, *lengths: int) -> Cost:
        [t] = lengths
        flops, output = product_flops(t, self.encoder), product_flops(t, self.output_weight)
        n_segments = -(-t // self.segment)  # no gradient goes into the state before any of them
        extra = -n_segments * self.encoder.start_flops
        return Cost(flops + output, self.config.n_layers * t, t, output, extra)


class RNNLanguageModel(RecurrentLanguageModel):
    """With the cell of `RNN`."""

    cell = "rnn"


class LSTMLanguageModel(RecurrentLanguageModel):
    """With the cell of `LSTM`."""

    cell = "lstm"


class GRULanguageModel(RecurrentLanguageModel):
    """With the cell of `GRU`."""

    cell = "gru"
