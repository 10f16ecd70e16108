"""Factorised attention (Child et al., 2019, sections 4.3 and 5.2): every position sees about √n others, in one pattern.

The positions are cut into blocks of `stride`. Both patterns are the paper's merged form: every head sees the union of
the two sets of positions that the paper calls A1 and A2, in one softmax. No score is computed but those of the blocks
involved, by batched products of reshaped queries and keys.

Shapes: B batch, T queries, S keys, H heads, K d_k, L stride, C summary, M blocks of keys, Q blocks of queries
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.attention import MultiHeadAttention, fast_attention
from regard.nn.state import KeyValues
from regard.nn.trace import Trace

PatternName = Literal["full", "strided", "fixed"]


@dataclass(frozen=True)
class Pattern(ABC):
    """Which earlier positions a position sees."""

    stride: int

    @abstractmethod
    def sees(self, i: Tensor, j: Tensor) -> Tensor:
        """True where position i sees position j; i and j are broadcast."""

    @abstractmethod
    def n_scores(self, n: int) -> int:
        """How many scores a head computes for n > 1 positions, those that are masked included."""

    def path(self, n: int) -> int:
        """How many layers connect the two positions of n that are farthest from each other."""
        return 1 if n <= self.stride else 2

    @abstractmethod
    def attend(self, q: Tensor, kv: KeyValues, scale: float) -> Tensor:
        """(B, H, T, K): attention of the last T of S positions, the same as under the mask of `sees`."""

    def _blocks(self, q: Tensor, kv: KeyValues) -> tuple[Tensor, Tensor, Tensor]:
        """(B, H, T, K), (B, H, S, K) → (B, H, Q, L, K), and keys and values (B, H, 1 + M, L, K).

        The first block of keys is empty, and the last is filled up. No query sees that.
        """
        n_queries, n_keys, size = q.shape[2], kv.k.shape[2], self.stride
        after = -n_keys % size
        q = F.pad(q, (0, 0, (n_keys - n_queries) % size, after)).unflatten(2, (-1, size))
        k, v = (F.pad(x, (0, 0, size, after)).unflatten(2, (-1, size)) for x in kv)
        return q, k, v

    def _positions(self, out: Tensor, n_queries: int, n_keys: int) -> Tensor:
        """(B, H, Q, L, K) → (B, H, T, K)."""
        first = (n_keys - n_queries) % self.stride
        return out.flatten(2, 3)[:, :, first : first + n_queries]


@dataclass(frozen=True)
class Strided(Pattern):
    """The last `stride` positions, itself included, and before them every position at a multiple of the stride."""

    def sees(self, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & ((i - j < self.stride) | ((i - j) % self.stride == 0))

    def n_scores(self, n: int) -> int:
        n_blocks = -(-n // self.stride)
        return n_blocks * self.stride * (2 * self.stride + n_blocks - 1)

    def attend(self, q: Tensor, kv: KeyValues, scale: float) -> Tensor:
        blocks, k, v = self._blocks(q * scale, kv)
        n_blocks, size = blocks.shape[2], self.stride
        own, before = slice(-n_blocks, None), slice(-n_blocks - 1, -1)
        columns, k_columns, v_columns = (x.transpose(2, 3) for x in (blocks, k[:, :, 1:-1], v[:, :, 1:-1]))
        window = [blocks @ k[:, :, part].transpose(-1, -2) for part in (before, own)]  # 2 × (B, H, Q, L, L)
        column = columns @ k_columns.transpose(-1, -2)  # (B, H, L, Q, M - 1)
        weights = _softmax([*window, column.transpose(2, 3)], self._visible(n_blocks, k.shape[2] - 1, q.device))
        w_before, w_own, w_column = weights.split([size, size, k_columns.shape[3]], dim=-1)
        out = w_before @ v[:, :, before] + w_own @ v[:, :, own]  # (B, H, Q, L, K)
        out = out + (w_column.transpose(2, 3) @ v_columns).transpose(2, 3)
        return self._positions(out, q.shape[2], kv.k.shape[2])

    def _visible(self, n_blocks: int, n_key_blocks: int, device: torch.device) -> Tensor:
        """(Q, L, 2L + M - 1): the block before, the own block, and the same place in each block before."""
        place = torch.arange(self.stride, device=device)
        block = torch.arange(n_key_blocks - n_blocks, n_key_blocks, device=device)
        own = place <= place[:, None]  # (L, L)
        before = ~own & (block > 0)[:, None, None]  # (Q, L, L)
        column = torch.arange(n_key_blocks - 1, device=device) < block[:, None, None]  # (Q, 1, M - 1)
        return torch.cat([before, own.expand_as(before), column.expand(-1, self.stride, -1)], dim=-1)


@dataclass(frozen=True)
class Fixed(Pattern):
    """The own block so far, and of every earlier block the last `summary` positions, which sum it up."""

    summary: int

    def sees(self, i: Tensor, j: Tensor) -> Tensor:
        is_summary = j % self.stride >= self.stride - self.summary
        return (j <= i) & ((i // self.stride == j // self.stride) | is_summary)

    def n_scores(self, n: int) -> int:
        n_blocks = -(-n // self.stride)
        return n_blocks * self.stride * (self.stride + (n_blocks - 1) * self.summary)

    def attend(self, q: Tensor, kv: KeyValues, scale: float) -> Tensor:
        blocks, k, v = self._blocks(q * scale, kv)
        n_blocks = blocks.shape[2]
        k_own, v_own = k[:, :, -n_blocks:], v[:, :, -n_blocks:]
        k_summary, v_summary = (x[:, :, 1:-1, -self.summary :].flatten(2, 3) for x in (k, v))  # (B, H, (M - 1)·C, K)
        own = blocks @ k_own.transpose(-1, -2)  # (B, H, Q, L, L)
        summary = (blocks.flatten(2, 3) @ k_summary.transpose(-1, -2)).unflatten(2, (n_blocks, -1))
        weights = _softmax([own, summary], self._visible(n_blocks, k.shape[2] - 1, q.device))
        w_own, w_summary = weights.split([self.stride, k_summary.shape[2]], dim=-1)
        out = w_own @ v_own + (w_summary.flatten(2, 3) @ v_summary).unflatten(2, (n_blocks, -1))  # (B, H, Q, L, K)
        return self._positions(out, q.shape[2], kv.k.shape[2])

    def _visible(self, n_blocks: int, n_key_blocks: int, device: torch.device) -> Tensor:
        """(Q, L, L + (M - 1)·C): the own block, and the summaries of the blocks before."""
        block = torch.arange(n_key_blocks - n_blocks, n_key_blocks, device=device)
        own = torch.ones(self.stride, self.stride, dtype=torch.bool, device=device).tril()  # (L, L)
        of = torch.arange(n_key_blocks - 1, device=device).repeat_interleave(self.summary)  # ((M - 1)·C,)
        summary = (of < block[:, None])[:, None].expand(-1, self.stride, -1)
        return torch.cat([own.expand(n_blocks, -1, -1), summary], dim=-1)


def _softmax(scores: list[Tensor], visible: Tensor) -> Tensor:
    """(B, H, Q, L, keys) of several sets of keys, joined → weights."""
    return torch.cat(scores, dim=-1).masked_fill_(~visible, float("-inf")).softmax(-1)


class SparseAttention(MultiHeadAttention):
    """Masked self-attention in a pattern. Traced, it is computed under the mask instead, which the trace then shows."""

    def __init__(self, d_model: int, n_heads: int, pattern: Pattern) -> None:
        super().__init__(d_model, n_heads)
        self.pattern = pattern

    def attend_per_head(
        self, q: Tensor, kv: KeyValues, visible: Tensor | None, causal: bool, trace: Trace | None = None
    ) -> Tensor:
        """(B, H, T, K): the queries are the last T positions."""
        n_queries, positions = q.shape[2], torch.arange(kv.k.shape[2], device=q.device)
        if trace is not None:
            visible = self.pattern.sees(positions[-n_queries:, None], positions)
            return super().attend_per_head(q, kv, visible, False, trace)
        if n_queries > 1:
            return self.pattern.attend(q, kv, self._scale)
        seen = self.pattern.sees(positions[-1], positions).nonzero()[:, 0]  # a step: only these keys are read
        k, v = (x.index_select(2, seen) for x in kv)
        return fast_attention(q, k, v, self._scale, None, False)
