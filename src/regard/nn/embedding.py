"""The input of the first layer: embeddings (section 3.4) plus positions (section 3.5).

Shapes: B batch, T length, D d_model, V vocabulary
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.trace import Trace


class Embedding(nn.Embedding):
    """Section 3.4: learned vectors × √d_model. `weight` (V, D) can also be the matrix before the softmax."""

    def __init__(self, n_symbols: int, d_model: int) -> None:
        super().__init__(n_symbols, d_model)
        nn.init.normal_(self.weight, std=d_model**-0.5)  # × √d_model: unit variance

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) → (B, T, D)."""
        vectors: Tensor = F.embedding(ids, self.weight)  # (B, T, D)
        return vectors * float(self.embedding_dim**0.5)


def sinusoid(n_positions: int, d_model: int, first: int = 0) -> Tensor:
    """Section 3.5: (T, D), PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same angle.

    Computed in float64, so that large positions stay exact. There is no maximum length.
    """
    if torch.get_default_device().type == "meta":
        return torch.empty(n_positions, d_model)
    pos = torch.arange(first, first + n_positions, dtype=torch.float64)[:, None]  # (T, 1)
    wavelength = 10_000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)  # (D/2,)
    angle = pos / wavelength  # (T, D/2)
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # (T, D), or (T, D + 1) if D is odd
    return waves[:, :d_model].to(torch.get_default_dtype())


class Positions(nn.Module):
    """Vectors of positions: called with their number and the first one, (T, D). `limit` is how many there are."""

    limit: int | None = None


class SinusoidalPositions(Positions):
    """The paper's positions: fixed sinusoids. The table grows if a longer text comes, and is not saved."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.table: Tensor
        self.register_buffer("table", sinusoid(256, d_model), persistent=False)

    def forward(self, n_positions: int, first: int = 0) -> Tensor:
        """(T, D) for positions first … first + n_positions - 1."""
        end, table = first + n_positions, self.table  # read once: another thread may replace self.table
        if end > len(table):
            with torch.inference_mode(False):  # if the table grows in validation, training can still use it
                table = sinusoid(max(end, 2 * len(table)), self.d_model).to(table)
            self.table = table
        return table[first:end]


class NoPositions(Positions):
    """No positions: the text is a bag of words."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.zeros: Tensor
        self.register_buffer("zeros", torch.zeros(1, d_model), persistent=False)

    def forward(self, n_positions: int, first: int = 0) -> Tensor:
        """(T, D)"""
        return self.zeros.expand(n_positions, -1)


class LearnedPositions(Positions):
    """Table 3, row (E): one learned vector per position, up to `max_positions`."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.limit = max_positions
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, n_positions: int, first: int = 0) -> Tensor:
        """(T, D) for positions first … first + n_positions - 1."""
        end = first + n_positions
        if end > len(self.table):
            raise ValueError(f"the text needs {end} positions, but the model learned {len(self.table)}; split the text")
        return self.table[first:end]


class InputEmbedding(nn.Module):
    """Dropout(embedding × √d_model + position): the input of the first layer.

    With a plain `nn.Embedding`, nothing is multiplied by √d_model. `positions` is a module that returns (T, D) for the
    number of positions and the first position.
    """

    def __init__(self, embedding: nn.Embedding, positions: nn.Module, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, first: int = 0, trace: Trace | None = None) -> Tensor:
        """(B, T) → (B, T, D). `first` is the position of the first id."""
        embedded = self.embedding(ids)  # (B, T, D)
        position = self.positions(ids.shape[1], first)  # (T, D)
        if trace is not None:
            axes = (trace.axes[0], "unit")
            embedded = trace.record("embedding", embedded, kind="embedding", axes=axes)
            trace.record("position", position[None], kind="vector", axes=axes)  # the same for every sentence
        total = embedded + position  # (B, T, D)
        if trace is not None:
            trace.record("sum", total, kind="vector", axes=axes)
        out: Tensor = self.dropout(total)
        return out
