"""Where heads look, on average: sharply or all over, near or far, at a neighbour, at the symbol that ends a sentence.

B batch, H heads, T rows, S columns (pieces); I, J the same in words
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.lens.words import Side


class Statistics(NamedTuple):
    """Of each head (H,)."""

    entropy: Tensor  # in nats, of the weights as they are: over pieces
    distance: Tensor  # in words, |i - j| weighted; over the source, too, both counted from the beginning
    previous: Tensor  # share on word i - 1
    same: Tensor  # on word i
    next: Tensor  # on word i + 1
    end: Tensor  # on the end symbol; in the decoder's own attention, which has none, on the begin symbol


class Sum(NamedTuple):
    """Statistics added up over rows, and how many rows there were."""

    of_pieces: Tensor  # (H,): entropy
    of_words: Tensor  # (H, 5): the others
    n_pieces: int
    n_words: int

    def plus(self, other: Sum) -> Sum:
        return Sum(
            self.of_pieces + other.of_pieces,
            self.of_words + other.of_words,
            self.n_pieces + other.n_pieces,
            self.n_words + other.n_words,
        )

    def mean(self) -> Statistics:
        """Every row of every sentence counts the same."""
        return Statistics(self.of_pieces / self.n_pieces, *(self.of_words / self.n_words).unbind(1))


def sum_up(weights: Tensor, rows: Sequence[Side], columns: Sequence[Side], resting: Tensor) -> Sum:
    """Statistics of a padded batch of weights (B, H, T, S); `resting` (B, S) is true at the end or begin symbol."""
    real = _padded([torch.ones(len(side.pieces)) for side in rows])  # (B, T)
    entropy = torch.special.entr(weights).sum(-1)  # (B, H, T)
    row_members = _padded([torch.from_numpy(side.members()) for side in rows])  # (B, I, T)
    column_members = _padded([torch.from_numpy(side.members()) for side in columns])  # (B, J, S)
    n_pieces = row_members.sum(-1, keepdim=True)  # (B, I, 1): of each word; 0 where a shorter sentence has ended
    by_words = (row_members / n_pieces.clamp(min=1))[:, None] @ weights  # (B, H, I, S)
    words = by_words @ column_members.transpose(1, 2)[:, None]  # (B, H, I, J)
    apart = torch.arange(words.shape[3])[None] - torch.arange(words.shape[2])[:, None]  # (I, J): j - i
    chosen = torch.stack([apart.abs(), apart == -1, apart == 0, apart == 1]).float()  # (4, I, J)
    shares = torch.einsum("bhij,nij->hn", words, chosen)  # (H, 4)
    rest = torch.einsum("bhis,bs->h", by_words, resting.float())
    return Sum(
        (entropy * real[:, None]).sum((0, 2)),
        torch.cat([shares, rest[:, None]], 1),
        sum(len(side.pieces) for side in rows),
        sum(len(side.words) for side in rows),
    )


def _padded(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of different sizes in one, zeros behind each."""
    shape = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    together = torch.zeros(len(tensors), *shape)
    for whole, tensor in zip(together, tensors, strict=True):
        whole[tuple(slice(size) for size in tensor.shape)] = tensor
    return together
