"""Attention (section 3.2): masks, three score functions, and multi-head attention.

Masks are called `visible` and are True where a query may see a key, as in torch's scaled_dot_product_attention.

Shapes: B batch, T queries, S keys, D d_model, H heads, K d_k
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.nn.linear import Linear, LinearPart
from regard.nn.state import KeyValues
from regard.nn.trace import Trace

AttentionKind = Literal["scaled_dot_product", "dot_product", "additive"]

# Up to this many keys, two batched matrix products are faster than torch's fused CPU kernel
# (5 times faster at 14 keys, equal at about 256).
MAX_UNFUSED_KEYS = 256


def padding_visible(ids: Tensor, pad_id: int) -> Tensor | None:
    """(B, S) ids → (B, 1, 1, S): every query sees every token except padding. None if nothing is padded."""
    not_padding = ids != pad_id  # (B, S)
    return None if bool(not_padding.all()) else not_padding[:, None, None, :]


def causal_visible(n_queries: int, n_keys: int | None = None, device: torch.device | None = None) -> Tensor:
    """(T, S): position t sees itself and all earlier positions (the mask of section 3.2.3).

    If there are more keys than queries, the queries are the last T positions and the other keys come from a cache.
    """
    n_keys = n_queries if n_keys is None else n_keys
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)


def dot_product_scores(q: Tensor, k: Tensor) -> Tensor:
    """QKᵀ. The variance of a score grows with d_k, and a softmax of large scores has almost no gradient.

    Divided by √d_k (equation 1), the variance is 1 for every d_k.
    """
    return q @ k.transpose(-1, -2)  # (B, H, T, K) @ (B, H, K, S) → (B, H, T, S)


def additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """vᵀ tanh(q + k): a network with one hidden layer (Bahdanau et al., 2015). q and k are already projected."""
    hidden = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))  # (B, H, T, S, K)
    return (hidden * v[:, None, None, :]).sum(-1)  # (B, H, T, S)


def attention_weights(scores: Tensor, visible: Tensor | None) -> Tensor:
    """Softmax over the keys. A masked score is −∞, so its weight is exactly 0."""
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return scores.softmax(-1)  # (B, H, T, S)


def fast_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, visible: Tensor | None, causal: bool) -> Tensor:
    """softmax(scale · QKᵀ)V, by the fastest kernel for this device and length: (B, H, T, K)."""
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    if causal and visible is None and n_queries == 1:
        causal = False  # the last position sees all keys
    if q.device.type != "cpu" or n_keys > MAX_UNFUSED_KEYS:
        if causal and (visible is not None or n_queries != n_keys):
            visible, causal = _add_causal_mask(visible, n_queries, n_keys, q.device), False
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, is_causal=causal, scale=scale)
    if causal:
        visible = _add_causal_mask(visible, n_queries, n_keys, q.device)
    flat_q, flat_k, flat_v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)  # (B·H, T or S, K)
    if visible is None:
        scores = torch.baddbmm(q.new_zeros(()), flat_q, flat_k.transpose(1, 2), beta=0, alpha=scale)  # (B·H, T, S)
    else:
        mask = torch.zeros(visible.shape, dtype=q.dtype, device=q.device).masked_fill_(~visible, float("-inf"))
        mask = mask.expand(q.shape[0], q.shape[1], n_queries, n_keys).flatten(0, 1)  # (B·H, T, S)
        scores = torch.baddbmm(mask, flat_q, flat_k.transpose(1, 2), alpha=scale)  # (B·H, T, S)
    return torch.bmm(scores.softmax(-1), flat_v).view(q.shape[:-1] + v.shape[-1:])  # (B, H, T, K)


def _add_causal_mask(visible: Tensor | None, n_queries: int, n_keys: int, device: torch.device) -> Tensor:
    """(…, T, S): visible in both masks."""
    causal = causal_visible(n_queries, n_keys, device)  # (T, S)
    return causal[None, None] if visible is None else visible & causal


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: h heads in parallel, each with its own W_Q, W_K and W_V; concatenated, then multiplied by W_O.

    One module serves the three uses of section 3.2.3: `forward(x)` is self-attention in the encoder,
    `forward(x, causal=True)` masked self-attention in the decoder, and `forward(x, memory)` cross-attention, with
    queries from the decoder and keys and values from the encoder's output.
    """

    matrices: ClassVar[dict[str, int]] = {"qkv.weight": 3, "out.weight": 1}  # for Muon: how many each parameter stacks

    def __init__(self, d_model: int, n_heads: int, kind: AttentionKind = "scaled_dot_product") -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model ({d_model}) must be a multiple of n_heads ({n_heads})")
        if kind not in get_args(AttentionKind):
            raise ValueError(f"attention {kind!r} is not one of {', '.join(get_args(AttentionKind))}")
        self.d_model, self.n_heads, self.d_k = d_model, n_heads, d_model // n_heads
        self.kind = kind
        self.qkv = Linear(d_model, 3 * d_model)  # W_Q, W_K, W_V of all heads in one matrix
        self.out = Linear(d_model, d_model)  # W_O
        for weight in (*self.qkv.weight.split(d_model), self.out.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)
        if kind == "additive":
            self.energy = nn.Parameter(torch.empty(n_heads, self.d_k))  # v of vᵀ tanh(…), one per head
            nn.init.normal_(self.energy, std=self.d_k**-0.5)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        visible: Tensor | None = None,
        causal: bool = False,
        trace: Trace | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D): attention over `memory` (B, S, D), or over x if there is none."""
        q, kv = self.queries_keys_values(x) if memory is None else (self.queries(x), self.keys_values(memory))
        return self.attend(q, kv, visible, causal, trace)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, KeyValues]:
        """(B, T, D) → q, k, v, each (B, H, T, K), in one matrix product: for self-attention."""
        q, k, v = split_heads(self.qkv(x), 3, self.n_heads)
        return q, KeyValues(k, v)

    def queries(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, K)."""
        return split_heads(LinearPart(self.qkv.weight, self.qkv.bias, (0, self.d_model))(x), 1, self.n_heads)[0]

    def keys_values(self, memory: Tensor) -> KeyValues:
        """(B, S, D) → k, v, each (B, H, S, K)."""
        rows = (self.d_model, 3 * self.d_model)
        k, v = split_heads(LinearPart(self.qkv.weight, self.qkv.bias, rows)(memory), 2, self.n_heads)
        return KeyValues(k, v)

    def projections(self, head: int) -> dict[str, tuple[Tensor, Tensor]]:
        """W (D, K) and bias (K,) of one head's queries, keys and values: q = xW + bias."""
        rows = slice(head * self.d_k, (head + 1) * self.d_k)
        weights, biases = self.qkv.weight.split(self.d_model), self.qkv.bias.split(self.d_model)
        return {name: (w[rows].T, b[rows]) for name, w, b in zip("qkv", weights, biases, strict=True)}

    def attend(
        self,
        q: Tensor,
        kv: KeyValues,
        visible: Tensor | None = None,
        causal: bool = False,
        trace: Trace | None = None,
    ) -> Tensor:
        """Concat(head_1, …, head_h) W_O: queries (B, H, T, K), keys and values (B, H, S, K) → (B, T, D)."""
        heads = self.attend_per_head(q, kv, visible, causal, trace)  # (B, H, T, K)
        if trace is not None:
            trace.record("heads", heads, kind="vector", axes=("head", trace.axes[0], "unit"))
        concatenated = heads.transpose(1, 2).flatten(2)  # (B, T, H, K) → (B, T, D)
        out: Tensor = self.out(concatenated)
        return out

    def attend_per_head(
        self, q: Tensor, kv: KeyValues, visible: Tensor | None, causal: bool, trace: Trace | None = None
    ) -> Tensor:
        """(B, H, T, K): the output of each head, before W_O mixes them."""
        if trace is None and self.kind != "additive":
            return fast_attention(q, kv.k, kv.v, self._scale, visible, causal)
        return self._attend_step_by_step(q, kv, visible, causal, trace)

    def _attend_step_by_step(
        self, q: Tensor, kv: KeyValues, visible: Tensor | None, causal: bool, trace: Trace | None
    ) -> Tensor:
        """The same computation, one step of equation 1 at a time, so that a trace can record each of them."""
        if causal:
            visible = _add_causal_mask(visible, q.shape[-2], kv.k.shape[-2], q.device)
        scores = additive_scores(q, kv.k, self.energy) if self.kind == "additive" else dot_product_scores(q, kv.k)
        scaled = scores * self._scale  # (B, H, T, S)
        weights = attention_weights(scaled, visible)  # (B, H, T, S)
        if trace is not None:
            rows, columns = trace.axes[0], trace.axes[-1]
            trace.record("q", q, kind="vector", axes=("head", rows, "unit"))
            trace.record("k", kv.k, kind="vector", axes=("head", columns, "unit"))
            trace.record("v", kv.v, kind="vector", axes=("head", columns, "unit"))
            trace.record("scores", scores, kind="scores", axes=("head", rows, columns))
            trace.record("scaled", scaled, kind="scores", axes=("head", rows, columns))
            if visible is not None:
                mask = visible[(None,) * (4 - visible.dim())]
                trace.record("visible", mask, kind="mask", axes=("head", rows, columns))
            trace.record("weights", weights, kind="attention", axes=("head", rows, columns))
        return weights @ kv.v  # (B, H, T, S) @ (B, H, S, K) → (B, H, T, K)

    def ablated(
        self, heads_off: Collection[int] = (), scale: bool = True, sees_future: bool = False
    ) -> AblatedAttention:
        """The same weights with these heads set to zero, without scaling, or without the causal mask."""
        ablated = AblatedAttention.__new__(AblatedAttention)
        ablated.__dict__.update(self.__dict__)
        ablated.heads_off, ablated.sees_future = sorted(heads_off), sees_future
        if not scale and self.has_scale:
            ablated.kind = "dot_product"
        return ablated

    @property
    def has_scale(self) -> bool:
        """Whether scores are divided by √d_k."""
        return self.kind == "scaled_dot_product"

    @property
    def _scale(self) -> float:
        return float(self.d_k**-0.5) if self.has_scale else 1.0


class AblatedAttention(MultiHeadAttention):
    """Attention with some heads set to zero, without scaling, or without the causal mask."""

    heads_off: list[int]
    sees_future: bool

    def attend_per_head(
        self, q: Tensor, kv: KeyValues, visible: Tensor | None, causal: bool, trace: Trace | None = None
    ) -> Tensor:
        """(B, H, T, K), exactly zero where a head is off."""
        heads = super().attend_per_head(q, kv, visible, causal and not self.sees_future, trace)
        return heads.index_fill(1, torch.tensor(self.heads_off, device=heads.device), 0.0) if self.heads_off else heads


def split_heads(projected: Tensor, n: int, n_heads: int) -> tuple[Tensor, ...]:
    """(B, T, n·D) → n contiguous tensors of (B, H, T, K)."""
    unflattened: Tensor = projected.unflatten(-1, (n, n_heads, -1))  # (B, T, n, H, K)
    return _SplitHeads.apply(unflattened)  # type: ignore[no-untyped-call, no-any-return]


class _SplitHeads(torch.autograd.Function):
    """(B, T, n, H, K) → n contiguous tensors of (B, H, T, K). The backward pass copies each gradient only once."""

    @staticmethod
    def forward(ctx: Any, unflattened: Tensor) -> tuple[Tensor, ...]:
        return unflattened.permute(2, 0, 3, 1, 4).contiguous().unbind(0)  # (n, B, H, T, K) → n × (B, H, T, K)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        b, h, t, k = gradients[0].shape
        joined = gradients[0].new_empty(b, t, len(gradients), h, k)
        for i, gradient in enumerate(gradients):
            joined[:, :, i].copy_(gradient.transpose(1, 2))  # (B, T, H, K)
        return joined
