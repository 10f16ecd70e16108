"""The best continuations of a beam, without sorting the whole vocabulary.

Shapes: B batch, W hypotheses per sentence, V vocabulary, G groups, N candidates
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_GROUP_SIZE = 16  # tokens per group
_MIN_GROUPED = 1024  # for a smaller vocabulary, a plain topk is faster


def best_candidates(scores: Tensor, log_probs: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """(B, W) + (B, W, V) → the N highest sums (B, N), highest first, and their indices into W·V.

    If there are fewer than N sums, the rest are −∞.
    """
    vocab_size = log_probs.shape[-1]
    if vocab_size < _MIN_GROUPED or n > vocab_size // _GROUP_SIZE:
        sums = (scores[..., None] + log_probs).flatten(1)  # (B, W·V)
        best, indices = sums.topk(min(n, sums.shape[1]))
    else:
        best, indices = _best_by_groups(scores, log_probs, n)
    n_missing = n - best.shape[1]
    if n_missing:
        best, indices = F.pad(best, (0, n_missing), value=float("-inf")), F.pad(indices, (0, n_missing))
    return best, indices


def _best_by_groups(scores: Tensor, log_probs: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The same by groups of tokens: the N best tokens are in the N groups with the highest maxima.

    A group is every G-th token, so that the maxima are computed over contiguous memory.
    """
    vocab_size = log_probs.shape[-1]
    n_groups = vocab_size // _GROUP_SIZE
    n_grouped = n_groups * _GROUP_SIZE
    maxima = log_probs[..., :n_grouped].unflatten(-1, (_GROUP_SIZE, n_groups)).amax(-2)  # (B, W, G)
    n_rest = vocab_size - n_grouped  # the first groups get one token more
    if n_rest:
        maxima[..., :n_rest] = torch.maximum(maxima[..., :n_rest], log_probs[..., n_grouped:])
    best_groups = (scores[..., None] + maxima).flatten(1).topk(n).indices  # (B, N)
    row, group = best_groups // n_groups, best_groups % n_groups
    tokens = group[..., None] + n_groups * torch.arange(_GROUP_SIZE + 1, device=group.device)  # (B, N, 17)
    exists = tokens < vocab_size
    indices = row[..., None] * vocab_size + tokens.clamp(max=vocab_size - 1)  # (B, N, 17)
    sums = log_probs.flatten(1).gather(1, indices.flatten(1)).view_as(indices) + scores.gather(1, row)[..., None]
    best, positions = sums.masked_fill(~exists, float("-inf")).flatten(1).topk(n)  # (B, N·17) → (B, N)
    return best, indices.flatten(1).gather(1, positions)
