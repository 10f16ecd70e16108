"""Entry points: `decode` searches for translations, `score` rates given ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from regard.decoding.beam import BeamStep, beam_search
from regard.decoding.greedy import greedy, sample
from regard.decoding.options import DecodingOptions, Hypothesis, NBestLists, check_options
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
) -> NBestLists:
    """For each source its `n_best` hypotheses, best first. `state` is the state before the first token.

    Only the lengths of the sources (ids without the end token) are used, for the length limits. Sampling also uses
    their ids: the same source and seed give the same samples in every batch. `max_length` is the model's own limit.
    If `beam_steps` is given, beam search runs even for a beam of 1, and appends each of its steps. Sampling does not.
    """
    check_options(options)
    limits = [max(1, len(source) + options.extra_length) for source in sources]
    if max_length is not None:
        limits = [min(limit, max_length) for limit in limits]
    batch = SearchBatch.create(limits, begin_id, end_id, prefixes, device)
    if options.sampling is not None:
        return sample(step, state, batch, options, sources)
    if options.beam == 1 and beam_steps is None:
        return [[hypothesis] for hypothesis in greedy(step, state, batch, options)]
    return beam_search(step, state, batch, options, beam_steps)


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
    """The given targets (ids without the end token) as hypotheses, by forced decoding."""
    forced = [[*target, end_id] for target in targets]
    batch = SearchBatch.create([0] * len(forced), begin_id, end_id, forced, device)
    return greedy(step, state, batch, DecodingOptions(length_penalty=length_penalty))
