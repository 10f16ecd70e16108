"""Attention (section 3.2): three ways to score a query against a key, and the heads that use them.

B batch, T queries, S keys, D d_model, H heads, K d_k
"""

from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.nn.state import KeyValues
from regard.nn.trace import Trace

AttentionKind = Literal["scaled_dot_product", "dot_product", "additive"]

# Up to this many keys, plain batched products beat the fused CPU kernel (5 times at 14 keys; even at about 256).
FUSED_FROM = 256


def padding_visible(ids: Tensor, pad_id: int) -> Tensor | None:
    """(B, S) ids → (B, 1, 1, S): every query sees every real symbol; None when nothing is padded."""
    real = ids != pad_id
    return None if bool(real.all()) else real[:, None, None, :]


def causal_visible(n_queries: int, n_keys: int | None = None, device: torch.device | None = None) -> Tensor:
    """(T, S): position t sees itself and what came before (section 3.2.3, "masked").

    With more keys than queries the queries are the last positions, as when a cache holds the past.
    """
    n_keys = n_queries if n_keys is None else n_keys
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)


def dot_product_scores(q: Tensor, k: Tensor) -> Tensor:
    """q · k. The variance of a score grows with d_k, and a softmax of large numbers has no gradient."""
    return q @ k.transpose(-1, -2)  # (B, H, T, S)


def scaled_dot_product_scores(q: Tensor, k: Tensor) -> Tensor:
    """q · k / √d_k: variance 1 whatever d_k is (equation 1)."""
    return dot_product_scores(q, k) * float(k.shape[-1] ** -0.5)


def additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """vᵀ tanh(q + k), where q and k are already W_q q and W_k k: one hidden layer (Bahdanau et al., 2015)."""
    hidden = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))  # (B, H, T, S, K)
    return (hidden * v[:, None, None, :]).sum(-1)  # (B, H, T, S)


def attention_weights(scores: Tensor, visible: Tensor | None) -> Tensor:
    """Softmax over the keys; what may not be seen gets −∞ before, and so 0 after."""
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return scores.softmax(-1)  # (B, H, T, S)


def fast_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, visible: Tensor | None, causal: bool) -> Tensor:
    """softmax(scale · QKᵀ)V by the quickest means for the device and the length."""
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    if causal and visible is None and n_queries == 1:
        causal = False  # one query at the end of its cache sees everything
    if q.device.type != "cpu" or n_keys > FUSED_FROM:
        if causal and (visible is not None or n_queries != n_keys):
            visible, causal = _both(visible, n_queries, n_keys, q.device), False
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, is_causal=causal, scale=scale)
    if causal:
        visible = _both(visible, n_queries, n_keys, q.device)
    flat_q, flat_k, flat_v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)  # (B·H, T or S, K)
    if visible is None:
        scores = torch.baddbmm(q.new_zeros(()), flat_q, flat_k.transpose(1, 2), beta=0, alpha=scale)
    else:
        hide = torch.zeros(visible.shape, dtype=q.dtype, device=q.device).masked_fill_(~visible, float("-inf"))
        hide = hide.expand(q.shape[0], q.shape[1], n_queries, n_keys).flatten(0, 1)
        scores = torch.baddbmm(hide, flat_q, flat_k.transpose(1, 2), alpha=scale)  # (B·H, T, S)
    return torch.bmm(scores.softmax(-1), flat_v).view(q.shape[:-1] + v.shape[-1:])  # (B, H, T, K)


def _both(visible: Tensor | None, n_queries: int, n_keys: int, device: torch.device) -> Tensor:
    causal = causal_visible(n_queries, n_keys, device)
    return causal[None, None] if visible is None else visible & causal


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: h heads with their own W_Q, W_K, W_V, side by side, concatenated, then W_O.

    The three uses of section 3.2.3 are one module: `forward(x)` is the encoder's self-attention,
    `forward(x, causal=True)` the decoder's, `forward(x, memory)` takes queries from the decoder and
    keys and values from the encoder's output.
    """

    def __init__(self, d_model: int, n_heads: int, kind: AttentionKind = "scaled_dot_product") -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model ({d_model}) must be a multiple of n_heads ({n_heads})")
        if kind not in get_args(AttentionKind):
            raise ValueError(f"attention {kind!r} is not one of {', '.join(get_args(AttentionKind))}")
        self.d_model, self.n_heads, self.d_k = d_model, n_heads, d_model // n_heads
        self.kind = kind
        self.qkv = nn.Linear(d_model, 3 * d_model)  # W_Q, W_K, W_V of all heads: one product for all
        self.out = nn.Linear(d_model, d_model)  # W_O
        for weight in (*self.qkv.weight.split(d_model), self.out.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)
        if kind == "additive":
            self.energy = nn.Parameter(torch.empty(n_heads, self.d_k))  # v of vᵀ tanh(…), one a head
            nn.init.normal_(self.energy, std=self.d_k**-0.5)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        visible: Tensor | None = None,
        causal: bool = False,
        trace: Trace | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D); looks at `memory` (B, S, D), or at x itself."""
        q, looked_at = self.all_heads(x) if memory is None else (self.queries(x), self.keys_values(memory))
        return self.attend(q, looked_at, visible, causal, trace)

    def all_heads(self, x: Tensor) -> tuple[Tensor, KeyValues]:
        """(B, T, D) → q, and k with v, each (B, H, T, K): in one product, for attention of x over itself."""
        q, k, v = self._heads(self.qkv(x), 3)
        return q, KeyValues(k, v)

    def queries(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, K)."""
        return self._heads(F.linear(x, self.qkv.weight[: self.d_model], self.qkv.bias[: self.d_model]), 1)[0]

    def keys_values(self, memory: Tensor) -> KeyValues:
        """(B, S, D) → k, v, each (B, H, S, K): all that passes from the encoder to the decoder."""
        k, v = self._heads(F.linear(memory, self.qkv.weight[self.d_model :], self.qkv.bias[self.d_model :]), 2)
        return KeyValues(k, v)

    def attend(
        self,
        q: Tensor,
        memory: KeyValues,
        visible: Tensor | None = None,
        causal: bool = False,
        trace: Trace | None = None,
    ) -> Tensor:
        """Heads (B, H, T, K) over keys and values (B, H, S, K) → (B, T, D)."""
        heads = self.attend_per_head(q, memory, visible, causal, trace)
        if trace is not None:
            trace.record("heads", heads)
        joined = heads.transpose(1, 2).flatten(2)  # (B, T, D): the heads side by side
        out: Tensor = self.out(joined)
        return out

    def attend_per_head(
        self, q: Tensor, memory: KeyValues, visible: Tensor | None, causal: bool, trace: Trace | None = None
    ) -> Tensor:
        """(B, H, T, K): what each head brings back, before W_O mixes them."""
        if trace is None and self.kind != "additive":
            return fast_attention(q, memory.k, memory.v, self._scale, visible, causal)
        return self._attend_step_by_step(q, memory, visible, causal, trace)

    def _attend_step_by_step(
        self, q: Tensor, memory: KeyValues, visible: Tensor | None, causal: bool, trace: Trace | None
    ) -> Tensor:
        """The same computation as the paper writes it, each step where a trace can see it."""
        if causal:
            visible = _both(visible, q.shape[-2], memory.k.shape[-2], q.device)
        if self.kind == "additive":
            raw = additive_scores(q, memory.k, self.energy)
        else:
            raw = dot_product_scores(q, memory.k)
        scaled = raw * self._scale
        weights = attention_weights(scaled, visible)  # (B, H, T, S)
        if trace is not None:
            found = {"q": q, "k": memory.k, "v": memory.v, "scores": raw, "scaled": scaled, "weights": weights}
            if visible is not None:
                found["visible"] = visible
            for name, value in found.items():
                trace.record(name, value)
        return weights @ memory.v  # (B, H, T, K)

    @property
    def _scale(self) -> float:
        return float(self.d_k**-0.5) if self.kind == "scaled_dot_product" else 1.0

    def _heads(self, projected: Tensor, n: int) -> tuple[Tensor, ...]:
        """(B, T, n·D) → n tensors of (B, H, T, K), laid out for the products that follow."""
        split: Tensor = projected.unflatten(-1, (n, self.n_heads, self.d_k))  # (B, T, n, H, K)
        return _SplitHeads.apply(split)  # type: ignore[no-untyped-call, no-any-return]


class _SplitHeads(torch.autograd.Function):
    """(B, T, n, H, K) → n tensors of (B, H, T, K); the gradients find their way back with one copy each."""

    @staticmethod
    def forward(ctx: Any, split: Tensor) -> tuple[Tensor, ...]:
        return split.permute(2, 0, 3, 1, 4).contiguous().unbind(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        b, h, t, k = gradients[0].shape
        joined = gradients[0].new_empty(b, t, len(gradients), h, k)
        for place, gradient in enumerate(gradients):
            joined[:, :, place].copy_(gradient.transpose(1, 2))
        return joined
