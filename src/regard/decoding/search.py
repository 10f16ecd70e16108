"""The one way in: which search the options ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decoding.beam import BeamStep, beam_search
from regard.decoding.constraints import make_constraints
from regard.decoding.greedy import follow, sampler
from regard.decoding.options import DecodingOptions, Hypothesis, Sampling, check_options
from regard.decoding.search_batch import SearchBatch, StepFunction


def decode(
    step: StepFunction,
    state: Any,
    sources: Sequence[Sequence[int]],
    options: DecodingOptions,
    *,
    begin_id: int,
    end_id: int,
    prefixes: Sequence[Sequence[int]] | None = None,
    max_length: int | None = None,
    device: torch.device | str = "cpu",
    beam_steps: list[BeamStep] | None = None,
) -> list[list[Hypothesis]]:
    """For each source its `n_best` hypotheses, best first, from the state before the first symbol.

    Of a source (ids without end symbol) only the length is needed, for the limit, and its ids as the key of its
    samples: the same sentence with the same seed draws the same, wherever it stands. `max_length` is a limit of
    the model itself. `beam_steps` collects the steps of a beam search, even of one hypothesis; a sample has none.
    """
    check_options(options)
    limits = [max(1, len(source) + options.extra_length) for source in sources]
    if max_length is not None:
        limits = [min(limit, max_length) for limit in limits]
    task = SearchBatch.of(limits, begin_id, end_id, prefixes, device)
    if options.sampling is not None:
        return _sample(step, state, sources, task, options, options.sampling)
    constraints = make_constraints(options, end_id)
    if options.beam == 1 and beam_steps is None:
        found = follow(step, state, task, options.length_penalty, constraints=constraints)
        return [[hypothesis] for hypothesis in found]
    return beam_search(step, state, task, options, constraints, beam_steps)


def _sample(
    step: StepFunction,
    state: Any,
    sources: Sequence[Sequence[int]],
    task: SearchBatch,
    options: DecodingOptions,
    sampling: Sampling,
) -> list[list[Hypothesis]]:
    """`n_best` draws a sentence, each with randomness of its own, best first; two of them may be the same."""
    n = options.n_best
    rows = task.numbers.repeat_interleave(n)
    keys = [(number, *source) for source in sources for number in range(n)]
    drawn_task = SearchBatch(
        task.begin_id, task.end_id, torch.arange(len(rows)).to(rows), task.limits[rows], task.prefixes[rows]
    )
    choose = sampler(sampling, keys, drawn_task)
    constraints = make_constraints(options, task.end_id)
    drawn = follow(step, state.select(rows), drawn_task, options.length_penalty, choose, constraints)
    groups = [drawn[i * n : (i + 1) * n] for i in range(len(task))]
    return [sorted(group, key=lambda one: -one.score) for group in groups]


def score(
    step: StepFunction,
    state: Any,
    targets: Sequence[Sequence[int]],
    *,
    begin_id: int,
    end_id: int,
    length_penalty: float,
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """The given targets (ids without end symbol) as hypotheses that end there: forced decoding."""
    forced = [[*target, end_id] for target in targets]
    task = SearchBatch.of([0] * len(forced), begin_id, end_id, forced, device)
    return follow(step, state, task, length_penalty)


def alternatives(
    step: StepFunction,
    state: Any,
    prefixes: Sequence[Sequence[int]],
    k: int,
    *,
    begin_id: int,
    device: torch.device | str = "cpu",
) -> list[list[tuple[int, float]]]:
    """For each sentence the k likeliest symbols after its prefix, with their log-probabilities, likeliest first."""
    found: list[list[tuple[int, float]]] = [[] for _ in prefixes]
    lengths = torch.tensor([len(prefix) for prefix in prefixes], device=device)
    fed = _table([[begin_id, *prefix] for prefix in prefixes], begin_id, device)  # (B, T + 1)
    numbers = torch.arange(len(prefixes), device=device)
    n_symbols = 0
    while len(numbers):
        log_probs, state = step(fed[numbers, n_symbols], state)  # (B, V)
        here = lengths[numbers] == n_symbols
        if bool(here.any()):
            values, symbols = log_probs[here].topk(min(k, log_probs.shape[1]))
            rows = zip(numbers[here].tolist(), symbols.tolist(), values.tolist(), strict=True)
            for number, row_symbols, row_values in rows:
                found[number] = list(zip(row_symbols, row_values, strict=True))
            going = (~here).nonzero()[:, 0]
            numbers, state = numbers[going], state.select(going)
        n_symbols += 1
    return found


def _table(rows: Sequence[Sequence[int]], filler: int, device: torch.device | str) -> Tensor:
    longest = max(map(len, rows), default=0)
    padded = [[*row, *[filler] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=device).view(len(padded), longest)
