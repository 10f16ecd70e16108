"""Positions (section 3.5): attention alone does not know the order of its inputs.

B batch, T length, D d_model
"""

import torch
from torch import Tensor, nn


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
