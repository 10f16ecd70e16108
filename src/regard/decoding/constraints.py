"""Constraints on the next token. They set log-probabilities to −∞ and do not renormalise, so that the score of a
translation stays the model's own.

Shapes: R rows (sentences, or their beams), T tokens so far, V vocabulary
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.decoding.options import DecodingOptions
from regard.decoding.search_batch import FREE

_NEG_INF = float("-inf")


def apply_constraints(
    log_probs: Tensor, history: Tensor, options: DecodingOptions, forced: Tensor | None, end_id: int
) -> Tensor:
    """(R, V) → (R, V) with −∞ for forbidden tokens, after the tokens (R, T) so far, without the begin token.

    If all tokens are forbidden, the end token is allowed. A forced token (R,) is allowed despite all constraints.
    """
    allowed = log_probs
    if options.is_constrained:
        allowed = log_probs.clone()
        if history.shape[1] < options.min_length:
            allowed[:, end_id] = _NEG_INF
        if 0 < options.no_repeat_ngram <= history.shape[1]:
            _forbid_repeated_ngrams(allowed, history, options.no_repeat_ngram)
        if options.banned:
            allowed[:, list(options.banned)] = _NEG_INF
        stuck = allowed.amax(-1) == _NEG_INF  # (R,)
        allowed[stuck, end_id] = log_probs[stuck, end_id]
    if forced is not None:
        tokens = forced.clamp(min=0)[:, None]  # (R, 1)
        only_forced = torch.full_like(log_probs, _NEG_INF).scatter_(1, tokens, log_probs.gather(1, tokens))
        allowed = torch.where((forced != FREE)[:, None], only_forced, allowed)
    return allowed


def _forbid_repeated_ngrams(log_probs: Tensor, history: Tensor, n: int) -> None:
    """In place: no n-gram occurs twice."""
    ngrams = history.unfold(1, n, 1)  # (R, T - n + 1, n)
    last = history[:, history.shape[1] - n + 1 :]  # (R, n - 1): the next token completes this n-gram
    matches = (ngrams[:, :, :-1] == last[:, None]).all(-1)  # (R, T - n + 1)
    rows, positions = matches.nonzero(as_tuple=True)
    log_probs[rows, ngrams[rows, positions, -1]] = _NEG_INF
