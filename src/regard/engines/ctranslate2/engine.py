"""The fast engine: CTranslate2 on the CPU, in int8 or float32. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from threading import Lock
from typing import Any

import ctranslate2

from regard.artifact.directory import COPY_AGAIN
from regard.decoding.options import DecodingOptions, Hypothesis, NBestLists, check_options, gnmt
from regard.engines.ctranslate2.jobs import Job, JobQueue
from regard.engines.ctranslate2.model_file import check_converted
from regard.engines.ctranslate2.search import (
    END,
    MAX_SCORED_TOKENS,
    MAX_TOKENS,
    BatchItem,
    RawHypothesis,
    changes_probabilities,
    length_exponent,
    make_batches,
    make_batches_by_limit,
    parse_result,
    rank,
    search_settings,
)
from regard.engines.engine import Engine, Ids, PendingHypotheses, Precision
from regard.errors import ArtifactError, DataError
from regard.processes import n_cores

JOBS_PER_WORKER = 3  # one runs, and the others are there when it ends
_seed_lock = Lock()  # CTranslate2 has one seed for the whole process

_Result = tuple[BatchItem, list[RawHypothesis]]


@dataclass(frozen=True)
class _QueuedBatch:
    """A batch for the workers, and the length exponent of its search."""

    batch: list[BatchItem]
    beta: float
    job: Job


class CTranslate2Engine(Engine):
    """A converted model, run by `n_threads` workers with one thread each; by default, one worker per core.

    Two workers with one thread each translate twice as fast as one worker with two threads, which is slower even for
    a single sentence.

    `Hypothesis.log_probs` need a second pass: they are empty without `with_attention`, prefixes or constraints. The
    translation of an empty source is empty.
    """

    name = "ctranslate2"

    def __init__(
        self,
        directory: Path,
        *,
        compute_type: Precision = "int8",
        n_threads: int | None = None,
        n_symbols: tuple[int, int] | None = None,
    ) -> None:
        self._directory, self._compute_type = directory, compute_type
        self.max_positions, n_src, n_tgt, self._has_alignment_head = check_converted(directory)
        self._n_symbols = (n_src, n_tgt)
        if n_symbols is not None and n_symbols != self._n_symbols:  # sizes of the tokenizers in the model directory
            message = f"{directory} has vocabularies of {self._n_symbols} tokens, but the tokenizers have {n_symbols}"
            raise ArtifactError(message, hint=COPY_AGAIN)
        self._n_workers = n_threads or n_cores()
        self._token_names = [str(i) for i in range(max(n_src, n_tgt))]
        self._translator: Any = self._load(self._n_workers)
        self._queue = JobQueue(JOBS_PER_WORKER * self._n_workers)

    def submit(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> PendingHypotheses:
        """Queue the batches for the workers. Only sampling does all its work when it is waited for.

        What is computed while somebody waits (`translate`, `score`, a second pass) goes before everything queued.
        """
        return self._begin(sources, options, prefixes, with_attention, urgent=False)

    def translate(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
        *,
        rescore: bool = True,
    ) -> NBestLists:
        return self._begin(sources, options, prefixes, with_attention, urgent=True, rescore=rescore)()

    def _begin(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None,
        with_attention: bool,
        *,
        urgent: bool,
        rescore: bool = True,
    ) -> PendingHypotheses:
        check_options(options)
        items = self._items(sources, options, prefixes)
        not_empty = [item for item in items if item.source]
        if options.sampling is not None:
            wait = partial(self._sample, not_empty, options)
        else:
            batches = make_batches(not_empty, self._n_workers, options.beam)
            wait = partial(self._search, self._submit(self._translator, batches, options, urgent), options)
        is_forced = prefixes is not None and rescore
        needs_second_pass = with_attention or is_forced or changes_probabilities(options)

        def result() -> NBestLists:
            ordered = _in_order(items, wait(), options)
            if needs_second_pass:
                return self._second_pass(sources, ordered, options, with_attention)
            alpha = options.length_penalty
            return [[Hypothesis(raw.ids, (), raw.score(alpha)) for raw in hypotheses] for hypotheses in ordered]

        return result

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Hypothesis]:
        self._require_valid(sources, self._n_symbols[0])
        self._require_valid(targets, self._n_symbols[1])
        alpha = DecodingOptions().length_penalty
        return [
            Hypothesis(tuple(target), log_probs, sum(log_probs) / gnmt(len(log_probs), alpha))
            for target, log_probs in zip(targets, self._log_probs(sources, targets), strict=True)
        ]

    def close(self) -> None:
        self._queue.clear()
        self._translator = None

    def _load(self, n_workers: int) -> Any:
        try:
            return ctranslate2.Translator(
                str(self._directory),
                device="cpu",
                compute_type=self._compute_type,
                inter_threads=n_workers,
                intra_threads=1,
                max_queued_batches=-1,  # submitting never blocks
            )
        except (RuntimeError, ValueError) as error:
            raise ArtifactError(f"{self._directory} is not a CTranslate2 model: {error}", hint=COPY_AGAIN) from error

    def _items(
        self, sources: Sequence[Ids], options: DecodingOptions, prefixes: Sequence[Ids] | None
    ) -> list[BatchItem]:
        forced = prefixes if prefixes is not None else [()] * len(sources)
        self._require_valid(sources, self._n_symbols[0])
        self._require_valid(forced, self._n_symbols[1])
        items = []
        for index, (source, prefix) in enumerate(zip(sources, forced, strict=True)):
            limit = max(len(source) + options.extra_length, len(prefix) + 1)  # includes the end token
            limit = min(limit, self.max_positions - 1)  # the begin token needs a position too
            items.append(BatchItem(index, source, prefix, limit))
        return items

    def _require_valid(self, sequences: Sequence[Ids], n_symbols: int) -> None:
        for ids in sequences:
            if len(ids) >= self.max_positions:
                raise DataError(
                    f"a text of {len(ids):,} tokens is longer than the model's {self.max_positions:,} positions",
                    hint="split it into shorter lines",
                )
            if len(ids) and not (min(ids) >= 0 and max(ids) < n_symbols):
                raise ValueError(f"an id is outside the vocabulary of {n_symbols}")

    def _submit(
        self, translator: Any, batches: list[list[BatchItem]], options: DecodingOptions, urgent: bool = True
    ) -> list[_QueuedBatch]:
        """Give all batches to the workers: at once, or when those before them are done."""
        settings = search_settings(options, self._n_symbols[1])

        def search(batch: list[BatchItem], beta: float) -> list[Any]:
            limit = max(item.limit for item in batch)
            futures: list[Any] = translator.translate_batch(
                self._tokens((item.source for item in batch), add_end=True),
                self._tokens(item.prefix for item in batch) if batch[0].prefix else None,
                max_decoding_length=limit,
                min_decoding_length=min(options.min_length, limit),
                length_penalty=beta,
                **settings,
            )
            return futures

        queued = []
        for batch in batches:
            beta = length_exponent(options.length_penalty, max(len(item.source) for item in batch))
            queued.append(_QueuedBatch(batch, beta, Job(partial(search, batch, beta))))
            self._queue.put(queued[-1].job, urgent=urgent)
        return queued

    def _wait(self, queued: list[_QueuedBatch]) -> Iterator[tuple[list[BatchItem], list[_Result]]]:
        """Each batch and its results, as soon as they are ready."""
        for item in queued:
            hypotheses = [parse_result(result, item.beta) for result in self._queue.wait(item.job)]
            yield item.batch, list(zip(item.batch, hypotheses, strict=True))

    def _search(self, queued: list[_QueuedBatch], options: DecodingOptions) -> list[_Result]:
        """A batch has the limit of its longest source. Sentences that exceed their own limit are searched again."""
        results: list[_Result] = []
        too_long: list[_Result] = []
        for batch, batch_results in self._wait(queued):
            limit = max(item.limit for item in batch)
            for item, hypotheses in batch_results:
                longest = max(len(hypothesis.ids) + hypothesis.ended for hypothesis in hypotheses)
                exceeds = item.limit < limit and longest >= item.limit
                (too_long if exceeds else results).append((item, hypotheses))
        if options.beam == 1:
            return results + self._cut(too_long)
        batches = make_batches_by_limit([item for item, _ in too_long], self._n_workers, options.beam)
        for _, batch_results in self._wait(self._submit(self._translator, batches, options)):
            results += batch_results
        return results

    def _cut(self, too_long: list[_Result]) -> list[_Result]:
        """Greedy search with a limit gives the beginning of greedy search without one: no need to search again."""
        cut = [
            (item, hypotheses[0].ids[: item.limit], len(hypotheses[0].ids) < item.limit)
            for item, hypotheses in too_long
        ]
        log_probs = self._log_probs([item.source for item, _, _ in cut], [ids for _, ids, _ in cut])
        return [
            (item, [RawHypothesis(ids, ended, sum(ids_log_probs[: len(ids) + ended]))])
            for (item, ids, ended), ids_log_probs in zip(cut, log_probs, strict=True)
        ]

    def _sample(self, items: list[BatchItem], options: DecodingOptions) -> list[_Result]:
        """Random translations: the same ones for the same sources and seed.

        A thread of CTranslate2 reads the seed only once, when it first draws. So each call starts a new thread.
        """
        assert options.sampling is not None
        with _seed_lock:
            ctranslate2.set_random_seed(options.sampling.seed)
            queued = self._submit(self._load(1), make_batches_by_limit(items, 1), options)
            return [result for _, batch_results in self._wait(queued) for result in batch_results]

    def _second_pass(
        self, sources: Sequence[Ids], ordered: list[list[RawHypothesis]], options: DecodingOptions, with_attention: bool
    ) -> NBestLists:
        """The same hypotheses with the model's own log-probability of each token, and ranked by these."""
        pairs = [(source, raw.ids) for source, hypotheses in zip(sources, ordered, strict=True) for raw in hypotheses]
        flat_sources, flat_targets = [source for source, _ in pairs], [target for _, target in pairs]
        flat_log_probs = iter(self._log_probs(flat_sources, flat_targets))
        has_attention = with_attention and self._has_alignment_head
        flat_attention = iter(self._attention(flat_sources, flat_targets) if has_attention else repeat(None))
        n_best_lists = []
        for hypotheses in ordered:
            scored = []
            for raw in hypotheses:
                log_probs = next(flat_log_probs)[: len(raw.ids) + raw.ended]
                score = replace(raw, total=sum(log_probs)).score(options.length_penalty)
                scored.append(Hypothesis(raw.ids, log_probs, score, next(flat_attention)))
            n_best_lists.append(sorted(scored, key=lambda hypothesis: -hypothesis.score))
        return n_best_lists

    def _attention(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[tuple[tuple[float, ...], ...]]:
        """For each target (target length, source length): weights of the alignment head at the step of each token."""
        attention: list[tuple[tuple[float, ...], ...]] = [()] * len(targets)
        items = [item for item in _forced_items(sources, targets) if item.source and item.prefix]

        def decode(sources: list[list[str]], prefixes: list[list[str]], **settings: Any) -> list[Any]:
            settings |= {"beam_size": 1, "max_decoding_length": max(map(len, prefixes)), "return_attention": True}
            return list(self._translator.translate_batch(sources, prefixes, **settings))

        for item, result in self._run_forced(items, decode):
            rows = result.attention[0][: len(item.prefix)]
            attention[item.index] = tuple(tuple(row[: len(item.source)]) for row in rows)
        return attention

    def _log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[tuple[float, ...]]:
        """For each target the log-probabilities of its tokens and of the end token."""
        log_probs: list[tuple[float, ...]] = [()] * len(targets)
        items = sorted(_forced_items(sources, targets), key=lambda item: len(item.prefix))
        for item, result in self._run_forced(items, self._translator.score_batch, MAX_SCORED_TOKENS):
            log_probs[item.index] = tuple(result.log_probs)
        return log_probs

    def _run_forced(
        self, items: list[BatchItem], run: Callable[..., list[Any]], max_tokens: int = MAX_TOKENS
    ) -> Iterator[tuple[BatchItem, Any]]:
        """Each item with its result of `run`, which is called for all batches before the first result is awaited."""
        batches = make_batches(items, self._n_workers, max_tokens=max_tokens)
        submitted = [
            run(
                self._tokens((item.source for item in batch), add_end=True),
                self._tokens(item.prefix for item in batch),
                max_input_length=0,
                asynchronous=True,
            )
            for batch in batches
        ]
        for batch, futures in zip(batches, submitted, strict=True):
            for item, future in zip(batch, futures, strict=True):
                yield item, future.result()

    def _tokens(self, sequences: Iterable[Ids], add_end: bool = False) -> list[list[str]]:
        """Ids as strings, the tokens of the converted model."""
        names, end = self._token_names, [END] if add_end else []
        return [[names[i] for i in ids] + end for ids in sequences]


def _forced_items(sources: Sequence[Ids], targets: Sequence[Ids]) -> list[BatchItem]:
    """Items for forced decoding, with the targets as prefixes."""
    return [BatchItem(i, source, target, 0) for i, (source, target) in enumerate(zip(sources, targets, strict=True))]


def _in_order(items: list[BatchItem], results: list[_Result], options: DecodingOptions) -> list[list[RawHypothesis]]:
    """The ranked hypotheses in the order of the sources. An empty source has an empty translation."""
    by_index = {item.index: rank(hypotheses, options) for item, hypotheses in results}
    return [by_index.get(item.index) or [RawHypothesis(tuple(item.prefix), True, 0.0)] for item in items]
