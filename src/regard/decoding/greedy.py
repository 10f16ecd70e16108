"""One hypothesis a sentence, one symbol after the other: greedy and sampling differ only in how they choose.

B batch (sentences still searched), V vocabulary, T symbols so far
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decoding.candidates import best_candidates
from regard.decoding.constraints import Constraint, apply_constraints
from regard.decoding.options import Hypothesis, Sampling, make_hypothesis
from regard.decoding.search_batch import SearchBatch, StepFunction

# (B, V) log-probabilities, the task with its rows, symbols so far → (B,) symbols
Choose = Callable[[Tensor, SearchBatch, int], Tensor]


def likeliest(log_probs: Tensor, task: SearchBatch, n_symbols: int) -> Tensor:
    """Greedy."""
    return best_candidates(log_probs.new_zeros(len(log_probs), 1), log_probs[:, None], 1)[1][:, 0]


def follow(
    step: StepFunction,
    state: Any,
    task: SearchBatch,
    length_penalty: float,
    choose: Choose = likeliest,
    constraints: Sequence[Constraint] = (),
) -> list[Hypothesis]:
    """Go on from the chosen symbol until the end symbol or the limit. Sentences that are done leave the batch."""
    n_sentences, end_id = len(task), task.end_id
    found: list[Hypothesis | None] = [None] * n_sentences
    last = task.begin()  # (B,)
    symbols, log_probs = last.new_empty(n_sentences, 0), torch.empty(n_sentences, 0, device=last.device)  # (B, T)
    while len(task):
        length = symbols.shape[1] + 1
        step_log_probs, state = step(last, state)  # (B, V)
        allowed, forced = step_log_probs, task.forced(length - 1)
        if constraints or forced is not None:
            allowed = apply_constraints(step_log_probs, symbols, constraints, forced, end_id)
        last = choose(allowed, task, length - 1)
        symbols = torch.cat([symbols, last[:, None]], 1)
        log_probs = torch.cat([log_probs, step_log_probs.gather(1, last[:, None])], 1)
        done = (last == end_id) | (task.limits == length)
        if not bool(done.any()):
            continue
        rows = zip(task.numbers[done].tolist(), symbols[done].tolist(), log_probs[done].tolist(), strict=True)
        for number, ids, row_log_probs in rows:
            found[number] = make_hypothesis(ids, row_log_probs, end_id, length_penalty)
        going = (~done).nonzero()[:, 0]
        task, last, symbols, log_probs = task.select(going), last[going], symbols[going], log_probs[going]
        state = state.select(going)
    return [hypothesis for hypothesis in found if hypothesis is not None]


def sampler(sampling: Sampling, keys: Sequence[Sequence[int]], task: SearchBatch) -> Choose:
    """Draws symbols for the sentences of a task, each known by its key (e.g. its source and the number of the draw).

    A sentence has its own row of numbers between 0 and 1, one a step, drawn before the search begins;
    the symbol is the one where the cumulated probabilities pass the number.
    """
    if sampling.temperature == 0:
        return likeliest
    longest = int(task.limits.max()) if len(task) else 0
    rows = [_uniform(sampling.seed, key, longest) for key in keys]
    numbers = torch.stack(rows).to(task.limits.device) if rows else torch.empty(0, 0)  # (B, T)

    def choose(log_probs: Tensor, task: SearchBatch, n_symbols: int) -> Tensor:
        return draw(log_probs, numbers[task.numbers, n_symbols], sampling)

    return choose


def draw(log_probs: Tensor, uniform: Tensor, sampling: Sampling) -> Tensor:
    """(B, V), (B,) in [0, 1) → (B,): tempered, then the top k of them, then the top p of these."""
    tempered = log_probs / sampling.temperature
    n_kept = min(sampling.top_k or log_probs.shape[1], log_probs.shape[1])
    top, symbols = tempered.topk(n_kept)  # likeliest first
    probs = top.double().softmax(-1)
    before = probs.cumsum(-1) - probs  # (B, k): what the likelier symbols have together
    probs = probs.masked_fill(before >= sampling.top_p, 0.0)
    cumulated = probs.cumsum(-1)
    threshold = uniform[:, None].double() * cumulated[:, -1:]
    at = torch.searchsorted(cumulated, threshold, right=True).clamp(max=n_kept - 1)  # (B, 1)
    return symbols.gather(1, at)[:, 0]


def _uniform(seed: int, key: Sequence[int], n: int) -> Tensor:
    mixed = hashlib.blake2b(repr((seed, *key)).encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(mixed, "little") >> 1)
    return torch.rand(n, generator=generator, dtype=torch.float64)
