"""Pairs of id sequences → one padded batch.

B batch, S source length, T target length; both lengths include eos or bos.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import NO_TARGET, OUTSIDE_TRAINING, Batch, Place
from regard.data.random_key import random_key
from regard.data.shards import ShardedStore
from regard.data.store import TokenStore

Ids = Sequence[int] | NDArray[np.integer]  # of one sentence
Resample = Callable[[list[list[int]], int], list[list[int]]]  # (sentences, seed) → the same in other sub-words


@dataclass(frozen=True, kw_only=True)
class PairCollator:
    """Batches of a token store, with sub-word sampling if there is any."""

    store: TokenStore | ShardedStore
    pad_id: int
    bos_id: int
    eos_id: int
    resample_source: Resample | None = None  # None uses the stored ids
    resample_target: Resample | None = None

    def __call__(self, indices: NDArray[np.integer], place: Place) -> Batch:
        sources: Sequence[Ids]
        targets: Sequence[Ids]
        sources, targets = self.store.gather(indices)
        sources = self._resampled(sources, self.resample_source, place, "source")
        targets = self._resampled(targets, self.resample_target, place, "target")
        ids = {"pad_id": self.pad_id, "bos_id": self.bos_id, "eos_id": self.eos_id}
        return collate_pairs(list(zip(sources, targets, strict=True)), **ids, indices=indices, place=place)

    def _resampled(self, sentences: Sequence[Ids], resample: Resample | None, place: Place, side: str) -> Sequence[Ids]:
        """Sentences in other sub-words; those that would become too long for the model are unchanged."""
        if resample is None:
            return sentences
        stored = [[int(token) for token in sentence] for sentence in sentences]
        sampled = resample(stored, random_key(place.seed, "sub-words", place.epoch, place.index, side))
        longest = self.store.meta.max_length
        return [new if 0 < len(new) <= longest else old for old, new in zip(stored, sampled, strict=True)]


def collate_pairs(
    pairs: Sequence[tuple[Ids, Ids]],
    *,
    pad_id: int,
    bos_id: int,
    eos_id: int,
    indices: NDArray[np.integer] | None = None,
    place: Place = OUTSIDE_TRAINING,
) -> Batch:
    """Pad pairs of (source ids, target ids), without bos and eos, on the right into one batch.

    Inputs: the source (B, S), each row ending with eos, and the target (B, T), each row starting with bos. Targets: the
    target (B, T) shifted left by one, each row ending with eos. By default `indices` count from 0.
    """
    sources, targets = zip(*pairs, strict=True)
    src, _ = _padded(sources, pad_id=pad_id, eos_id=eos_id)
    tgt_out, lengths = _padded(targets, pad_id=NO_TARGET, eos_id=eos_id)
    tgt_in = np.empty_like(tgt_out)
    tgt_in[:, 0] = bos_id
    inside = np.arange(tgt_out.shape[1] - 1) < lengths[:, None]  # (B, T - 1); without the eos of each row
    tgt_in[:, 1:] = np.where(inside, tgt_out[:, :-1], pad_id)
    return Batch(
        inputs=(torch.from_numpy(src), torch.from_numpy(tgt_in)),
        targets=(torch.from_numpy(tgt_out),),
        n_targets=(int(lengths.sum()) + len(pairs),),
        place=place,
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
