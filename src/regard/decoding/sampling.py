"""Drawing the next symbol. What is drawn depends on the seed and on the sentence, not on its neighbours in a batch.

B batch, V vocabulary, T longest limit
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.greedy import Choose, likeliest
from regard.decoding.options import Sampling
from regard.decoding.search_batch import Task


def sampler(sampling: Sampling, keys: Sequence[Sequence[int]], task: Task) -> Choose:
    """Draws symbols for the sentences of a task, each known by its key (e.g. its source and the number of the draw).

    A sentence has its own row of numbers between 0 and 1, one a step, drawn before the search begins;
    the symbol is the one where the cumulated probabilities pass the number.
    """
    if sampling.temperature == 0:
        return likeliest
    longest = int(task.limits.max()) if len(task) else 0
    rows = [_uniform(sampling.seed, key, longest) for key in keys]
    numbers = torch.stack(rows).to(task.limits.device) if rows else torch.empty(0, 0)  # (B, T)

    def choose(log_probs: Tensor, task: Task, n_symbols: int) -> Tensor:
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
