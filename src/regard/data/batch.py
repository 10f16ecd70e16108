"""Pairs of id sequences → one padded batch.

B batch, S source length, T target length; both lengths include eos or bos.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = Sequence[int] | NDArray[np.integer]  # of one sentence


@dataclass(frozen=True, eq=False)
class Batch:
    """A training batch: padded ids, with the target once as decoder input and once, shifted, as labels."""

    src: Tensor  # (B, S) int64, each row ends with eos, then padding
    tgt_in: Tensor  # (B, T) int64, each row starts with bos
    tgt_out: Tensor  # (B, T) int64, each row ends with eos: tgt_in shifted left by one
    n_tokens: int  # target tokens including eos, without padding
    indices: NDArray[np.int64]  # (B,) positions of the pairs in the store

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return replace(
            self,
            src=self.src.to(device, non_blocking=True),
            tgt_in=self.tgt_in.to(device, non_blocking=True),
            tgt_out=self.tgt_out.to(device, non_blocking=True),
        )


def collate(
    pairs: Sequence[tuple[Ids, Ids]],
    *,
    pad_id: int,
    bos_id: int,
    eos_id: int,
    indices: NDArray[np.integer] | None = None,
) -> Batch:
    """Pad pairs of (source ids, target ids), without bos and eos, on the right into one batch.

    `indices` are the positions of the pairs in their store; by default they count from 0.
    """
    sources, targets = zip(*pairs, strict=True)
    src, _ = _padded(sources, pad_id=pad_id, eos_id=eos_id)
    tgt_out, lengths = _padded(targets, pad_id=pad_id, eos_id=eos_id)
    tgt_in = np.empty_like(tgt_out)
    tgt_in[:, 0] = bos_id
    inside = np.arange(tgt_out.shape[1] - 1) < lengths[:, None]  # (B, T - 1); without the eos of each row
    tgt_in[:, 1:] = np.where(inside, tgt_out[:, :-1], pad_id)
    return Batch(
        src=torch.from_numpy(src),
        tgt_in=torch.from_numpy(tgt_in),
        tgt_out=torch.from_numpy(tgt_out),
        n_tokens=int(lengths.sum()) + len(pairs),
        indices=np.arange(len(pairs)) if indices is None else indices.astype(np.int64),
    )


def _padded(rows: Sequence[Ids], *, pad_id: int, eos_id: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows with eos in a (B, longest + 1) array, and their lengths (B,) without eos."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    padded = np.full((len(rows), int(lengths.max()) + 1), pad_id, dtype=np.int64)
    inside = np.arange(padded.shape[1]) < lengths[:, None]  # (B, longest + 1)
    padded[inside] = np.concatenate(rows, dtype=np.int64, casting="unsafe")
    padded[np.arange(len(rows)), lengths] = eos_id
    return padded, lengths
