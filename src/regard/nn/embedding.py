"""Embeddings (section 3.4) and the sum with positions that enters the first layer.

B batch, T length, D d_model, V vocabulary
"""

import torch
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


def sinusoid(n_positions: int, d_model: int, first: int = 0) -> Tensor:
    """(T, D): PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same.

    Computed in float64, so that far positions stay exact; there is no longest length.
    """
    pos = torch.arange(first, first + n_positions, dtype=torch.float64)[:, None]  # (T, 1)
    wavelength = 10_000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)  # (D/2,)
    angle = pos / wavelength  # (T, D/2)
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # (T, D), or one more if D is odd
    return waves[:, :d_model].to(torch.get_default_dtype())


class SinusoidalPositions(nn.Module):
    """The paper's choice: fixed waves. The table grows when a longer text comes."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.table: Tensor
        self.register_buffer("table", sinusoid(256, d_model), persistent=False)

    def forward(self, n_positions: int, first: int = 0) -> Tensor:
        """(T, D) for positions first … first + n_positions - 1."""
        end, table = first + n_positions, self.table  # another thread may put another table there at any time
        if end > len(table):
            with torch.inference_mode(False):  # a table that grows during validation serves training afterwards
                table = sinusoid(max(end, 2 * len(table)), self.d_model).to(table)
            self.table = table
        return table[first:end]


class LearnedPositions(nn.Module):
    """Table 3, row (E): one learned vector a position. Ends where its table ends."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, n_positions: int, first: int = 0) -> Tensor:
        """(T, D) for positions first … first + n_positions - 1."""
        end = first + n_positions
        if end > len(self.table):
            raise ValueError(f"position {end} is past the {len(self.table)} learned ones; split the text")
        return self.table[first:end]


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
