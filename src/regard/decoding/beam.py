"""Beam search: the K best beginnings of a translation, one symbol longer at each step.

B batch (sentences still searched), K beam, W hypotheses a sentence (1 at the first step, then K),
V vocabulary, T tokens so far; beams folded into the batch are named flat_*
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decoding.candidates import best_candidates
from regard.decoding.constraints import Constraint, apply_constraints
from regard.decoding.options import DecodingOptions, Hypothesis, gnmt, make_hypothesis
from regard.decoding.search_batch import SearchBatch, StepFunction

_NEG_INF = float("-inf")


def beam_search(
    step: StepFunction,
    state: Any,
    task: SearchBatch,
    options: DecodingOptions,
    constraints: Sequence[Constraint] = (),
    beam_steps: list[BeamStep] | None = None,
) -> list[list[Hypothesis]]:
    """For each sentence its `n_best` hypotheses, best first, all different.

    A step looks at the 2K best continuations. Those among the first K that end are finished; the best K that do not
    end go on. At its length limit a sentence takes the best K as they stand. A sentence is done when

    - K of its hypotheses have finished, as in CTranslate2 (patience 1, a length penalty that is not zero)
      and in Hugging Face `generate` (`early_stopping=True`), or
    - it has `n_best` and no live one can beat them. A sum of log-probabilities only falls, so a live hypothesis
      never gets more than its sum so far over the penalty of the longest length allowed; this ending is exact.

    Only the first saves work at the price of a search error: a fifth hypothesis of a beam of 4 is not waited for.
    Sentences that are done leave the batch. A first step of one hypothesis a sentence saves K - 1 equal rows.
    `beam_steps` collects what was looked at, a step each.
    """
    beam, found = _Beam.of(task, options.n_best), _FinishedHypotheses(len(task), options.length_penalty)
    flat_last = task.begin()  # (B,), then (B·K,)
    while len(beam.task):
        flat_log_probs, state = step(flat_last, state)  # (B·W, V)
        if constraints or beam.forced() is not None:
            flat_history = beam.tokens.flatten(0, 1)
            flat_log_probs = apply_constraints(flat_log_probs, flat_history, constraints, beam.forced(), task.end_id)
        candidates = beam.candidates(flat_log_probs, options.beam)
        beam, flat_rows = beam.advance(candidates, options, found, beam_steps)
        if len(beam.task):
            state, flat_last = state.select(flat_rows), beam.tokens[:, :, -1].flatten()
    return found.best(options.n_best)


@dataclass(frozen=True)
class Candidates:
    """The 2K best continuations of every sentence, best first: each (B, 2K)."""

    totals: Tensor
    log_probs: Tensor  # of the new symbol alone
    origins: Tensor  # which of the W hypotheses is continued
    tokens: Tensor


@dataclass(frozen=True)
class BeamStep:
    """One step of a search, for those who want to see it: what was looked at, what ended there, what went on."""

    sentences: Tensor  # (B,): which sentences were still searched
    candidates: Candidates
    finished: Tensor  # (B, K): which of the first K candidates are finished
    live: Tensor  # (B, K): places of the candidates that go on, as hypotheses 0 … K - 1 of the next step
    totals: Tensor  # (B, K): their sums; −∞ where there are fewer than K


@dataclass(frozen=True)
class _Beam:
    """Hypotheses that have not ended. Beside a sentence with fewer than W, the rest have −∞."""

    task: SearchBatch
    totals: Tensor  # (B, W): sums of log-probabilities
    tokens: Tensor  # (B, W, T)
    log_probs: Tensor  # (B, W, T)
    finished: Tensor  # (B, n_best): the best scores that have finished, best first
    n_finished: Tensor  # (B,)

    @classmethod
    def of(cls, task: SearchBatch, n_best: int) -> _Beam:
        n = len(task)
        totals = torch.zeros(n, 1, device=task.limits.device)
        return cls(
            task,
            totals,
            task.numbers.new_empty(n, 1, 0),
            totals.new_empty(n, 1, 0),
            totals.new_full((n, n_best), _NEG_INF),
            torch.zeros_like(task.numbers),
        )

    def forced(self) -> Tensor | None:
        """(B·W,): the symbol that a prefix asks for."""
        forced = self.task.forced(self.tokens.shape[2])
        return None if forced is None else forced.repeat_interleave(self.totals.shape[1])

    def candidates(self, flat_log_probs: Tensor, beam: int) -> Candidates:
        n_tokens = flat_log_probs.shape[-1]
        log_probs = flat_log_probs.unflatten(0, self.totals.shape)  # (B, W, V)
        totals, places = best_candidates(self.totals, log_probs, 2 * beam)
        symbol_log_probs = log_probs.flatten(1).gather(1, places)
        return Candidates(totals, symbol_log_probs, places // n_tokens, places % n_tokens)

    def advance(
        self, new: Candidates, options: DecodingOptions, found: _FinishedHypotheses, beam_steps: list[BeamStep] | None
    ) -> tuple[_Beam, Tensor]:
        """The beam one symbol later without sentences that are done, and the flat rows (B·W) that it comes from."""
        width, beam, length = self.totals.shape[1], options.beam, self.tokens.shape[2] + 1
        penalty = gnmt(length, options.length_penalty)
        ends = new.tokens == self.task.end_id  # (B, 2K)
        at_limit = self.task.limits == length  # (B,)
        over = (ends | at_limit[:, None])[:, :beam] & (new.totals[:, :beam] > _NEG_INF)  # (B, K)
        if bool(over.any()):
            found.add(self, new, over)
        scores = (new.totals[:, :beam] / penalty).masked_fill(~over, _NEG_INF)
        finished = torch.cat([self.finished, scores], 1).topk(self.finished.shape[1]).values
        n_finished = self.n_finished + over.sum(1)

        totals, live = new.totals.masked_fill(ends, _NEG_INF).topk(beam)  # (B, K)
        if beam_steps is not None:
            beam_steps.append(BeamStep(self.task.numbers, new, over, live, totals))
        hope = self._best_possible(totals[:, 0], length, options.length_penalty)
        done = at_limit | (n_finished >= beam) | (finished[:, -1] >= hope)
        going = (~done).nonzero()[:, 0]
        live = live[going]  # (B', K)
        flat_rows = (going[:, None] * width + new.origins[going].gather(1, live)).flatten()

        def grown(past: Tensor, last: Tensor) -> Tensor:
            past = past.flatten(0, 1)[flat_rows].unflatten(0, live.shape)
            return torch.cat([past, last[going].gather(1, live)[:, :, None]], 2)

        tokens, log_probs = grown(self.tokens, new.tokens), grown(self.log_probs, new.log_probs)
        task = self.task.select(going)
        return _Beam(task, totals[going], tokens, log_probs, finished[going], n_finished[going]), flat_rows

    def _best_possible(self, totals: Tensor, length: int, alpha: float) -> Tensor:
        """(B,): no continuation of a hypothesis with this sum can have a higher score.

        A total is negative, so a positive α favours the longest length allowed, a negative one the next.
        """
        longest = ((5.0 + self.task.limits) / 6.0) ** alpha  # gnmt() of each limit
        return torch.maximum(totals / longest, totals / gnmt(length + 1, alpha))


class _FinishedHypotheses:
    """Hypotheses that have finished, by sentence. Plain lists: a hypothesis comes here once, not at each step."""

    def __init__(self, n_sentences: int, length_penalty: float) -> None:
        self._length_penalty = length_penalty
        self._hypotheses: list[list[Hypothesis]] = [[] for _ in range(n_sentences)]

    def add(self, beam: _Beam, new: Candidates, over: Tensor) -> None:
        """Take the candidates (B, K) that are over."""
        sentence, at = over.nonzero(as_tuple=True)
        origin = new.origins[sentence, at]
        tokens = torch.cat([beam.tokens[sentence, origin], new.tokens[sentence, at][:, None]], 1)
        log_probs = torch.cat([beam.log_probs[sentence, origin], new.log_probs[sentence, at][:, None]], 1)
        numbers = beam.task.numbers[sentence]
        for number, ids, row in zip(numbers.tolist(), tokens.tolist(), log_probs.tolist(), strict=True):
            self._hypotheses[number].append(make_hypothesis(ids, row, beam.task.end_id, self._length_penalty))

    def best(self, n: int) -> list[list[Hypothesis]]:
        """The n best of each sentence, best first."""
        return [sorted(found, key=lambda one: -one.score)[:n] for found in self._hypotheses]
