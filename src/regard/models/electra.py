"""ELECTRA (Clark et al., 2020): a small generator replaces words, and the encoder learns to tell which ones.

Every word is asked about, not only the hidden ones. The generator learns as BERT does; it is not an adversary.

Shapes: B batch, T length, N hidden words, M words, E embedding width, D d_model, V vocabulary
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.data import Batch, Masking
from regard.models.base import Term, TextClassificationModel
from regard.models.pretraining import (
    PretrainedConfig,
    PretrainingModel,
    Question,
    Reading,
    is_asked,
    set_norm_epsilon,
)
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

_WEIGHT = 50.0  # of the second term (section 3.1, λ)


class ElectraConfig(PretrainedConfig, frozen=True, extra="forbid"):
    """Section 3."""

    d_embedding: int | None = Field(default=None, ge=1, le=65_536)  # of narrower embeddings; unset: d_model
    max_positions: int = Field(default=512, ge=1, le=1_048_576)
    # size of the generator: its width, heads and d_ff in parts of the encoder's. The paper has ¼ to ½; an imported
    # encoder has none, and 0
    generator: float = Field(default=0.5, ge=0, le=1)

    @property
    def max_length(self) -> int:
        return self.max_positions

    @property
    def layers(self) -> tuple[str, ...]:
        return ("electra.embedding", *(f"electra.encoder.layers.{i}" for i in range(self.n_layers)))

    @property
    def masking(self) -> Masking:
        """As in the released code: other than in BERT, no random words."""
        return Masking(hidden=0.85, random=0.0)

    @property
    def asks(self) -> tuple[Question, ...]:
        return ("words", "replaced") if self.generator else ("replaced",)


PRESETS = {
    "tiny": ElectraConfig(n_layers=4, d_model=128, d_ff=256, n_heads=4),
    "small": ElectraConfig(n_layers=12, d_model=256, d_ff=1024, n_heads=4, d_embedding=128, generator=0.25),
    "base": ElectraConfig(n_layers=12, d_model=768, d_ff=3072, n_heads=12, generator=1 / 3),
}


class ElectraBody(nn.Module):
    """What a classifier takes over: embeddings and layers."""

    def __init__(self, config: ElectraConfig, n_symbols: int, n_segments: int) -> None:
        super().__init__()
        d, d_embedding = config.d_model, config.d_embedding or config.d_model
        self.embedding = TextEmbedding(n_symbols, n_segments, config.max_positions, d_embedding, config.dropout)
        self.encoder = TextEncoder(d_embedding, d, config.d_ff, config.n_heads, config.n_layers, config.dropout)

    def forward(self, ids: Tensor, segments: Tensor, visible: Tensor | None, trace: Trace | None = None) -> Tensor:
        """(B, T), (B, T) → (B, T, D)."""
        embedded = self.embedding(ids, segments, at(trace, "embedding", ("source",)))
        out: Tensor = self.encoder(embedded, visible, at(trace, "encoder"))
        return out


class Generator(nn.Module):
    """A small BERT with the encoder's embeddings."""

    def __init__(self, config: ElectraConfig, n_symbols: int) -> None:
        super().__init__()
        d_embedding, n_heads = config.d_embedding or config.d_model, max(1, round(config.generator * config.n_heads))
        d_model = max(1, round(config.generator * config.d_model / n_heads)) * n_heads
        d_ff = max(1, round(config.generator * config.d_ff))
        self.encoder = TextEncoder(d_embedding, d_model, d_ff, n_heads, config.n_layers, config.dropout)
        self.words = WordHead(d_model, d_embedding, n_symbols)


class Electra(PretrainingModel):
    """Figure 2: generator and discriminator."""

    def __init__(self, config: ElectraConfig, n_symbols: int, n_segments: int = 2, pad_id: int = 0) -> None:
        super().__init__()
        self.config: ElectraConfig = config
        self.pad_id = pad_id
        self.electra = ElectraBody(config, n_symbols, n_segments)
        self.generator = Generator(config, n_symbols) if config.generator else None
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.replaced = nn.Linear(config.d_model, 1)
        set_norm_epsilon(self, config.norm_epsilon)

    @classmethod
    def check(cls, config: Any) -> None:
        if not config.generator:
            raise ValueError("model.generator = 0: without a generator there are no replaced words to learn from")

    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        """The hidden words, and whether a word was replaced, of all words. A word that is right by chance was not."""
        assert self.generator is not None
        ids, segments, draws = batch.inputs
        [words] = batch.targets
        asked, is_real, visible = is_asked(words), ids != self.pad_id, padding_visible(ids, self.pad_id)
        hidden = self._generate(ids, segments, visible, asked, trace)  # (N, E)
        original = words.where(asked, ids)  # (B, T)
        written = original.masked_scatter(asked, self._sample(hidden, draws[asked]))  # (B, T)
        judged = self._judge(written, segments, visible, trace)[is_real]  # (M, D)
        is_replaced = (written != original)[is_real].long()  # (M,)
        # a sigmoid is a softmax over two classes, one of which has the logit 0
        weight = torch.cat([torch.zeros_like(self.replaced.weight), self.replaced.weight])  # (2, D)
        bias = torch.cat([torch.zeros_like(self.replaced.bias), self.replaced.bias])  # (2,)
        matrix, word_bias = self.electra.embedding.weight, self.generator.words.bias
        return (
            Term("words", hidden, matrix, word_bias, words[asked]),
            Term("replaced", judged, weight, bias, is_replaced, scale=_WEIGHT),
        )

    def read(self, ids: Tensor, segments: Tensor, blanks: Tensor, trace: Trace | None = None) -> Reading:
        """The generator fills the blanks with its most probable words, and the encoder judges the result."""
        visible, logits = padding_visible(ids, self.pad_id), None
        if self.generator is not None:
            logits = self._logits(self._generate(ids, segments, visible, blanks, trace))  # (N, V)
            ids = ids.masked_scatter(blanks, logits.argmax(-1))
        judged = self.replaced(self._judge(ids, segments, visible, trace)).squeeze(-1)  # (B, T)
        return Reading(words=logits, replaced=judged.sigmoid())

    def cost(self, *lengths: int) -> Cost:
        """Of both encoders, the words that are asked for, and the judgement of every word."""
        [t] = lengths
        cost = self.electra.encoder.cost(t)
        flops = cost.flops + product_flops(t, self.dense, self.replaced)
        if self.generator is None:
            return cost._replace(flops=flops)
        n = max(1, round(self.config.masking.share * t))
        generated = self.generator.encoder.cost(t)
        sampled = product_flops(n, self.electra.embedding.weight)  # in training once more, without a gradient
        output = product_flops(n, self.generator.words.dense) + sampled
        flops += generated.flops + output
        return Cost(flops, cost.sequential + generated.sequential, 1, output, extra=sampled)

    def _generate(
        self, ids: Tensor, segments: Tensor, visible: Tensor | None, asked: Tensor, trace: Trace | None
    ) -> Tensor:
        """(B, T) → (N, E): what the generator's logits of the words that are asked for are computed from."""
        assert self.generator is not None
        below = at(trace, "generator")
        embedded = self.electra.embedding(ids, segments)  # (B, T, E)
        hidden: Tensor = self.generator.words(self.generator.encoder(embedded, visible, at(below, "encoder"))[asked])
        return hidden

    def _logits(self, hidden: Tensor) -> Tensor:
        assert self.generator is not None
        return linear(hidden, self.electra.embedding.weight, self.generator.words.bias)

    @torch.no_grad()
    def _sample(self, hidden: Tensor, draws: Tensor) -> Tensor:
        """(N, E) and numbers in [0, 1) → (N,) words, each with its probability. No gradient goes through them."""
        cumulative = self._logits(hidden).float().softmax(-1).cumsum(-1)  # (N, V)
        drawn = torch.searchsorted(cumulative, draws[:, None] * cumulative[:, -1:], right=True)
        return drawn.squeeze(-1).clamp(max=cumulative.shape[-1] - 1)

    def _judge(self, ids: Tensor, segments: Tensor, visible: Tensor | None, trace: Trace | None) -> Tensor:
        """(B, T) → (B, T, D): what the logit of "replaced" is computed from."""
        x = self.electra(ids, segments, visible, at(trace, "electra"))
        return F.gelu(self.dense(x))


class ElectraClassifier(TextClassificationModel):
    """The encoder, and a softmax over the classes of the vector of [CLS], as in the released code."""

    def __init__(
        self, config: ElectraConfig, n_symbols: int, n_classes: int, n_segments: int = 2, pad_id: int = 0
    ) -> None:
        super().__init__()
        self.config: ElectraConfig = config
        self.pad_id = pad_id
        self.electra = ElectraBody(config, n_symbols, n_segments)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.d_model, n_classes)
        set_norm_epsilon(self, config.norm_epsilon)

    def features(self, ids: Tensor, segments: Tensor, trace: Trace | None = None) -> Tensor:
        x = self.electra(ids, segments, padding_visible(ids, self.pad_id), at(trace, "electra"))
        out: Tensor = self.dropout(x[:, 0])
        return out

    def cost(self, *lengths: int) -> Cost:
        """Of the layers and of the softmax over the classes."""
        [t] = lengths
        cost = self.electra.encoder.cost(t)
        return cost._replace(flops=cost.flops + product_flops(1, self.output))
