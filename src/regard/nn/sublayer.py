"""Sub-layers: the residual connection around each of them (section 3.1), and the feed-forward network (section 3.3).

Shapes: B batch, T length, D d_model, F d_ff
"""

from collections.abc import Callable
from typing import ClassVar, Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.linear import Linear
from regard.nn.trace import Trace

Norm = Literal["post", "pre"]
Activation = Literal["relu", "gelu", "silu", "swiglu"]


class Residual(nn.Module):
    """Section 3.1: LayerNorm(x + Dropout(Sublayer(x))), or "post-norm".

    "pre" normalises the input of the sub-layer instead: x + Dropout(Sublayer(LayerNorm(x))). The stack then ends with
    one more LayerNorm. Pre-norm trains with higher learning rates and less warm-up.
    """

    def __init__(self, d_model: int, dropout: float, norm: Norm) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.post = norm == "post"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], trace: Trace | None = None) -> Tensor:
        """(B, T, D) → (B, T, D). All sub-layers keep this shape, so that they can be added and stacked."""
        added = sublayer(x if self.post else self.norm(x))
        total = self.dropout.add(x, added)
        out: Tensor = self.norm(total) if self.post else total
        if trace is not None:
            for name, value in (("before", x), ("added", added), ("after", out)):
                trace.record(name, value, kind="vector", axes=(trace.axes[0], "unit"))
        return out


class FeedForward(nn.Module):
    """Section 3.3, equation 2: max(0, xW1 + b1)W2 + b2, the same at every position, different in every layer.

    Other activations than the paper's: "gelu" and "silu" replace max(0, ·); "swiglu" is silu(xW1) · xW3.
    """

    matrices: ClassVar[dict[str, int]] = {"inner.weight": 1, "outer.weight": 1}  # for Muon

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu") -> None:
        super().__init__()
        if activation not in get_args(Activation):
            raise ValueError(f"activation {activation!r} is not one of {', '.join(get_args(Activation))}")
        self.activation = activation
        self.inner = Linear(d_model, 2 * d_ff if activation == "swiglu" else d_ff)  # W1; for SwiGLU, W1 and W3
        self.outer = Linear(d_ff, d_model)  # W2
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        hidden = self.activate(self.inner(x))  # (B, T, F)
        if trace is not None:
            trace.record("hidden", hidden, kind="vector", axes=(trace.axes[0], "unit"))
        out: Tensor = self.outer(hidden)  # (B, T, D)
        return out

    def activate(self, inner: Tensor) -> Tensor:
        """(B, T, F) → (B, T, F); for SwiGLU (B, T, 2F) → (B, T, F)."""
        if self.activation == "relu":
            return F.relu(inner)
        if self.activation == "gelu":
            return F.gelu(inner)
        if self.activation == "silu":
            return F.silu(inner)
        gate, value = inner.chunk(2, dim=-1)
        return F.silu(gate) * value
