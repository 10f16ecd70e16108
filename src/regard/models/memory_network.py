"""The end-to-end memory network (Sukhbaatar et al., 2015): a question reads the sentences of a story, hop after hop.

Shapes: B batch, M sentences, J words of a sentence with its time word, D d_model, K hops, V words and times
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.data import NIL, OUTSIDE_TRAINING, Batch, Place
from regard.models.base import Model, Term
from regard.models.config import ModelConfig
from regard.nn import Cost, Dropout, Linear, Trace, attention_flops, linear, product_flops

_DEVIATION = 0.1  # of the first weights


class MemoryNetworkConfig(ModelConfig, frozen=True, extra="forbid"):
    """Sizes and variants; the defaults are those of section 4.2 for one task."""

    dropout: float = Field(default=0.0, ge=0, lt=1)  # of what answers the question
    n_hops: int = Field(default=3, ge=1, le=100)
    d_model: int = Field(default=20, ge=1, le=65_536)
    # section 2.2: "adjacent": the output embedding of a hop is the input embedding of the next; "layerwise": all hops
    # have the same two, and a matrix between them
    tying: Literal["adjacent", "layerwise"] = "adjacent"
    position_encoding: bool = True  # section 4.1; without it, a sentence is a bag of words
    linear_start: int = Field(default=0, ge=0)  # steps in which the hops have no softmax (section 4.1)

    @property
    def width(self) -> int:
        return self.d_model

    @property
    def depth(self) -> int:
        return self.n_hops if self.tying == "adjacent" else 0

    def describe(self) -> str:
        return f"{self.n_hops} hop{'s' if self.n_hops > 1 else ''} of {self.d_model}"


PRESETS: dict[str, MemoryNetworkConfig] = {
    "tiny": MemoryNetworkConfig(d_model=20),
    "small": MemoryNetworkConfig(d_model=50),
}


def place_weights(n_places: int, d_model: int) -> Tensor:
    """(D, 2): the weight of unit k of the word at place j is the first column plus j times the second.

    That of the authors' program, 1 + 4 (k − (D+1)/2) (j − (J+1)/2) / (D J): symmetric about 1. The paper's own formula
    is half as large on average, and so learns more slowly. J belongs to the longest sentence of the training text.
    """
    slope = 4 * (torch.arange(1, d_model + 1) - (d_model + 1) / 2) / (d_model * n_places)
    return torch.stack([1 - slope * (n_places + 1) / 2, slope], dim=1)


class MemoryNetwork(Model):
    """Section 2, with position encoding and temporal encoding of section 4.1.

    Times are words at the end of each sentence, as in the authors' program. So are the blank sentences of a memory that
    is not full: their score is 0, so that a hop can rest its weight on them, and use no sentence.
    """

    config: MemoryNetworkConfig
    base: Tensor
    slope: Tensor
    place: Tensor

    def __init__(self, config: MemoryNetworkConfig, *, n_symbols: int, n_times: int, n_places: int) -> None:
        super().__init__()
        self.config, self.n_times, n_rows = config, n_times, n_symbols + n_times
        adjacent = config.tying == "adjacent"
        # adjacent: A¹ = B, C¹ = A², C² = A³, C³ = Wᵀ; layer-wise: A, C, B, Wᵀ
        n_tables = config.n_hops + 1 if adjacent else 4
        self.tables = nn.ParameterList(
            nn.init.normal_(torch.empty(n_rows, config.d_model), std=_DEVIATION) for _ in range(n_tables)
        )
        self.between = None if adjacent else Linear(config.d_model, config.d_model, bias=False)
        if self.between is not None:
            nn.init.normal_(self.between.weight, std=_DEVIATION)
        self.dropout = Dropout(config.dropout)
        # A and C of all hops side by side, and B, which belongs to the first of them or, layer-wise, to the last
        self.n_embeddings = config.n_hops + 1 if adjacent else 3
        base, slope = place_weights(n_places, config.d_model).repeat(self.n_embeddings, 1).unbind(1)
        self.register_buffer("base", base, persistent=False)  # (T · D,)
        self.register_buffer("slope", slope, persistent=False)
        self.register_buffer("place", torch.arange(1.0, n_places + 1), persistent=False)

    @property
    def output_weight(self) -> Tensor:
        """(V, D): the logits are `features @ output_weight.T`."""
        weight: Tensor = self.tables[-1]
        return weight

    def features(
        self, question: Tensor, sentences: Tensor, trace: Trace | None = None, place: Place = OUTSIDE_TRAINING
    ) -> Tensor:
        """(B, J), (B, M, J) → (B, D): what is known after the last hop."""
        adjacent = self.between is None
        is_linear = place.step is not None and place.step <= self.config.linear_start
        words = torch.cat([question.unsqueeze(1), sentences], 1)  # (B, 1 + M, J)
        embedded = self._embed(words.flatten(0, 1)).view(*words.shape[:2], self.n_embeddings, -1)
        vectors = embedded[:, 1:].unbind(2)  # (B, M, D) each
        u = embedded[:, 0, 0 if adjacent else 2]  # (B, D)
        is_blank = sentences[:, :, -1] == NIL  # (B, M)
        log_n_blank = (self.n_times - sentences.shape[1] + is_blank.sum(1, keepdim=True)).log()  # (B, 1)
        states, weights = [u], []
        for hop in range(self.config.n_hops):
            keys, values = vectors[hop : hop + 2] if adjacent else vectors[:2]
            scores = torch.bmm(keys, u.unsqueeze(2)).squeeze(2)  # (B, M)
            p = scores if is_linear else _softmax(scores, is_blank, log_n_blank)
            read = torch.bmm(p.unsqueeze(1), values).squeeze(1)  # (B, D)
            u = read + (u if self.between is None else self.between(u))
            states.append(u)
            weights.append(p)
        if trace is not None:
            trace.record("memory", embedded[:, 1:].flatten(2), kind="memory", axes=("sentence", "unit"))
            trace.record("weights", torch.stack(weights, 1), kind="hops", axes=("hop", "sentence"))
            trace.record("states", torch.stack(states, 1), kind="state", axes=("hop", "unit"))
        out: Tensor = self.dropout(u)
        return out

    def forward(self, question: Tensor, sentences: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, J), (B, M, J) → logits (B, V)."""
        logits = linear(self.features(question, sentences, trace), self.output_weight)
        if trace is not None:
            trace.record("logits", logits, kind="logits", axes=("symbol",))
        return logits

    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        """One term: the answer."""
        question, sentences = batch.inputs
        hidden = self.features(question, sentences, trace, batch.place)
        return (Term("answer", hidden, self.output_weight, None, batch.targets[0]),)

    def cost(self, *lengths: int) -> Cost:
        """`lengths`: the number of sentences."""
        [n_sentences], n_hops = lengths, self.config.n_hops
        hop = attention_flops(1, n_sentences, self.config.d_model)
        hop += 0 if self.between is None else product_flops(1, self.between)
        return Cost(n_hops * hop + product_flops(1, self.output_weight), sequential=n_hops, path=1)

    def _embed(self, ids: Tensor) -> Tensor:
        """(N, J) → (N, T · D): the weighted sum of the words, in each of T tables.

        The weight of a word is linear in its place, so two sums are enough for any number of units.
        """
        table = torch.cat([self.tables[i] for i in range(self.n_embeddings)], 1)  # (V, T · D)
        if not self.config.position_encoding:
            return F.embedding_bag(ids, table, mode="sum", padding_idx=NIL)
        places = self.place.expand(ids.shape)
        placed = F.embedding_bag(ids, table * self.slope, mode="sum", padding_idx=NIL, per_sample_weights=places)
        return F.embedding_bag(ids, table * self.base, mode="sum", padding_idx=NIL) + placed


def _softmax(scores: Tensor, is_blank: Tensor, log_n_blank: Tensor) -> Tensor:
    """(B, M) weights of the sentences; what they lack from 1 is on blank sentences, whose score is 0."""
    scores = scores.masked_fill(is_blank, float("-inf"))
    return torch.cat([scores, log_n_blank], 1).softmax(1)[:, :-1]
