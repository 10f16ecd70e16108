"""The reference engine: every architecture and every option, on any torch device.

Shapes: B batch, S source, T target
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.artifact import LoadedModel
from regard.decoding import (
    DecodingOptions,
    EnsembleState,
    Hypothesis,
    StepFunction,
    check_options,
    decode,
    ensemble,
    score,
)
from regard.decoding.options import NBestLists
from regard.engines.alignment_head import alignment_head, alignment_sites
from regard.engines.engine import Engine, Ids, PendingHypotheses
from regard.errors import DataError, RecipeError
from regard.nn import PackedWeights, Trace

Result = TypeVar("Result")

# Source tokens per batch including padding, times the beam size. Larger batches are faster until the matrices of a
# step no longer fit into the CPU cache.
MAX_TOKENS_PER_BATCH = 4096


class TorchEngine(Engine):
    """A model, or an ensemble of models with the same vocabulary, run by torch.

    Translating changes no attribute, and the weights may not change while the engine is used. An ensemble uses the
    alignment head of its first model. `n_threads` sets the number of threads per torch operation, for the whole
    process; None does not change it.
    """

    name = "torch"

    def __init__(
        self,
        loaded: LoadedModel | Sequence[LoadedModel],
        device: torch.device | str = "cpu",
        max_tokens_per_batch: int = MAX_TOKENS_PER_BATCH,
        n_threads: int | None = None,
    ) -> None:
        self._loaded = [loaded] if isinstance(loaded, LoadedModel) else list(loaded)
        _require_one_vocabulary(self._loaded)
        self._models = [model.model.to(device).eval() for model in self._loaded]
        self._packed = PackedWeights()
        self._device = torch.device(device)
        self._max_tokens_per_batch = max_tokens_per_batch
        limits = [model.config.max_length for model in self._loaded]
        self._max_positions = min((limit for limit in limits if limit is not None), default=None)
        tokenizer = self._loaded[0].tokenizers.target
        self._begin_id, self._end_id = tokenizer.bos_id, tokenizer.eos_id
        if n_threads is not None:
            torch.set_num_threads(n_threads)

    def submit(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> PendingHypotheses:
        """torch computes in the thread that waits for the result."""
        check_options(options)
        self._require_fitting_length(prefixes or (), "a prefix")
        rows_per_sentence = options.beam if options.sampling is None else options.n_best

        def run(indices: Sequence[int]) -> NBestLists:
            batch = [sources[i] for i in indices]
            step, state = self._start(batch)
            hypotheses = decode(
                step,
                state,
                batch,
                options,
                begin_id=self._begin_id,
                end_id=self._end_id,
                prefixes=None if prefixes is None else [prefixes[i] for i in indices],
                max_length=self._max_positions,
                device=self._device,
            )
            return self._add_attention(batch, hypotheses) if with_attention else hypotheses

        return partial(self._run_batches, sources, run, rows_per_sentence)

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Hypothesis]:
        alpha = DecodingOptions().length_penalty
        self._require_fitting_length(targets, "a translation")

        def run(indices: Sequence[int]) -> list[Hypothesis]:
            step, state = self._start([sources[i] for i in indices])
            batch_targets = [targets[i] for i in indices]
            ids = {"begin_id": self._begin_id, "end_id": self._end_id}
            return score(step, state, batch_targets, length_penalty=alpha, device=self._device, **ids)

        return self._run_batches(sources, run)

    def close(self) -> None:
        self._loaded, self._models, self._packed = [], [], PackedWeights()

    def _run_batches(
        self, sources: Sequence[Ids], run: Callable[[Sequence[int]], list[Result]], rows_per_sentence: int = 1
    ) -> list[Result]:
        """Call `run` with the indices of sentences of similar length. Returns results in the order of the sources."""
        results: dict[int, Result] = {}
        max_tokens = self._max_tokens_per_batch // rows_per_sentence
        with torch.inference_mode(), self._packed.in_use():
            for indices in batches_by_length([len(ids) + 1 for ids in sources], max_tokens):
                results.update(zip(indices, run(indices), strict=True))
        return [results[i] for i in range(len(sources))]

    def _start(self, sources: Sequence[Ids]) -> tuple[StepFunction, Any]:
        """The step function of the model or the ensemble, and the state before the first token."""
        self._require_fitting_length(sources, "a sentence")
        src = self._pad([[*source, self._end_id] for source in sources])  # (B, S)
        states = [model.start(model.encode(src)) for model in self._models]
        if len(states) == 1:
            return self._models[0].step, states[0]
        return ensemble([model.step for model in self._models]), EnsembleState(tuple(states))

    def _require_fitting_length(self, sequences: Sequence[Ids], what: str) -> None:
        """Raise DataError if a sequence and its begin or end token need more positions than the model learned."""
        longest = max(map(len, sequences), default=0)
        if self._max_positions is not None and longest >= self._max_positions:
            raise DataError(
                f"{what} of {longest} tokens is longer than the {self._max_positions} positions "
                "that this model has learned",
                hint="split it",
            )

    def _pad(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """(B, longest row)."""
        pad_id, longest = self._models[0].pad_id, max(map(len, rows))
        padded = [[*row, *[pad_id] * (longest - len(row))] for row in rows]
        return torch.tensor(padded, dtype=torch.long, device=self._device)

    def _add_attention(self, sources: Sequence[Ids], n_best_lists: NBestLists) -> NBestLists:
        """Run the finished hypotheses once more, all positions at once, with a trace: the search stays fast."""
        named_head = alignment_head(self._loaded[0])
        if named_head is None:
            return n_best_lists
        layer, head = named_head
        pairs = [
            (source, hypothesis)
            for source, hypotheses in zip(sources, n_best_lists, strict=True)
            for hypothesis in hypotheses
        ]
        src = self._pad([[*source, self._end_id] for source, _ in pairs])  # (B, S)
        tgt_in = self._pad([[self._begin_id, *hypothesis.ids[:-1]] for _, hypothesis in pairs])  # (B, T)
        trace = Trace()
        self._models[0].features(src, tgt_in, trace)
        weights = trace[alignment_sites(trace.sites())[layer].path][:, head].cpu()  # (B, T, S)
        with_attention = iter(
            replace(hypothesis, attention=tuple(map(tuple, rows[: len(hypothesis.ids), : len(source)].tolist())))
            for rows, (source, hypothesis) in zip(weights, pairs, strict=True)
        )
        return [[next(with_attention) for _ in hypotheses] for hypotheses in n_best_lists]


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices of sentences in batches of similar length, longest first.

    A batch has at most `max_tokens` tokens including padding, or a single sentence.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _require_one_vocabulary(models: Sequence[LoadedModel]) -> None:
    if not models:
        raise RecipeError("an ensemble needs a model")
    first = models[0].tokenizers
    for tokenizers in (model.tokenizers for model in models[1:]):
        same_source = first.source.to_bytes() == tokenizers.source.to_bytes()
        if not same_source or first.target.to_bytes() != tokenizers.target.to_bytes():
            raise RecipeError("these models have different vocabularies", hint="train them with one tokenizer")
