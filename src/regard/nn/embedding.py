"""Embeddings (section 3.4) and the sum with positions that enters the first layer.

B batch, T length, D d_model, V vocabulary
"""

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.trace import Trace


class Embedding(nn.Embedding):
    """Learned vectors × √d_model. `weight` may also be the pre-softmax matrix (section 3.4)."""

    def __init__(self, n_symbols: int, d_model: int) -> None:
        super().__init__(n_symbols, d_model)
        nn.init.normal_(self.weight, std=d_model**-0.5)  # × √d_model gives unit variance

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) → (B, T, D)."""
        vectors: Tensor = F.embedding(ids, self.weight)
        return vectors * float(self.embedding_dim**0.5)


class InputEmbedding(nn.Module):
    """Dropout(embedding × √d_model + position): what the first layer sees.

    `positions` is any module that gives (T, D) for a number of positions and the first of them.
    """

    def __init__(self, embedding: Embedding, positions: nn.Module, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, first: int = 0, trace: Trace | None = None) -> Tensor:
        """(B, T) ids at positions first … → (B, T, D)."""
        embedded = self.embedding(ids)  # (B, T, D)
        position = self.positions(ids.shape[1], first)  # (T, D)
        total = embedded + position
        if trace is not None:
            trace.record("embedding", embedded)
            trace.record("position", position)
            trace.record("sum", total)
        out: Tensor = self.dropout(total)
        return out
