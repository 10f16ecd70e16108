"""The encoder of BERT (Devlin et al., 2019): what BERT and ELECTRA share.

Its layers are the Transformer's, normalised after each sub-layer, with GELU. Different are the embeddings: they have
segments, are not multiplied by √d_model, and are normalised.

Shapes: B batch, T length, N positions, E embedding width, D d_model, V vocabulary
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.cost import Cost, attention_flops, product_flops
from regard.nn.dropout import Dropout
from regard.nn.embedding import InputEmbedding, LearnedPositions
from regard.nn.encoder_layer import EncoderLayer
from regard.nn.trace import Trace, at

_STD = 0.02  # of the initial embeddings


class TextEmbedding(nn.Module):
    """Section 3, figure 2: Dropout(LayerNorm(word + position + segment))."""

    def __init__(self, n_symbols: int, n_segments: int, n_positions: int, width: int, dropout: float) -> None:
        super().__init__()
        words, positions = nn.Embedding(n_symbols, width), LearnedPositions(width, n_positions)
        self.words = InputEmbedding(words, positions, dropout=0.0)
        self.segments = nn.Embedding(n_segments, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)
        for weight in (words.weight, positions.table, self.segments.weight):
            nn.init.trunc_normal_(weight, std=_STD, a=-2 * _STD, b=2 * _STD)

    @property
    def weight(self) -> Tensor:
        """(V, E), also the matrix before the softmax."""
        return self.words.embedding.weight

    def forward(self, ids: Tensor, segments: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, T), (B, T) → (B, T, E)."""
        total = self.words(ids, trace=at(trace, "words")) + self.segments(segments)
        out: Tensor = self.dropout(self.norm(total))
        return out


class TextEncoder(nn.Module):
    """The layers; ELECTRA's embeddings may be narrower than they are, and are then projected."""

    def __init__(self, d_embedding: int, d_model: int, d_ff: int, n_heads: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        self.d_model = d_model
        self.project = nn.Linear(d_embedding, d_model) if d_embedding != d_model else nn.Identity()
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, d_ff, n_heads, dropout, "post", "gelu") for _ in range(n_layers)
        )

    def forward(self, embedded: Tensor, visible: Tensor | None, trace: Trace | None = None) -> Tensor:
        """(B, T, E) → (B, T, D)."""
        x: Tensor = self.project(embedded)
        for i, layer in enumerate(self.layers):
            x = layer(x, visible, at(trace, f"layers.{i}", ("source", "source")))
        return x

    def cost(self, n: int) -> Cost:
        """Of n positions: of the layers, as in the Transformer's encoder, and of the projection."""
        n_layers = len(self.layers)
        flops = product_flops(n, self.layers) + n_layers * attention_flops(n, n, self.d_model)
        if isinstance(self.project, nn.Linear):
            flops += product_flops(n, self.project)
        return Cost(flops, n_layers, 1)


class WordHead(nn.Module):
    """Before the softmax over all words: LayerNorm(GELU(Wx + b)). Its matrix is the embedding, with a bias."""

    def __init__(self, d_model: int, d_embedding: int, n_symbols: int) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_embedding)
        self.norm = nn.LayerNorm(d_embedding)
        self.bias = nn.Parameter(torch.zeros(n_symbols))

    def forward(self, x: Tensor) -> Tensor:
        """(N, D) → (N, E)."""
        out: Tensor = self.norm(F.gelu(self.dense(x)))
        return out
