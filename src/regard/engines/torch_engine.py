"""The reference engine: every architecture, every option, any device that torch knows.

B batch, S source, T target, H heads, V vocabulary
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
    Hypothesis,
    StepFunction,
    alternatives,
    check_options,
    decode,
    ensemble,
    ensemble_state,
    score,
)
from regard.engines.alignment_head import alignment_head
from regard.engines.engine import Ids, NBestLists, PendingHypotheses
from regard.errors import DataError, RecipeError
from regard.nn import Trace

Answer = TypeVar("Answer")

# Padded source symbols of a batch, times the beam. More rows make the matrices of a step larger, which pays
# until they leave the cache.
MAX_TOKENS_PER_BATCH = 4096


class TorchEngine:
    """A finished model, or an ensemble of several with one vocabulary, run by torch.

    Thread-safe: nothing in it changes while it translates. `n_threads` sets how many threads torch uses for one
    operation, which is one setting for the whole process; None leaves it as it is.
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
        self._models = [one.model.to(device).eval() for one in self._loaded]
        self._device = torch.device(device)
        self._max_tokens_per_batch = max_tokens_per_batch
        self._max_positions = min(
            (one.config.max_positions for one in self._loaded if one.config.positions == "learned"), default=None
        )
        tokenizer = self._loaded[0].tokenizers.target
        self._begin_id, self._end_id = tokenizer.bos_id, tokenizer.eos_id
        if n_threads is not None:
            torch.set_num_threads(n_threads)

    def translate(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> NBestLists:
        """For each source (ids without end symbol), its `n_best` hypotheses, best first.

        `with_attention` fills in the weights of the model's alignment head over the source without its end symbol;
        a model that names no such head leaves them out. An ensemble aligns by its first model.
        """
        check_options(options)
        self._require_room(prefixes or (), "a prefix")
        n_rows = options.beam if options.sampling is None else options.n_best

        def run(numbers: Sequence[int]) -> list[list[Hypothesis]]:
            chosen = [sources[i] for i in numbers]
            step, state = self._begin(chosen)
            found = decode(
                step,
                state,
                chosen,
                options,
                begin_id=self._begin_id,
                end_id=self._end_id,
                prefixes=None if prefixes is None else [prefixes[i] for i in numbers],
                max_length=self._max_positions,
                device=self._device,
            )
            return self._with_attention(chosen, found) if with_attention else found

        return self._in_batches(sources, run, n_rows)

    def submit(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> PendingHypotheses:
        """torch computes in the calling thread, so the work is done by `result()`."""
        return PendingHypotheses(partial(self.translate, sources, options, prefixes, with_attention))

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Hypothesis]:
        """The given targets as hypotheses: forced decoding, ranked by the default length penalty."""
        alpha = DecodingOptions().length_penalty
        self._require_room(targets, "a translation")

        def run(numbers: Sequence[int]) -> list[Hypothesis]:
            step, state = self._begin([sources[i] for i in numbers])
            given = [targets[i] for i in numbers]
            ids = {"begin_id": self._begin_id, "end_id": self._end_id}
            return score(step, state, given, length_penalty=alpha, device=self._device, **ids)

        return self._in_batches(sources, run)

    def alternatives(self, sources: Sequence[Ids], prefixes: Sequence[Ids], k: int) -> list[list[tuple[int, float]]]:
        """For each source the k likeliest symbols after a prefix, with their log-probabilities."""

        def run(numbers: Sequence[int]) -> list[list[tuple[int, float]]]:
            step, state = self._begin([sources[i] for i in numbers])
            given = [prefixes[i] for i in numbers]
            return alternatives(step, state, given, k, begin_id=self._begin_id, device=self._device)

        return self._in_batches(sources, run)

    def close(self) -> None:
        """Let go of the models."""
        self._loaded, self._models = [], []

    def _in_batches(
        self, sources: Sequence[Ids], run: Callable[[Sequence[int]], list[Answer]], n_rows: int = 1
    ) -> list[Answer]:
        """Sentences of like length together, answers in the order of the sources."""
        answers: dict[int, Answer] = {}
        with torch.inference_mode():
            for numbers in batches_by_length([len(ids) + 1 for ids in sources], self._max_tokens_per_batch // n_rows):
                answers.update(zip(numbers, run(numbers), strict=True))
        return [answers[i] for i in range(len(sources))]

    def _begin(self, sources: Sequence[Ids]) -> tuple[StepFunction, Any]:
        """The step function of the model or the ensemble, and the state before the first symbol."""
        self._require_room(sources, "a sentence")
        src = self._padded([[*source, self._end_id] for source in sources])  # (B, S)
        states = [model.start(model.encode(src)) for model in self._models]
        if len(states) == 1:
            return self._models[0].step, states[0]
        return ensemble([model.step for model in self._models]), ensemble_state(states)

    def _require_room(self, sequences: Sequence[Ids], what: str) -> None:
        """A DataError for one that, with its begin or end symbol, is longer than learned positions go."""
        longest = max(map(len, sequences), default=0)
        if self._max_positions is not None and longest >= self._max_positions:
            raise DataError(
                f"{what} of {longest} symbols is longer than the {self._max_positions} positions "
                "that this model has learned",
                hint="split it",
            )

    def _padded(self, rows: Sequence[Sequence[int]]) -> Tensor:
        pad_id, longest = self._models[0].pad_id, max(map(len, rows))
        padded = [[*row, *[pad_id] * (longest - len(row))] for row in rows]
        return torch.tensor(padded, dtype=torch.long, device=self._device)

    def _with_attention(self, sources: Sequence[Ids], found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The finished hypotheses once more, all positions at once, with a trace: no step pays for it."""
        place = alignment_head(self._loaded[0])
        if place is None:
            return found
        layer, head = place
        pairs = [(source, one) for source, ones in zip(sources, found, strict=True) for one in ones]
        src = self._padded([[*source, self._end_id] for source, _ in pairs])
        tgt_in = self._padded([[self._begin_id, *one.ids[:-1]] for _, one in pairs])
        trace = Trace()
        self._models[0].features(src, tgt_in, trace)
        weights = trace[f"decoder.{layer}.cross.weights"][:, head].cpu()  # (B, T, S)
        aligned = iter(
            replace(one, attention=tuple(map(tuple, rows[: len(one.ids), : len(source)].tolist())))
            for rows, (source, one) in zip(weights, pairs, strict=True)
        )
        return [[next(aligned) for _ in ones] for ones in found]


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Numbers of sentences in batches of like length; padded, a batch has at most so many symbols, or one sentence."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _require_one_vocabulary(loaded: Sequence[LoadedModel]) -> None:
    if not loaded:
        raise RecipeError("an ensemble needs a model")
    first = loaded[0].tokenizers
    for other in (one.tokenizers for one in loaded[1:]):
        same_source = first.source.to_bytes() == other.source.to_bytes()
        if not same_source or first.target.to_bytes() != other.target.to_bytes():
            raise RecipeError("these models have different vocabularies", hint="train them with one tokenizer")
