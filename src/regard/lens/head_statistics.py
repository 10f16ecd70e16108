"""Where heads attend, on average: how sharply, how far, to which neighbour, and to the end of the sentence.

B batch, H heads, T rows, S columns (pieces); I, J the same in words
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.lens.words import TokenizedText


class Statistics(NamedTuple):
    """One value per head (H,)."""

    entropy: Tensor  # in nats, of the weights over pieces
    distance: Tensor  # in words, mean |i - j|; in encoder–decoder attention i and j are positions in different texts
    previous: Tensor  # share on word i - 1
    same: Tensor  # share on word i
    next: Tensor  # share on word i + 1
    end: Tensor  # share on the end token; in the decoder's self-attention, which has none, on the begin token


class StatisticsSum(NamedTuple):
    """Statistics summed over rows, and the number of rows."""

    of_pieces: Tensor  # (H,): entropy
    of_words: Tensor  # (H, 5): the others
    n_pieces: int
    n_words: int

    def plus(self, other: StatisticsSum) -> StatisticsSum:
        return StatisticsSum(
            self.of_pieces + other.of_pieces,
            self.of_words + other.of_words,
            self.n_pieces + other.n_pieces,
            self.n_words + other.n_words,
        )

    def mean(self) -> Statistics:
        """Every row of every sentence has the same weight."""
        return Statistics(self.of_pieces / self.n_pieces, *(self.of_words / self.n_words).unbind(1))


def sum_statistics(
    weights: Tensor, rows: Sequence[TokenizedText], columns: Sequence[TokenizedText], is_edge: Tensor
) -> StatisticsSum:
    """Statistics of a padded batch of weights (B, H, T, S); `is_edge` (B, S) is True at the end or begin token."""
    real = _pad([torch.ones(len(text.pieces)) for text in rows])  # (B, T)
    entropy = torch.special.entr(weights).sum(-1)  # (B, H, T)
    row_words = _pad([torch.from_numpy(text.membership()) for text in rows])  # (B, I, T)
    column_words = _pad([torch.from_numpy(text.membership()) for text in columns])  # (B, J, S)
    n_pieces = row_words.sum(-1, keepdim=True)  # (B, I, 1): per word; 0 in the padding
    by_words = (row_words / n_pieces.clamp(min=1))[:, None] @ weights  # (B, H, I, S)
    words = by_words @ column_words.transpose(1, 2)[:, None]  # (B, H, I, J)
    offset = torch.arange(words.shape[3])[None] - torch.arange(words.shape[2])[:, None]  # (I, J): j - i
    factors = torch.stack([offset.abs(), offset == -1, offset == 0, offset == 1]).float()  # (4, I, J)
    shares = torch.einsum("bhij,nij->hn", words, factors)  # (H, 4)
    edge = torch.einsum("bhis,bs->h", by_words, is_edge.float())
    return StatisticsSum(
        (entropy * real[:, None]).sum((0, 2)),
        torch.cat([shares, edge[:, None]], 1),
        sum(len(text.pieces) for text in rows),
        sum(len(text.words) for text in rows),
    )


def _pad(tensors: Sequence[Tensor]) -> Tensor:
    """Stacks tensors of different sizes, padded with zeros."""
    shape = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    padded = torch.zeros(len(tensors), *shape)
    for row, tensor in zip(padded, tensors, strict=True):
        row[tuple(slice(size) for size in tensor.shape)] = tensor
    return padded
