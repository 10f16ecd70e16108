"""One hypothesis per sentence, token by token: greedy search and sampling. They differ in how they choose a token.

Shapes: B batch (sentences still searched), V vocabulary, T tokens so far, N samples per sentence, k tokens to draw from
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decoding.candidates import best_candidates
from regard.decoding.constraints import apply_constraints
from regard.decoding.options import DecodingOptions, Hypothesis, NBestLists, Sampling, make_hypothesis
from regard.decoding.search_batch import SearchBatch, StepFunction

# (B, V) log-probabilities, (B,) indices of the sentences, number of tokens so far → (B,) next tokens
Chooser = Callable[[Tensor, Tensor, int], Tensor]


def greedy(step: StepFunction, state: Any, batch: SearchBatch, options: DecodingOptions) -> list[Hypothesis]:
    """The most likely token at each step, until the end token or the length limit."""
    return _search(step, state, batch, options, _most_likely)


def sample(
    step: StepFunction, state: Any, batch: SearchBatch, options: DecodingOptions, sources: Sequence[Sequence[int]]
) -> NBestLists:
    """`n_best` random translations per sentence, best first; some may be equal.

    A sample depends on the seed, the source and the number of the sample, not on the other sentences of the batch:
    each has its own row of uniform random numbers, one per step, drawn before the search.
    """
    assert options.sampling is not None
    n_samples = options.n_best
    rows = batch.sentences.repeat_interleave(n_samples)  # (B·N,)
    numbered = torch.arange(len(rows)).to(rows)  # each sample is searched as a sentence of its own
    samples = SearchBatch(batch.begin_id, batch.end_id, numbered, batch.limits[rows], batch.prefixes[rows])
    keys = [(number, *source) for source in sources for number in range(n_samples)]
    choose = _random_chooser(options.sampling, keys, samples)
    hypotheses = _search(step, state.select(rows), samples, options, choose)
    groups = [hypotheses[i * n_samples : (i + 1) * n_samples] for i in range(len(batch))]
    return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in groups]


def _random_chooser(sampling: Sampling, keys: Sequence[Sequence[int]], batch: SearchBatch) -> Chooser:
    if sampling.temperature == 0 or not keys:
        return _most_likely
    longest = int(batch.limits.max())
    uniform = torch.stack([_uniform(sampling.seed, key, longest) for key in keys])  # (B, longest)
    uniform = uniform.to(batch.limits.device)
    return lambda log_probs, sentences, n_tokens: draw_tokens(log_probs, uniform[sentences, n_tokens], sampling)


def draw_tokens(log_probs: Tensor, uniform: Tensor, sampling: Sampling) -> Tensor:
    """(B, V) log-probabilities, (B,) random numbers in [0, 1) → (B,) tokens: temperature, then top k, then top p.

    The token is the one where the cumulative probability exceeds the random number.
    """
    tempered = log_probs / sampling.temperature
    k = min(sampling.top_k or log_probs.shape[1], log_probs.shape[1])
    top, tokens = tempered.topk(k)  # (B, k), most likely first
    probs = top.double().softmax(-1)
    more_likely = probs.cumsum(-1) - probs  # (B, k): total probability of the tokens before this one
    probs = probs.masked_fill(more_likely >= sampling.top_p, 0.0)
    cumulative = probs.cumsum(-1)
    threshold = uniform[:, None].double() * cumulative[:, -1:]  # (B, 1)
    drawn = torch.searchsorted(cumulative, threshold, right=True).clamp(max=k - 1)  # (B, 1)
    return tokens.gather(1, drawn)[:, 0]


def _search(
    step: StepFunction, state: Any, batch: SearchBatch, options: DecodingOptions, choose: Chooser
) -> list[Hypothesis]:
    """One hypothesis per sentence. Sentences leave the batch when they end."""
    hypotheses: list[Hypothesis | None] = [None] * len(batch)
    last = batch.begin_tokens()  # (B,)
    tokens, log_probs = last.new_empty(len(batch), 0), torch.empty(len(batch), 0, device=last.device)  # (B, T)
    while len(batch):
        n_tokens = tokens.shape[1]
        step_log_probs, state = step(last, state)  # (B, V)
        allowed, forced = step_log_probs, batch.forced(n_tokens)
        if options.is_constrained or forced is not None:
            allowed = apply_constraints(step_log_probs, tokens, options, forced, batch.end_id)
        last = choose(allowed, batch.sentences, n_tokens)
        tokens = torch.cat([tokens, last[:, None]], 1)
        log_probs = torch.cat([log_probs, step_log_probs.gather(1, last[:, None])], 1)
        ended = (last == batch.end_id) | (batch.limits == n_tokens + 1)  # (B,)
        if not bool(ended.any()):
            continue
        rows = zip(batch.sentences[ended].tolist(), tokens[ended].tolist(), log_probs[ended].tolist(), strict=True)
        for sentence, row_tokens, row_log_probs in rows:
            hypotheses[sentence] = make_hypothesis(row_tokens, row_log_probs, batch.end_id, options.length_penalty)
        keep = (~ended).nonzero()[:, 0]
        batch, last, tokens, log_probs = batch.select(keep), last[keep], tokens[keep], log_probs[keep]
        state = state.select(keep)
    return [hypothesis for hypothesis in hypotheses if hypothesis is not None]


def _most_likely(log_probs: Tensor, sentences: Tensor, n_tokens: int) -> Tensor:
    return best_candidates(log_probs.new_zeros(len(log_probs), 1), log_probs[:, None], 1)[1][:, 0]


def _uniform(seed: int, key: Sequence[int], n: int) -> Tensor:
    """(n,) random numbers in [0, 1) that depend only on the seed and the key."""
    digest = hashlib.blake2b(repr((seed, *key)).encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
    return torch.rand(n, generator=generator, dtype=torch.float64)
