"""Attention with relative positions (Dai et al., 2019, section 3.3), in one direction or, as in XLNet, in both.

A score depends on how far a key is from its query, and not on where the two are in the text. So what was computed for
one segment of a text can serve the next segments as memory, although it is then at other positions.

Shapes: B batch, T queries, S keys (the last T are at the positions of the queries), P distances, D d_model, H heads,
K d_k
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.nn.attention import attention_weights, split_heads
from regard.nn.embedding import sinusoid
from regard.nn.linear import Linear, LinearPart
from regard.nn.state import KeyValues
from regard.nn.trace import Trace


class Distances(nn.Module):
    """Sinusoids of the distances from a query back to its keys; below 0 are keys after the query.

    As in the released code, all sines come before all cosines. The table grows when needed, and is not saved.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.table: Tensor
        self.register_buffer("table", self._sinusoids(128), persistent=False)

    def forward(self, n_queries: int, n_keys: int, both_directions: bool = False) -> Tensor:
        """(P, D): the distances S - 1 … -1, or with both directions S - 1 … -T, for `by_key`."""
        n_after = n_queries if both_directions else 1
        table = self.table  # read once: another thread may replace self.table
        if 2 * max(n_keys, n_after) > len(table):
            with torch.inference_mode(False):  # if the table grows in validation, training can still use it
                table = self._sinusoids(2 * max(n_keys, n_after)).to(table)
            self.table = table
        zero = len(table) // 2  # the row of distance 0
        return table[zero - n_keys + 1 : zero + 1 + n_after]

    def _sinusoids(self, n: int) -> Tensor:
        """(2n + 1, D): the distances n … -n."""
        waves = sinusoid(2 * n + 1, self.d_model, first=-n).flip(0)
        halves: Tensor = waves.unflatten(1, (-1, 2)).transpose(1, 2)  # (2n + 1, 2, D/2): even and odd columns
        return halves.flatten(1)


def by_key(by_distance: Tensor, n_keys: int) -> Tensor:
    """(…, T, P) → (…, T, S), the "relative shift": column p is the distance S - 1 - p, and P is at least S + 1.

    Query i and key j have the distance S - T + i - j, so row i has to move T - 1 - i columns to the left. Rows that are
    one value shorter, from the value T - 1 on, do so without a copy. Where a distance is missing, the result is
    another score, which must be masked.
    """
    n_queries, n_distances = by_distance.shape[-2:]
    flat = by_distance.flatten(-2)[..., n_queries - 1 : n_queries * n_distances - 1]
    rows: Tensor = flat.unflatten(-1, (n_queries, n_distances - 1))
    return rows[..., :n_keys]


def by_key_at(by_distance: Tensor, n_keys: int, positions: Tensor) -> Tensor:
    """(B, H, T, P) → (B, H, T, S), as `by_key`, for queries that stand anywhere among the last P - S keys.

    `positions` (B, T) is where, from 0; the distances are those of both directions.
    """
    first = by_distance.shape[-1] - n_keys - 1 - positions[:, None, :, None]  # (B, 1, T, 1) the column of key 0
    columns = first + torch.arange(n_keys, device=positions.device)
    return by_distance.gather(-1, columns.expand(*by_distance.shape[:-1], -1))


class ScoreBiases(nn.Module):
    """u and v: what every query looks for in addition, in the contents of the keys and in their distances."""

    def __init__(self, n_heads: int, d_k: int) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.empty(n_heads, d_k))
        self.v = nn.Parameter(torch.empty(n_heads, d_k))
        for bias in (self.u, self.v):
            nn.init.normal_(bias, std=0.02)


class RelativeAttention(nn.Module):
    """Multi-head attention with the score ((q + u) · k + (q + v) · W_R R) / √d_k, where R encodes the distance.

    Transformer-XL has the same `biases` in every layer, XLNet has its own in each. Queries and keys can come from
    different vectors: `queries`, `keys_values` and `encode` compute what `attend` takes.
    """

    matrices: ClassVar[dict[str, int]] = {"qkv.weight": 3, "distance.weight": 1, "out.weight": 1}  # for Muon

    def __init__(self, d_model: int, n_heads: int, biases: ScoreBiases | None = None) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model ({d_model}) must be a multiple of n_heads ({n_heads})")
        self.d_model, self.n_heads, self.d_k = d_model, n_heads, d_model // n_heads
        self.qkv = Linear(d_model, 3 * d_model, bias=False)  # W_Q, W_K and W_V of all heads
        self.distance = Linear(d_model, d_model, bias=False)  # W_R
        self.out = Linear(d_model, d_model, bias=False)  # W_O
        for weight in (*self.qkv.weight.split(d_model), self.distance.weight, self.out.weight):
            nn.init.xavier_uniform_(weight)
        self.biases = ScoreBiases(n_heads, self.d_k) if biases is None else biases

    def queries(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, K)."""
        return split_heads(LinearPart(self.qkv.weight, rows=(0, self.d_model))(x), 1, self.n_heads)[0]

    def keys_values(self, x: Tensor) -> KeyValues:
        """(B, S, D) → k, v, each (B, H, S, K)."""
        projected = LinearPart(self.qkv.weight, rows=(self.d_model, 3 * self.d_model))(x)
        return KeyValues(*split_heads(projected, 2, self.n_heads))

    def encode(self, distances: Tensor) -> Tensor:
        """(P, D) → W_R R (H, P, K)."""
        return split_heads(self.distance(distances)[None], 1, self.n_heads)[0][0]

    def attend(
        self,
        q: Tensor,
        kv: KeyValues,
        encoded: Tensor,
        visible: Tensor | None = None,
        extra: Tensor | None = None,
        positions: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """(B, H, T, K), (B, H, S, K), (H, P, K) → (B, T, D).

        `visible` (…, T, S) is True where a query may see a key, and shows each query at least one. `extra` (B, H, T, S)
        is added to the scores: the segments of XLNet. `positions` (B, T) are those of the queries, if they are not the
        last T keys, as in `by_key_at`.
        """
        scale = self.d_k**-0.5
        u, v = self.biases.u[:, None], self.biases.v[:, None]  # (H, 1, K)
        position = _of_positions((q + v) * scale, encoded, kv, positions)  # (B, H, T, S)
        scores = ((q + u) * scale) @ kv.k.transpose(-1, -2) + position  # (B, H, T, S)
        if extra is not None:
            scores = scores + extra * scale
        weights = attention_weights(scores, visible)
        if trace is not None:
            self._record(trace, q, kv, encoded, positions)
            trace.record("scaled", scores, kind="scores", axes=("head", *trace.axes))
            if visible is not None:
                trace.record("visible", visible[(None,) * (4 - visible.dim())], kind="mask", axes=("head", *trace.axes))
            trace.record("weights", weights, kind="attention", axes=("head", *trace.axes))
        heads = weights @ kv.v  # (B, H, T, S) @ (B, H, S, K) → (B, H, T, K)
        out: Tensor = self.out(heads.transpose(1, 2).flatten(2))  # (B, T, H, K) → (B, T, D)
        return out

    def _record(self, trace: Trace, q: Tensor, kv: KeyValues, encoded: Tensor, positions: Tensor | None) -> None:
        """The four terms of a score (equation 5 of the paper)."""
        axes, scale = ("head", *trace.axes), self.d_k**-0.5
        u, v = (bias[:, None].expand_as(q) for bias in (self.biases.u, self.biases.v))
        for name, content, position in (("query", q, q), ("bias", u, v)):
            by_position = _of_positions(position * scale, encoded, kv, positions)
            trace.record(f"content_{name}", content * scale @ kv.k.transpose(-1, -2), kind="scores", axes=axes)
            trace.record(f"position_{name}", by_position, kind="scores", axes=axes)


def _of_positions(q: Tensor, encoded: Tensor, kv: KeyValues, positions: Tensor | None) -> Tensor:
    """(B, H, T, K), (H, P, K) → (B, H, T, S): the part of the scores that depends on where queries and keys are."""
    by_distance, n_keys = torch.einsum("bhtk,hpk->bhtp", q, encoded), kv.k.shape[2]
    return by_key(by_distance, n_keys) if positions is None else by_key_at(by_distance, n_keys, positions)
