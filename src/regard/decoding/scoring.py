"""Going where one is told: the score of a given translation, and what else could have come at a place in it.

B batch, V vocabulary, T longest target
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decoding.greedy import follow
from regard.decoding.options import Hypothesis
from regard.decoding.search_batch import Step, Task


def score(
    step: Step,
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
    task = Task.of([0] * len(forced), begin_id, end_id, forced, device)
    return follow(step, state, task, length_penalty)


def alternatives(
    step: Step,
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
