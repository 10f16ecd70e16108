"""The best continuations of a beam, found without sorting a vocabulary.

B batch, W hypotheses a sentence, V vocabulary, G groups, N candidates
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_GROUP = 16  # symbols that share one maximum
_PLAIN_BELOW = 1024  # smaller vocabularies are quicker to look through at once


def best_candidates(scores: Tensor, log_probs: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """(B, W) + (B, W, V) → the N highest sums (B, N), highest first, and their places in W·V.

    Where W·V is less than N, the rest is −∞.
    """
    n_symbols = log_probs.shape[-1]
    if n_symbols < _PLAIN_BELOW or n > n_symbols // _GROUP:
        sums = (scores[..., None] + log_probs).flatten(1)  # (B, W·V)
        found, places = sums.topk(min(n, sums.shape[1]))
    else:
        found, places = _by_groups(scores, log_probs, n)
    missing = n - found.shape[1]
    if missing:
        found, places = F.pad(found, (0, missing), value=float("-inf")), F.pad(places, (0, missing))
    return found, places


def _by_groups(scores: Tensor, log_probs: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The same by groups of symbols: the N best symbols stand in the N groups with the highest maxima.

    A group is every G-th symbol, so that the maxima are taken over whole stretches of memory.
    """
    n_symbols = log_probs.shape[-1]
    n_groups = n_symbols // _GROUP
    whole = n_groups * _GROUP
    maxima = log_probs[..., :whole].unflatten(-1, (_GROUP, n_groups)).amax(-2)  # (B, W, G)
    rest = n_symbols - whole  # fewer than a group: one symbol more for the first groups
    if rest:
        maxima[..., :rest] = torch.maximum(maxima[..., :rest], log_probs[..., whole:])
    groups = (scores[..., None] + maxima).flatten(1).topk(n).indices  # (B, N)
    row, group = groups // n_groups, groups % n_groups
    symbols = group[..., None] + n_groups * torch.arange(_GROUP + 1, device=groups.device)  # (B, N, 17)
    inside = symbols < n_symbols
    places = row[..., None] * n_symbols + symbols.clamp(max=n_symbols - 1)  # (B, N, 17)
    sums = log_probs.flatten(1).gather(1, places.flatten(1)).view_as(places) + scores.gather(1, row)[..., None]
    found, at = sums.masked_fill(~inside, float("-inf")).flatten(1).topk(n)
    return found, places.flatten(1).gather(1, at)
