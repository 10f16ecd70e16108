"""The wrapping of every sub-layer (section 3.1): residual connection, dropout, layer normalisation."""

from collections.abc import Callable
from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.trace import Trace

Norm = Literal["post", "pre"]
Activation = Literal["relu", "gelu", "swiglu"]


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): "post", as in the paper.

    "pre" normalises what enters the sub-layer instead: x + Dropout(Sublayer(LayerNorm(x))). The stack
    then needs one LayerNorm more at its end. It trains at higher rates and with less warm-up.
    """

    def __init__(self, d_model: int, dropout: float, norm: Norm) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.post = norm == "post"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], trace: Trace | None = None) -> Tensor:
        """(B, T, D) → (B, T, D): the shape stays, so that layers can be stacked and added."""
        added = sublayer(x if self.post else self.norm(x))
        total = self.dropout.add(x, added)
        out: Tensor = self.norm(total) if self.post else total
        if trace is not None:
            trace.record("before", x)
            trace.record("added", added)
            trace.record("after", out)
        return out


class FeedForward(nn.Module):
    """max(0, xW1 + b1)W2 + b2. GELU replaces the max; SwiGLU replaces it by silu(xW1) · xW3."""

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu") -> None:
        super().__init__()
        if activation not in get_args(Activation):
            raise ValueError(f"activation {activation!r} is not one of {', '.join(get_args(Activation))}")
        self.activation = activation
        # SwiGLU needs two inner projections; one matrix product computes both
        self.inner = nn.Linear(d_model, 2 * d_ff if activation == "swiglu" else d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        hidden = self.activate(self.inner(x))  # (B, T, F)
        if trace is not None:
            trace.record("hidden", hidden)
        out: Tensor = self.outer(hidden)
        return out

    def activate(self, inner: Tensor) -> Tensor:
        if self.activation == "relu":
            return F.relu(inner)
        if self.activation == "gelu":
            return F.gelu(inner)
        gate, value = inner.chunk(2, dim=-1)
        return F.silu(gate) * value
