"""BERT (Devlin et al., 2019): an encoder that learns to fill in hidden words, and whether two texts belong together.

Shapes: B batch, T length, N hidden words, D d_model, V vocabulary, C classes
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.data import Batch
from regard.models.base import Term, TextClassificationModel
from regard.models.pretraining import PretrainedConfig, PretrainingModel, Question, Reading, is_asked, set_norm_epsilon
from regard.nn import (
    Cost,
    Dropout,
    TextEmbedding,
    TextEncoder,
    Trace,
    WordHead,
    at,
    linear,
    padding_visible,
    product_flops,
)


class BertConfig(PretrainedConfig, frozen=True, extra="forbid"):
    """Section 3."""

    d_embedding: int | None = Field(default=None, ge=1, le=65_536)  # of narrower embeddings; unset: d_model
    max_positions: int = Field(default=512, ge=1, le=1_048_576)
    next_sentence: bool = True  # also learn whether one text follows the other; without it there is no pooler

    @property
    def max_length(self) -> int:
        return self.max_positions

    @property
    def layers(self) -> tuple[str, ...]:
        return ("bert.embedding", *(f"bert.encoder.layers.{i}" for i in range(self.n_layers)))

    @property
    def asks(self) -> tuple[Question, ...]:
        return ("words", "next") if self.next_sentence else ("words",)


PRESETS = {
    "tiny": BertConfig(n_layers=4, d_model=128, d_ff=256, n_heads=4),
    "small": BertConfig(n_layers=4, d_model=256, d_ff=1024, n_heads=4),
    "base": BertConfig(n_layers=12, d_model=768, d_ff=3072, n_heads=12),
}


class BertBody(nn.Module):
    """What a classifier takes over: embeddings, layers, and the pooler of [CLS]."""

    def __init__(self, config: BertConfig, n_symbols: int, n_segments: int, pad_id: int) -> None:
        super().__init__()
        d, d_embedding = config.d_model, config.d_embedding or config.d_model
        self.pad_id = pad_id
        self.embedding = TextEmbedding(n_symbols, n_segments, config.max_positions, d_embedding, config.dropout)
        self.encoder = TextEncoder(d_embedding, d, config.d_ff, config.n_heads, config.n_layers, config.dropout)
        self.pooler = nn.Linear(d, d) if config.next_sentence else None

    def forward(self, ids: Tensor, segments: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, T), (B, T) → (B, T, D)."""
        embedded = self.embedding(ids, segments, at(trace, "embedding", ("source",)))
        out: Tensor = self.encoder(embedded, padding_visible(ids, self.pad_id), at(trace, "encoder"))
        return out

    def pool(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, D): the vector of [CLS], the first symbol."""
        first = x[:, 0]
        return first if self.pooler is None else torch.tanh(self.pooler(first))


class Bert(PretrainingModel):
    """The two tasks of section 3.1."""

    def __init__(self, config: BertConfig, n_symbols: int, n_segments: int = 2, pad_id: int = 0) -> None:
        super().__init__()
        self.config: BertConfig = config
        self.pad_id = pad_id
        self.bert = BertBody(config, n_symbols, n_segments, pad_id)
        self.words = WordHead(config.d_model, config.d_embedding or config.d_model, n_symbols)
        self.next = nn.Linear(config.d_model, 2) if config.next_sentence else None  # class 0: it follows
        set_norm_epsilon(self, config.norm_epsilon)

    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        """The hidden words, and the next sentence."""
        ids, segments, _ = batch.inputs
        words, *classes = batch.targets
        x, asked = self.bert(ids, segments, at(trace, "bert")), is_asked(words)  # (B, T, D), (B, T)
        hidden = self.words(x[asked])  # (N, D): the whole vocabulary is computed for hidden words only
        term = Term("words", hidden, self.bert.embedding.weight, self.words.bias, words[asked])
        if self.next is None:
            return (term,)
        return term, Term("next", self.bert.pool(x), self.next.weight, self.next.bias, classes[0])

    def cost(self, *lengths: int) -> Cost:
        """Of the layers, the words that are asked for, and the next sentence."""
        [t] = lengths
        n = max(1, round(self.config.masking.share * t))
        output = product_flops(n, self.words.dense, self.bert.embedding.weight)
        flops = output
        if self.bert.pooler is not None and self.next is not None:
            flops += product_flops(1, self.bert.pooler, self.next)
        cost = self.bert.encoder.cost(t)
        return cost._replace(flops=cost.flops + flops, output=output)

    def read(self, ids: Tensor, segments: Tensor, blanks: Tensor, trace: Trace | None = None) -> Reading:
        x = self.bert(ids, segments, at(trace, "bert"))
        logits = linear(self.words(x[blanks]), self.bert.embedding.weight, self.words.bias)  # (N, V)
        follows = None if self.next is None else self.next(self.bert.pool(x)).softmax(-1)[:, 0]
        return Reading(words=logits, next=follows)


class BertClassifier(TextClassificationModel):
    """Section 3.2: the pre-trained encoder, and a new softmax over the classes."""

    def __init__(
        self, config: BertConfig, n_symbols: int, n_classes: int, n_segments: int = 2, pad_id: int = 0
    ) -> None:
        super().__init__()
        self.config: BertConfig = config
        self.pad_id = pad_id
        self.bert = BertBody(config, n_symbols, n_segments, pad_id)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.d_model, n_classes)
        set_norm_epsilon(self, config.norm_epsilon)

    def features(self, ids: Tensor, segments: Tensor, trace: Trace | None = None) -> Tensor:
        pooled = self.bert.pool(self.bert(ids, segments, at(trace, "bert")))
        out: Tensor = self.dropout(pooled)
        return out

    def cost(self, *lengths: int) -> Cost:
        """Of the layers and of the softmax over the classes; the pooler reads one position."""
        [t] = lengths
        heads = [self.output] if self.bert.pooler is None else [self.bert.pooler, self.output]
        cost = self.bert.encoder.cost(t)
        return cost._replace(flops=cost.flops + product_flops(1, *heads))
