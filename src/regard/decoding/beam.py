"""Beam search: keeps the K best partial translations and extends them by one token per step.

Shapes: B batch (sentences still searched), K beam size, W hypotheses per sentence (1 at the first step, then K),
V vocabulary, T tokens so far. Beams folded into the batch are named flat_*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decoding.candidates import best_candidates
from regard.decoding.constraints import apply_constraints
from regard.decoding.options import DecodingOptions, NBestLists, gnmt, make_hypothesis
from regard.decoding.search_batch import SearchBatch, StepFunction

_NEG_INF = float("-inf")


def beam_search(
    step: StepFunction,
    state: Any,
    batch: SearchBatch,
    options: DecodingOptions,
    beam_steps: list[BeamStep] | None = None,
) -> NBestLists:
    """For each sentence its `n_best` hypotheses, best first, all different.

    Each step considers the 2K best continuations. Those of the first K that end are finished; the best K that do not
    end are continued. At its length limit a sentence takes the best K as they are. A sentence stops when

    - K of its hypotheses have finished, as in CTranslate2 (patience 1, non-zero length penalty) and in Hugging Face
      `generate` (`early_stopping=True`), or
    - it has `n_best` finished hypotheses and no live one can beat them. A sum of log-probabilities never grows, so
      the score of a live hypothesis is bounded by its current sum and the penalty of the longest allowed length.

    Only the first rule can cause a search error. Sentences that stop leave the batch. The first step runs with one row
    per sentence, because its K rows would be equal. `beam_steps` collects the steps, for inspection.
    """
    beam = _Beam.create(batch, options.n_best)
    finished: NBestLists = [[] for _ in range(len(batch))]
    flat_last = batch.begin_tokens()  # (B,), then (B·K,)
    while len(beam.batch):
        flat_log_probs, state = step(flat_last, state)  # (B·W, V)
        flat_forced = beam.forced()
        if options.is_constrained or flat_forced is not None:
            flat_history = beam.tokens.flatten(0, 1)  # (B·W, T)
            flat_log_probs = apply_constraints(flat_log_probs, flat_history, options, flat_forced, batch.end_id)
        candidates = beam.candidates(flat_log_probs, options.beam)
        beam, flat_rows = beam.advance(candidates, options, finished, beam_steps)
        if len(beam.batch):
            state, flat_last = state.select(flat_rows), beam.tokens[:, :, -1].flatten()
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[: options.n_best] for hypotheses in finished]


@dataclass(frozen=True)
class Candidates:
    """The 2K best continuations of every sentence, best first. Each tensor is (B, 2K)."""

    totals: Tensor  # sums of log-probabilities
    log_probs: Tensor  # of the new token
    origins: Tensor  # index of the continued hypothesis, below W
    tokens: Tensor  # the new token


@dataclass(frozen=True)
class BeamStep:
    """One step of a beam search: the candidates, which of them finished, and which are continued."""

    sentences: Tensor  # (B,): indices of the sentences still searched
    candidates: Candidates
    finished: Tensor  # (B, K): whether each of the first K candidates is finished
    live: Tensor  # (B, K): indices of the continued candidates, which are hypotheses 0 … K - 1 of the next step
    totals: Tensor  # (B, K): their sums; −∞ if there are fewer than K


@dataclass(frozen=True)
class _Beam:
    """Live hypotheses. If a sentence has fewer than W, the totals of the rest are −∞."""

    batch: SearchBatch
    totals: Tensor  # (B, W): sums of log-probabilities
    tokens: Tensor  # (B, W, T)
    log_probs: Tensor  # (B, W, T)
    best_finished: Tensor  # (B, n_best): the highest scores of finished hypotheses, highest first
    n_finished: Tensor  # (B,)

    @classmethod
    def create(cls, batch: SearchBatch, n_best: int) -> _Beam:
        """One empty hypothesis per sentence."""
        n = len(batch)
        totals = torch.zeros(n, 1, device=batch.limits.device)
        return cls(
            batch,
            totals,
            batch.sentences.new_empty(n, 1, 0),
            totals.new_empty(n, 1, 0),
            totals.new_full((n, n_best), _NEG_INF),
            torch.zeros_like(batch.sentences),
        )

    def forced(self) -> Tensor | None:
        """(B·W,): the next token of the prefix, if any sentence has one."""
        forced = self.batch.forced(self.tokens.shape[2])
        return None if forced is None else forced.repeat_interleave(self.totals.shape[1])

    def candidates(self, flat_log_probs: Tensor, beam_size: int) -> Candidates:
        vocab_size = flat_log_probs.shape[-1]
        log_probs = flat_log_probs.unflatten(0, self.totals.shape)  # (B·W, V) → (B, W, V)
        totals, indices = best_candidates(self.totals, log_probs, 2 * beam_size)  # (B, 2K)
        token_log_probs = log_probs.flatten(1).gather(1, indices)
        return Candidates(totals, token_log_probs, indices // vocab_size, indices % vocab_size)

    def advance(
        self, new: Candidates, options: DecodingOptions, collected: NBestLists, beam_steps: list[BeamStep] | None
    ) -> tuple[_Beam, Tensor]:
        """The beam one token later, without sentences that stopped, and the flat rows (of B·W) that it continues.

        Hypotheses that finish are added to `collected`, by sentence.
        """
        width, beam_size, length = self.totals.shape[1], options.beam, self.tokens.shape[2] + 1
        ends = new.tokens == self.batch.end_id  # (B, 2K)
        at_limit = self.batch.limits == length  # (B,)
        is_finished = (ends | at_limit[:, None])[:, :beam_size] & (new.totals[:, :beam_size] > _NEG_INF)  # (B, K)
        if bool(is_finished.any()):
            self._collect(collected, new, is_finished, options.length_penalty)
        scores = new.totals[:, :beam_size] / gnmt(length, options.length_penalty)
        scores = scores.masked_fill(~is_finished, _NEG_INF)
        best_finished = torch.cat([self.best_finished, scores], 1).topk(self.best_finished.shape[1]).values
        n_finished = self.n_finished + is_finished.sum(1)

        totals, live = new.totals.masked_fill(ends, _NEG_INF).topk(beam_size)  # (B, K)
        if beam_steps is not None:
            beam_steps.append(BeamStep(self.batch.sentences, new, is_finished, live, totals))
        best_possible = self._best_possible(totals[:, 0], length, options.length_penalty)
        stopped = at_limit | (n_finished >= beam_size) | (best_finished[:, -1] >= best_possible)  # (B,)
        keep = (~stopped).nonzero()[:, 0]  # (B',)
        live = live[keep]  # (B', K)
        flat_rows = (keep[:, None] * width + new.origins[keep].gather(1, live)).flatten()  # (B'·K,)

        def extend(past: Tensor, last: Tensor) -> Tensor:
            past = past.flatten(0, 1)[flat_rows].unflatten(0, live.shape)  # (B', K, T)
            return torch.cat([past, last[keep].gather(1, live)[:, :, None]], 2)  # (B', K, T + 1)

        tokens, log_probs = extend(self.tokens, new.tokens), extend(self.log_probs, new.log_probs)
        batch = self.batch.select(keep)
        return _Beam(batch, totals[keep], tokens, log_probs, best_finished[keep], n_finished[keep]), flat_rows

    def _best_possible(self, totals: Tensor, length: int, alpha: float) -> Tensor:
        """(B,): an upper bound for the score of any continuation of a hypothesis with this sum.

        Sums are negative, so a positive α favours the longest allowed length, and a negative α the next length.
        """
        longest = ((5.0 + self.batch.limits) / 6.0) ** alpha  # gnmt() of each limit
        return torch.maximum(totals / longest, totals / gnmt(length + 1, alpha))

    def _collect(self, collected: NBestLists, new: Candidates, is_finished: Tensor, alpha: float) -> None:
        """Add the candidates that finished (B, K), as plain lists."""
        row, candidate = is_finished.nonzero(as_tuple=True)
        origin = new.origins[row, candidate]
        tokens = torch.cat([self.tokens[row, origin], new.tokens[row, candidate][:, None]], 1)
        log_probs = torch.cat([self.log_probs[row, origin], new.log_probs[row, candidate][:, None]], 1)
        sentences = self.batch.sentences[row]
        for sentence, ids, ids_log_probs in zip(sentences.tolist(), tokens.tolist(), log_probs.tolist(), strict=True):
            collected[sentence].append(make_hypothesis(ids, ids_log_probs, self.batch.end_id, alpha))
