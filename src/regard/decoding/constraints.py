"""What may not come next. A constraint writes −∞ into log-probabilities; nothing is normalised again,
so that the score of an output stays what the model says of it.

R rows (sentences, or their beams), T symbols so far, V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.decoding.options import DecodingOptions
from regard.decoding.search_batch import FREE

# (R, V) log-probabilities, changed in place; (R, T) symbols so far, prefix and all, without begin
Constraint = Callable[[Tensor, Tensor], None]

_NEG_INF = float("-inf")


def min_length(n_symbols: int, end_id: int) -> Constraint:
    """No end before so many symbols."""

    def forbid(log_probs: Tensor, history: Tensor) -> None:
        if history.shape[1] < n_symbols:
            log_probs[:, end_id] = _NEG_INF

    return forbid


def no_repeat_ngram(n: int) -> Constraint:
    """No run of n symbols twice."""

    def forbid(log_probs: Tensor, history: Tensor) -> None:
        if history.shape[1] < n:
            return
        runs = history.unfold(1, n, 1)  # (R, T - n + 1, n)
        begun = history[:, history.shape[1] - n + 1 :]  # (R, n - 1): what a run of n would go on from
        seen = (runs[:, :, :-1] == begun[:, None]).all(-1)  # (R, T - n + 1)
        rows, places = seen.nonzero(as_tuple=True)
        log_probs[rows, runs[rows, places, -1]] = _NEG_INF

    return forbid


def banned(ids: Sequence[int]) -> Constraint:
    """These symbols never come."""
    columns = torch.tensor(list(ids), dtype=torch.long)

    def forbid(log_probs: Tensor, history: Tensor) -> None:
        log_probs[:, columns.to(log_probs.device)] = _NEG_INF

    return forbid


def make_constraints(options: DecodingOptions, end_id: int) -> list[Constraint]:
    """The constraints that the options ask for; mostly none."""
    asked: list[Constraint] = []
    if options.min_length:
        asked.append(min_length(options.min_length, end_id))
    if options.no_repeat_ngram:
        asked.append(no_repeat_ngram(options.no_repeat_ngram))
    if options.banned:
        asked.append(banned(options.banned))
    return asked


def apply_constraints(
    log_probs: Tensor, history: Tensor, constraints: Sequence[Constraint], forced: Tensor | None, end_id: int
) -> Tensor:
    """(R, V) → (R, V) with −∞ where a symbol may not come.

    A row that nothing may follow ends there. A forced symbol (R,) comes whatever else is forbidden.
    """
    free = log_probs
    if constraints:
        log_probs = log_probs.clone()
        for forbid in constraints:
            forbid(log_probs, history)
        stuck = log_probs.amax(-1) == _NEG_INF  # (R,)
        log_probs[stuck, end_id] = free[stuck, end_id]
    if forced is not None:
        asked = forced.clamp(min=0)[:, None]  # (R, 1)
        only = torch.full_like(free, _NEG_INF).scatter_(1, asked, free.gather(1, asked))
        log_probs = torch.where((forced != FREE)[:, None], only, log_probs)
    return log_probs
