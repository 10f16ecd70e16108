"""XLNet (Yang et al., 2019): an encoder that learns to predict words in any order, each from those before it.

An order is drawn anew for every passage. The content stream computes what the words mean: each sees itself and the
earlier ones. The query stream predicts: it begins with one vector for all words, knows its position, and sees the
earlier words only. So no word sees itself, and no word is replaced by [MASK] (section 2.3). Words that are not
predicted come first, and see only each other. Attention is Transformer-XL's, in both directions, with a memory of the
text before the passage, which has no order (section 2.4).

bos is read behind the text, as in the released code: the positions of a passage are text, eos, bos.

Shapes: B batch, T length, M memory, S = M + T, N predicted words, Q predicted words of a passage, P distances,
D d_model, H heads, K d_k, V vocabulary
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.data import Batch, Masking
from regard.models.base import Term, TextClassificationModel
from regard.models.pretraining import PretrainedConfig, PretrainingModel, Reading, is_asked, set_norm_epsilon
from regard.nn import (
    TRAINING_FLOPS,
    Cost,
    Distances,
    Dropout,
    FeedForward,
    InputEmbedding,
    KeyValues,
    NoPositions,
    RelativeAttention,
    Residual,
    Trace,
    at,
    attention_flops,
    linear,
    product_flops,
)

_STD = 0.02  # of the initial embeddings, and of the vector that queries begin with
_FIRST = -0.5  # a place in the order before all that are drawn


class XLNetConfig(PretrainedConfig, frozen=True, extra="forbid"):
    """Section 2."""

    memory: int = Field(default=64, ge=0, le=1_048_576)  # tokens before a passage that it sees in pre-training

    @property
    def layers(self) -> tuple[str, ...]:
        return ("xlnet.words", *(f"xlnet.layers.{i}" for i in range(self.n_layers)))

    @property
    def masking(self) -> Masking:
        """Spans of up to five words, a sixth of the text in all; nothing is hidden but by the order."""
        return Masking(share=1 / 6, hidden=0.0, random=0.0, span=5)

    @property
    def n_before(self) -> int:
        return self.memory

    @property
    def bos_is_last(self) -> bool:
        return True


PRESETS = {
    "tiny": XLNetConfig(n_layers=4, d_model=128, d_ff=256, n_heads=4),
    "small": XLNetConfig(n_layers=4, d_model=256, d_ff=1024, n_heads=4),
    "base": XLNetConfig(n_layers=12, d_model=768, d_ff=3072, n_heads=12),
}


class Stream(NamedTuple):
    """The vectors of one stream, and what they may see."""

    x: Tensor  # (B, T, D), or (B, Q, D)
    visible: Tensor | None  # (B, 1, T, S)
    differs: Tensor  # (B, 1, T, S): whether the key is in another segment
    positions: Tensor | None = None  # (B, Q); None: of all words


class XLNetLayer(nn.Module):
    """Attention, then feed-forward, with the same weights for both streams."""

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__()
        d, h = config.d_model, config.n_heads
        self.self_attention = RelativeAttention(d, h)
        self.segment_bias = nn.Parameter(torch.randn(h, d // h).mul_(_STD))  # as u and v, for segments
        self.segments = nn.Parameter(torch.randn(2, h, d // h).mul_(_STD))  # of keys in the same segment, or another
        self.feed_forward = FeedForward(d, config.d_ff, "gelu")
        self.residuals = nn.ModuleList(Residual(d, config.dropout, "post") for _ in range(2))

    def project(self, x: Tensor, memory: Tensor | None, distances: Tensor) -> tuple[KeyValues, Tensor]:
        """(B, T, D), (B, M, D), (P, D) → keys and values of memory and content, and W_R of the distances."""
        keys = x if memory is None else torch.cat([memory, x], 1)
        return self.self_attention.keys_values(keys), self.self_attention.encode(distances)

    def forward(self, stream: Stream, projected: tuple[KeyValues, Tensor], trace: Trace | None = None) -> Tensor:
        """What becomes of a stream: (B, T, D), or (B, Q, D)."""
        attention_trace, ff_trace = at(trace, "self_attention"), at(trace, "feed_forward")

        def attend(y: Tensor) -> Tensor:
            q = self.self_attention.queries(y)  # (B, H, T, K)
            by_kind = torch.einsum("bhtk,chk->bhtc", q + self.segment_bias[:, None], self.segments)
            extra = torch.where(stream.differs, by_kind[..., 1:], by_kind[..., :1])  # (B, H, T, S)
            return self.self_attention.attend(
                q, *projected, stream.visible, extra=extra, positions=stream.positions, trace=attention_trace
            )

        x = self.residuals[0](stream.x, attend, attention_trace)
        out: Tensor = self.residuals[1](x, lambda y: self.feed_forward(y, ff_trace), ff_trace)
        return out

    def flops(self, n_queries: int, n_keys: int, n_positions: int) -> int:
        """Of attention and feed-forward; `n_positions` of the keys are those of the passage."""
        d, n_distances = self.self_attention.d_model, n_keys + n_positions
        keys = 2 * d * d * (2 * n_keys + n_distances)
        scores = attention_flops(n_queries, n_keys, d) + 2 * n_queries * d * (n_distances + 2)
        return keys + 2 * n_queries * 2 * d * d + scores + product_flops(n_queries, self.feed_forward)


class Passages(NamedTuple):
    """A batch as the layers read it, with bos behind the text."""

    places: Tensor  # (B, T): where each symbol was before
    ids: Tensor  # (B, T)
    segments: Tensor  # (B, M + T)
    seen: Tensor  # (B, M + T): which symbols are no padding

    def arranged(self, values: Tensor) -> Tensor:
        """(B, T) → (B, T): values in the same order."""
        return values.gather(1, self.places)


class XLNetBody(nn.Module):
    """What a classifier takes over: embeddings and layers."""

    def __init__(self, config: XLNetConfig, n_symbols: int, n_segments: int, pad_id: int) -> None:
        super().__init__()
        d = config.d_model
        self.n_segments, self.pad_id = n_segments, pad_id
        embedding = nn.Embedding(n_symbols, d)
        nn.init.normal_(embedding.weight, std=_STD)
        self.words = InputEmbedding(embedding, NoPositions(d), config.dropout)
        self.distances = Distances(d)
        self.layers = nn.ModuleList(XLNetLayer(config) for _ in range(config.n_layers))
        self.dropout = Dropout(config.dropout)

    @property
    def stack(self) -> list[XLNetLayer]:
        """The layers, with their type."""
        return cast("list[XLNetLayer]", [*self.layers])

    @property
    def weight(self) -> Tensor:
        """(V, D), also the matrix before the softmax."""
        return self.words.embedding.weight

    def forward(self, ids: Tensor, segments: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, T), (B, T) → (B, D): the vector of bos, which sees everything."""
        passages = self._arrange(ids, segments, ids[:, :0])
        x, is_bos = self._embed(passages, trace), passages.places == 0
        visible = None if bool(passages.seen.all()) else passages.seen[:, None, None]
        differs = _differ(passages.segments, passages.segments)
        distances = self.distances(x.shape[1], x.shape[1], both_directions=True)
        for i, layer in enumerate(self.stack):
            projected = layer.project(x, None, distances)
            x = layer(Stream(x, visible, differs), projected, at(trace, f"layers.{i}", ("source", "source")))
        out: Tensor = self.dropout(x[is_bos])
        return out

    def predict(
        self,
        ids: Tensor,
        segments: Tensor,
        order: Tensor,
        asked: Tensor,
        context: Tensor,
        query: Tensor,
        trace: Trace | None = None,
    ) -> Tensor:
        """Words from those before them in the order: (N, D), row by row.

        `order` (B, T) is a number in [0, 1), or -1 of what all may see. `asked` (B, T) is which words to predict, and
        `context` (B, M) the text before, padded on the left. `query` (D,) is what the query stream begins with.
        """
        m = int((context != self.pad_id).sum(1).max())
        context = context[:, context.shape[1] - m :]
        passages = self._arrange(ids, segments, context)
        positions, is_query = _positions(passages.arranged(asked))  # (B, Q)
        seen, sees_itself = self._visible(passages, passages.arranged(order), m)  # (B, T, S)
        rows = positions[..., None].expand(-1, -1, seen.shape[2])
        query_seen = (seen.gather(1, rows) | ~is_query[..., None])[:, None]  # (B, 1, Q, S)
        differs = _differ(passages.segments[:, m:], passages.segments)  # (B, 1, T, S)
        query_differs = differs[:, 0].gather(1, rows)[:, None]
        x = self._embed(passages, trace)
        g = self.dropout(query.expand(*positions.shape, -1))
        distances, memories = self.distances(x.shape[1], seen.shape[2], both_directions=True), self._memories(context)
        rows_axis, columns = "source" if g.shape == x.shape else "asked", "context" if m else "source"
        for i, (layer, memory) in enumerate(zip(self.stack, memories, strict=True)):
            projected = layer.project(x, memory, distances)
            below = at(trace, f"layers.{i}")
            query_trace = at(below, "query", (rows_axis, columns))
            g = layer(Stream(g, query_seen, query_differs, positions), projected, query_trace)
            if i < len(self.layers) - 1:  # nothing sees the content after the last layer
                content = Stream(x, (seen | sees_itself)[:, None], differs)
                x = layer(content, projected, at(below, "content", ("source", columns)))
        out: Tensor = self.dropout(g)[is_query]
        return out

    def cost(self, n: int, n_asked: int = 0, n_context: int = 0) -> Cost:
        """Of a text of n symbols; or of a passage in which some are predicted, and the memory before it."""
        n_layers, square, flops, extra = len(self.layers), 2 * self.distances.d_model**2, 0, 0
        for i, layer in enumerate(self.stack):
            is_last, is_needed = i == n_layers - 1, n_asked == 0 or i < n_layers - 1
            flops += layer.flops((n if is_needed else 0) + n_asked, n_context + n, n)
            memory, square = (
                0 if is_last else layer.flops(n_context, n_context, n_context),
                2 * self.distances.d_model**2,
            )
            flops += memory
            # a batch shares the distances, and what encodes the memory has no gradient
            extra -= square * TRAINING_FLOPS * (n_context + 2 * n)
            extra -= (TRAINING_FLOPS - 1) * memory + (0 if is_last else square * 2 * n_context)
        return Cost(flops, n_layers, 1, extra=extra)

    def _arrange(self, ids: Tensor, segments: Tensor, context: Tensor) -> Passages:
        n_real, here = (ids != self.pad_id).sum(1, keepdim=True), torch.arange(ids.shape[1], device=ids.device)
        places = torch.where(here < n_real - 1, here + 1, torch.where(here == n_real - 1, 0, here))  # (B, T)
        ids, segments = ids.gather(1, places), segments.gather(1, places)
        segments = segments.masked_fill(places == 0, self.n_segments)  # bos is in none of the texts
        before = torch.zeros_like(context)  # (B, M): in the first
        seen = torch.cat([context, ids], 1) != self.pad_id
        return Passages(places, ids, torch.cat([before, segments], 1), seen)

    def _embed(self, passages: Passages, trace: Trace | None) -> Tensor:
        out: Tensor = self.words(passages.ids, trace=at(trace, "words", ("source",)))
        return out

    def _visible(self, passages: Passages, order: Tensor, n_context: int) -> tuple[Tensor, Tensor]:
        """(B, T, S): what the order lets each word see; and (T, S): itself.

        If everything is drawn, bos comes first, so that every word sees something.
        """
        is_given = (order < 0) & passages.seen[:, n_context:]
        order = order.masked_fill((passages.places == 0) & ~is_given.any(1, keepdim=True), _FIRST)
        earlier = (order[:, None] < order[..., None]) | is_given[:, None]  # (B, T, T)
        earlier = torch.cat([earlier.new_ones(*earlier.shape[:2], n_context), earlier], 2) & passages.seen[:, None]
        itself = torch.ones_like(earlier[0]).tril(n_context).triu(n_context)
        return earlier, itself

    @torch.no_grad()
    def _memories(self, context: Tensor) -> list[Tensor | None]:
        """What each layer read in the text before: (B, M, D), without gradients."""
        m = context.shape[1]
        if m == 0:
            return [None] * len(self.layers)
        seen = (context != self.pad_id)[:, None, None] | torch.eye(m, dtype=torch.bool, device=context.device)
        differs = torch.zeros_like(seen)
        x = self.words(context)
        memories, distances = [x], self.distances(m, m, both_directions=True)
        for layer in self.stack[:-1]:
            x = layer(Stream(x, seen, differs), layer.project(x, None, distances))
            memories.append(x)
        return memories


class XLNet(PretrainingModel):
    """Section 2: permutation language modelling."""

    has_orders = True

    def __init__(self, config: XLNetConfig, n_symbols: int, n_segments: int = 2, pad_id: int = 0) -> None:
        super().__init__()
        self.config: XLNetConfig = config
        self.pad_id = pad_id
        self.xlnet = XLNetBody(config, n_symbols, n_segments, pad_id)
        self.query = nn.Parameter(torch.randn(config.d_model).mul_(_STD))
        self.bias = nn.Parameter(torch.zeros(n_symbols))
        set_norm_epsilon(self, config.norm_epsilon)

    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        """The words that are predicted, each from those before it in the order."""
        ids, segments, order, *contexts = batch.inputs
        [words] = batch.targets
        asked, context = is_asked(words), contexts[0] if contexts else ids[:, :0]
        hidden = self.xlnet.predict(ids, segments, order, asked, context, self.query, at(trace, "xlnet"))  # (N, D)
        return (Term("words", hidden, self.xlnet.weight, self.bias, words[asked]),)

    def read(self, ids: Tensor, segments: Tensor, blanks: Tensor, trace: Trace | None = None) -> Reading:
        """Every blank sees all words that are there, and no other blank."""
        if not bool(blanks.any()):
            self.xlnet(ids, segments, at(trace, "xlnet"))
            return Reading(words=self.bias.new_zeros(0, len(self.bias)))
        order = blanks.float() - 1
        return Reading(words=self.read_in_order(ids, segments, order, blanks, trace))

    def read_in_order(
        self, ids: Tensor, segments: Tensor, order: Tensor, asked: Tensor, trace: Trace | None = None
    ) -> Tensor:
        hidden = self.xlnet.predict(ids, segments, order, asked, ids[:, :0], self.query, at(trace, "xlnet"))
        return linear(hidden, self.xlnet.weight, self.bias)

    def cost(self, *lengths: int) -> Cost:
        """Of both streams, the memory, and the words that are predicted."""
        [t] = lengths
        n = max(1, round(self.config.masking.share * t))
        cost, output = self.xlnet.cost(t, n, self.config.memory), product_flops(n, self.xlnet.weight)
        return cost._replace(flops=cost.flops + output, output=output)


class XLNetClassifier(TextClassificationModel):
    """The encoder, and a softmax over the classes of the vector of bos. The released code has a new layer between."""

    def __init__(
        self, config: XLNetConfig, n_symbols: int, n_classes: int, n_segments: int = 2, pad_id: int = 0
    ) -> None:
        super().__init__()
        self.config: XLNetConfig = config
        self.pad_id = pad_id
        self.xlnet = XLNetBody(config, n_symbols, n_segments, pad_id)
        self.output = nn.Linear(config.d_model, n_classes)
        set_norm_epsilon(self, config.norm_epsilon)

    def features(self, ids: Tensor, segments: Tensor, trace: Trace | None = None) -> Tensor:
        out: Tensor = self.xlnet(ids, segments, at(trace, "xlnet"))
        return out

    def cost(self, *lengths: int) -> Cost:
        """Of the layers and of the softmax over the classes."""
        [t] = lengths
        cost = self.xlnet.cost(t)
        return cost._replace(flops=cost.flops + product_flops(1, self.output))


def _positions(asked: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T) → (B, Q) the positions that are asked for, padded on the right, and which of them are real."""
    n = asked.sum(1, keepdim=True)
    n_queries = int(n.max())
    positions = asked.byte().argsort(dim=1, descending=True, stable=True)[:, :n_queries]
    return positions, torch.arange(n_queries, device=asked.device) < n


def _differ(segments: Tensor, of_keys: Tensor) -> Tensor:
    """(B, T), (B, S) → (B, 1, T, S)."""
    return (segments[:, :, None] != of_keys[:, None])[:, None]
