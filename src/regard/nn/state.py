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
        return KeyValues(self.k[rows], self.v[rows])
