"""1-D convolution over positions, with dilation: causal for decoders, centred for encoders.

It is one matrix product over windows of the input, which on a CPU is faster than torch's convolution. `step` computes
the same for one position, from the inputs before it.

Shapes: B batch, T length, I input channels, O output channels, k size of the kernel, P = (k - 1) · dilation
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.linear import linear


class Convolution(nn.Module):
    """(B, T, I) → (B, T, O): k inputs, `dilation` positions apart; before and after the sequence they are 0.

    A causal one ends its window at the position itself, otherwise the position is in the middle.
    """

    def __init__(
        self, d_input: int, d_output: int, kernel: int, dilation: int = 1, causal: bool = False, n_parts: int = 1
    ) -> None:
        super().__init__()
        self.kernel, self.dilation = kernel, dilation
        self.span = (kernel - 1) * dilation  # P: how far a window reaches
        self.n_before = self.span if causal else (kernel - 1) // 2 * dilation
        self.weight = nn.Parameter(torch.empty(d_output, kernel * d_input))  # from the first to the last of a window
        self.bias = nn.Parameter(torch.zeros(d_output))
        self.matrices = {"weight": n_parts}  # for Muon
        for part in self.weight.chunk(n_parts):
            nn.init.xavier_uniform_(part)

    def forward(self, x: Tensor, is_real: Tensor | None = None) -> Tensor:
        """(B, T, I) → (B, T, O). `is_real` (B, T, 1) is 0 at padding, which then has no influence."""
        n = x.shape[1]
        padded = F.pad(x if is_real is None else x * is_real, (0, 0, self.n_before, self.span - self.n_before))
        windows = [padded[:, first : first + n] for first in range(0, self.span + 1, self.dilation)]
        return linear(torch.cat(windows, -1), self.weight, self.bias)  # (B, T, k·I) → (B, T, O)

    def start(self, like: Tensor) -> Tensor:
        """(B, …) → (B, P, I): the inputs before the first position, all 0."""
        return like.new_zeros(len(like), self.span, self.weight.shape[1] // self.kernel)

    def step(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """The next position of a causal convolution: (R, I), and the P inputs before it → (R, O), and the new P."""
        inputs = torch.cat([past, x[:, None]], 1)  # (R, P + 1, I)
        return linear(inputs[:, :: self.dilation].flatten(1), self.weight, self.bias), inputs[:, 1:]
