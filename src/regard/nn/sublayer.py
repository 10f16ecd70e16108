"""The wrapping of every sub-layer (section 3.1): residual connection, dropout, layer normalisation."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.trace import Trace

Norm = Literal["post", "pre"]


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
