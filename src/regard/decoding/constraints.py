"""Constraints on the next token. They set log-probabilities to −∞ and do not renormalise, so that the score of a
translation stays the model's own.

Shapes: R rows (sentences, or their beams), T tokens so far, V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.decoding.options import DecodingOptions
from regard.decoding.search_batch import FREE

# (R, V) log-probabilities, changed in place; (R, T) tokens so far, with the prefix but without the begin token
Constraint = Callable[[Tensor, Tensor], None]

_NEG_INF = float("-inf")


def min_length(n_tokens: int, end_id: int) -> Constraint:
    """No end token before `n_tokens` tokens."""

    def forbid(log_probs: Tensor, history: Tensor) -> None:
        if history.shape[1] < n_tokens:
            log_probs[:, end_id] = _NEG_INF

    return forbid


def no_repeat_ngram(n: int) -> Constraint:
    """No n-gram twice."""

    def forbid(log_probs: Tensor, history: Tensor) -> None:
        if history.shape[1] < n:
            return
        ngrams = history.unfold(1, n, 1)  # (R, T - n + 1, n)
        last = history[:, history.shape[1] - n + 1 :]  # (R, n - 1): the next token completes this n-gram
        matches = (ngrams[:, :, :-1] == last[:, None]).all(-1)  # (R, T - n + 1)
        rows, positions = matches.nonzero(as_tuple=True)
        log_probs[rows, ngrams[rows, positions, -1]] = _NEG_INF

    return forbid


def banned(ids: Sequence[int]) -> Constraint:
    """None of these tokens."""
    columns = torch.tensor(list(ids), dtype=torch.long)

    def forbid(log_probs: Tensor, history: Tensor) -> None:
        log_probs[:, columns.to(log_probs.device)] = _NEG_INF

    return forbid


def make_constraints(options: DecodingOptions, end_id: int) -> list[Constraint]:
    """The constraints of these options; usually none."""
    constraints: list[Constraint] = []
    if options.min_length:
        constraints.append(min_length(options.min_length, end_id))
    if options.no_repeat_ngram:
        constraints.append(no_repeat_ngram(options.no_repeat_ngram))
    if options.banned:
        constraints.append(banned(options.banned))
    return constraints


def apply_constraints(
    log_probs: Tensor, history: Tensor, constraints: Sequence[Constraint], forced: Tensor | None, end_id: int
) -> Tensor:
    """(R, V) → (R, V) with −∞ for forbidden tokens.

    If all tokens are forbidden, the end token is allowed. A forced token (R,) is allowed despite all constraints.
    """
    unconstrained = log_probs
    if constraints:
        log_probs = log_probs.clone()
        for forbid in constraints:
            forbid(log_probs, history)
        stuck = log_probs.amax(-1) == _NEG_INF  # (R,)
        log_probs[stuck, end_id] = unconstrained[stuck, end_id]
    if forced is not None:
        tokens = forced.clamp(min=0)[:, None]  # (R, 1)
        only_forced = torch.full_like(unconstrained, _NEG_INF).scatter_(1, tokens, unconstrained.gather(1, tokens))
        log_probs = torch.where((forced != FREE)[:, None], only_forced, log_probs)
    return log_probs
