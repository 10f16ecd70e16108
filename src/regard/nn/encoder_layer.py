"""A layer of an encoder (section 3.1): the Transformer's encoder and every encoder without a decoder are made of it.

Shapes: B batch, S length, D d_model
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.nn.attention import AttentionKind, MultiHeadAttention
from regard.nn.sublayer import Activation, FeedForward, Norm, Residual
from regard.nn.trace import Trace, at


class EncoderLayer(nn.Module):
    """Section 3.1, encoder: self-attention, then feed-forward."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        n_heads: int,
        dropout: float,
        norm: Norm = "post",
        activation: Activation = "relu",
        attention: AttentionKind = "scaled_dot_product",
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads, attention)
        self.feed_forward = FeedForward(d_model, d_ff, activation)
        self.residuals = nn.ModuleList(Residual(d_model, dropout, norm) for _ in range(2))

    def forward(self, x: Tensor, visible: Tensor | None, trace: Trace | None = None) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        self_trace, ff_trace = at(trace, "self_attention"), at(trace, "feed_forward")
        x = self.residuals[0](x, lambda y: self.self_attention(y, visible=visible, trace=self_trace), self_trace)
        x = self.residuals[1](x, lambda y: self.feed_forward(y, ff_trace), ff_trace)
        return x
