"""The fast engine: CTranslate2 on the CPU, int8 or float32. No torch is imported here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import ctranslate2

from regard.decoding.options import DecodingOptions, Hypothesis, check_options, gnmt
from regard.engines.ctranslate2.model_file import check_converted
from regard.engines.ctranslate2.search import (
    END,
    Job,
    RawHypothesis,
    batches_of,
    beta_of,
    constrains,
    of_one_limit,
    outcomes_of,
    ranked,
    settings_of,
)
from regard.engines.engine import Ids, NBestLists, PendingHypotheses, n_cores
from regard.errors import ArtifactError, DataError

ComputeType = Literal["int8", "float32"]

_AGAIN = "copy the model again from where it was made"

_seeding = Lock()  # CTranslate2 has one seed for the whole process


@dataclass(frozen=True)
class _Running:
    """A batch that the workers have, and what will be its results."""

    batch: list[Job]
    beta: float
    results: list[Any]


class CTranslate2Engine:
    """A converted model, run by `n_threads` workers of one thread each (as many as there are cores).

    One worker of two threads does half the work of two workers of one, and takes longer for a single sentence too.
    """

    name = "ctranslate2"

    def __init__(
        self,
        directory: Path,
        *,
        compute_type: ComputeType = "int8",
        n_threads: int | None = None,
        n_symbols: tuple[int, int] | None = None,
    ) -> None:
        self._directory, self._compute_type = directory, compute_type
        self.max_positions, n_src, n_tgt, self._aligns = check_converted(directory)
        self._n_symbols = (n_src, n_tgt)
        if n_symbols is not None and n_symbols != self._n_symbols:  # of the tokenizers beside it
            message = f"{directory} has {self._n_symbols} symbols, and the tokenizers beside it {n_symbols}"
            raise ArtifactError(message, hint=_AGAIN)
        self._n_workers = n_threads or n_cores()
        self._names = [str(i) for i in range(max(n_src, n_tgt))]
        self._translator: Any = self._load(self._n_workers)

    def translate(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> NBestLists:
        """For each source (ids without end symbol), its `n_best` hypotheses, best first.

        `with_attention` fills in the weights of the model's alignment head over the source without its end symbol; a
        model that names no such head leaves them out. It also fills in `log_probs`, which cost a second pass: they are
        empty otherwise. An empty source stays empty.
        """
        return self.submit(sources, options, prefixes, with_attention).result()

    def submit(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> PendingHypotheses:
        """Queue the batches for the workers. Only sampling does all its work in `result()`."""
        check_options(options)
        jobs = self._jobs(sources, options, prefixes)
        waiting = [job for job in jobs if job.source]
        if options.sampling is not None:
            answers = partial(self._sample, waiting, options)
        else:
            running = self._start(self._translator, batches_of(waiting, self._n_workers, options.beam), options)
            answers = partial(self._search, running, options)
        looks = with_attention or prefixes is not None or constrains(options)

        def found() -> NBestLists:
            ordered = _in_order(jobs, answers(), options)
            if looks:
                return self._looked_into(sources, ordered, options, with_attention)
            alpha = options.length_penalty
            return [[Hypothesis(one.ids, (), one.score(alpha)) for one in some] for some in ordered]

        return PendingHypotheses(found)

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Hypothesis]:
        """The given targets as hypotheses, scored with the default length penalty: forced decoding."""
        self._require_known(sources, 0)
        self._require_known(targets, 1)
        alpha = DecodingOptions().length_penalty
        return [
            Hypothesis(tuple(target), log_probs, sum(log_probs) / gnmt(len(log_probs), alpha))
            for target, log_probs in zip(targets, self._log_probs(sources, targets), strict=True)
        ]

    def close(self) -> None:
        """Give back threads and memory."""
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
            raise ArtifactError(f"{self._directory} is not a CTranslate2 model: {error}", hint=_AGAIN) from error

    def _jobs(self, sources: Sequence[Ids], options: DecodingOptions, prefixes: Sequence[Ids] | None) -> list[Job]:
        forced = prefixes if prefixes is not None else [()] * len(sources)
        self._require_known(sources, 0)
        self._require_known(forced, 1)
        jobs = []
        for place, (source, prefix) in enumerate(zip(sources, forced, strict=True)):
            limit = max(len(source) + options.extra_length, len(prefix) + 1)  # the end symbol counts
            jobs.append(Job(place, source, prefix, min(limit, self.max_positions - 1)))  # begin has a position too
        return jobs

    def _require_known(self, sequences: Sequence[Ids], side: int) -> None:
        n_symbols = self._n_symbols[side]
        for ids in sequences:
            if len(ids) >= self.max_positions:
                raise DataError(
                    f"a text of {len(ids):,} symbols is longer than the model's {self.max_positions:,} positions",
                    hint="split it into shorter lines",
                )
            if len(ids) and not (min(ids) >= 0 and max(ids) < n_symbols):
                raise ValueError(f"an id is outside the vocabulary of {n_symbols}")

    def _search(self, running: list[_Running], options: DecodingOptions) -> list[_Answer]:
        """A batch has one limit, that of its longest source: a sentence that reached its own goes again with that."""
        done: list[_Answer] = []
        over: list[_Answer] = []
        for batch, answers in _answered(running):
            limit = max(job.limit for job in batch)
            for job, found in answers:
                reached = job.limit < limit and max(len(one.ids) + one.ended for one in found) >= job.limit
                (over if reached else done).append((job, found))
        if options.beam == 1:
            return done + self._cut(over)
        again = of_one_limit([job for job, _ in over], self._n_workers, options.beam)
        for _, answers in _answered(self._start(self._translator, again, options)):
            done += answers
        return done

    def _cut(self, over: list[_Answer]) -> list[_Answer]:
        """A greedy search that ends at its limit finds the beginning of what it finds without."""
        cut = [(job, found[0].ids[: job.limit], len(found[0].ids) < job.limit) for job, found in over]
        log_probs = self._log_probs([job.source for job, _, _ in cut], [ids for _, ids, _ in cut])
        return [
            (job, [RawHypothesis(ids, ended, sum(known[: len(ids) + ended]))])
            for (job, ids, ended), known in zip(cut, log_probs, strict=True)
        ]

    def _sample(self, jobs: list[Job], options: DecodingOptions) -> list[_Answer]:
        """Draw translations: the same ones for the same list and seed.

        A thread of CTranslate2 takes the seed once, when it first draws, so each call has one new thread of its own.
        """
        assert options.sampling is not None
        with _seeding:
            ctranslate2.set_random_seed(options.sampling.seed)
            running = self._start(self._load(1), of_one_limit(jobs, 1), options)
            return [answer for _, answers in _answered(running) for answer in answers]

    def _start(self, translator: Any, batches: list[list[Job]], options: DecodingOptions) -> list[_Running]:
        """All batches at once to the workers."""
        settings = settings_of(options, self._n_symbols[1])
        running = []
        for batch in batches:
            limit = max(job.limit for job in batch)
            beta = beta_of(options.length_penalty, max(len(job.source) for job in batch))
            results = translator.translate_batch(
                self._tokens((job.source for job in batch), end=True),
                self._tokens(job.prefix for job in batch) if batch[0].prefix else None,
                max_decoding_length=limit,
                min_decoding_length=min(options.min_length, limit),
                length_penalty=beta,
                **settings,
            )
            running.append(_Running(batch, beta, results))
        return running

    def _looked_into(
        self, sources: Sequence[Ids], found: list[list[RawHypothesis]], options: DecodingOptions, with_attention: bool
    ) -> list[list[Hypothesis]]:
        """The same hypotheses with what the model itself says of each symbol, ranked by that."""
        pairs = [(source, one) for source, some in zip(sources, found, strict=True) for one in some]
        flat_sources, flat_targets = [source for source, _ in pairs], [one.ids for _, one in pairs]
        log_probs = iter(self._log_probs(flat_sources, flat_targets))
        attention = iter(
            self._attention(flat_sources, flat_targets) if with_attention and self._aligns else repeat(None)
        )
        done = []
        for some in found:
            scored = []
            for one in some:
                known = next(log_probs)[: len(one.ids) + one.ended]
                score = replace(one, total=sum(known)).score(options.length_penalty)
                scored.append(Hypothesis(one.ids, known, score, next(attention)))
            done.append(sorted(scored, key=lambda one: -one.score))
        return done

    def _attention(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[tuple[tuple[float, ...], ...]]:
        """The alignment head's weights at the steps that give each target symbol."""
        done: list[tuple[tuple[float, ...], ...]] = [()] * len(targets)
        jobs = [Job(i, source, target, 0) for i, (source, target) in enumerate(zip(sources, targets, strict=True))]
        batches = batches_of([job for job in jobs if job.source and job.prefix], self._n_workers)
        waiting = [
            self._translator.translate_batch(
                self._tokens((job.source for job in batch), end=True),
                self._tokens(job.prefix for job in batch),
                beam_size=1,
                max_decoding_length=max(len(job.prefix) for job in batch),
                max_input_length=0,
                return_attention=True,
                asynchronous=True,
            )
            for batch in batches
        ]
        for batch, results in zip(batches, waiting, strict=True):
            for job, one in zip(batch, results, strict=True):
                rows = one.result().attention[0][: len(job.prefix)]
                done[job.place] = tuple(tuple(row[: len(job.source)]) for row in rows)
        return done

    def _log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[tuple[float, ...]]:
        """Of every target symbol, and of the end behind them."""
        jobs = [Job(i, source, target, 0) for i, (source, target) in enumerate(zip(sources, targets, strict=True))]
        batches = batches_of(sorted(jobs, key=lambda job: len(job.prefix)), self._n_workers)
        waiting = [
            self._translator.score_batch(
                self._tokens((job.source for job in batch), end=True),
                self._tokens(job.prefix for job in batch),
                max_input_length=0,
                asynchronous=True,
            )
            for batch in batches
        ]
        done: list[tuple[float, ...]] = [()] * len(jobs)
        for batch, results in zip(batches, waiting, strict=True):
            for job, one in zip(batch, results, strict=True):
                done[job.place] = tuple(one.result().log_probs)
        return done

    def _tokens(self, sequences: Iterable[Ids], end: bool = False) -> list[list[str]]:
        """Ids as CTranslate2 reads them."""
        names, last = self._names, [END] if end else []
        return [[names[i] for i in ids] + last for ids in sequences]


_Answer = tuple[Job, list[RawHypothesis]]


def _answered(running: list[_Running]) -> Iterator[tuple[list[Job], list[_Answer]]]:
    """Each batch with its answers, as soon as they are there."""
    for one in running:
        yield (
            one.batch,
            [(job, outcomes_of(r.result(), one.beta)) for job, r in zip(one.batch, one.results, strict=True)],
        )


def _in_order(jobs: list[Job], answers: list[_Answer], options: DecodingOptions) -> list[list[RawHypothesis]]:
    """As the sources came; an empty one stays empty."""
    found = {job.place: ranked(some, options) for job, some in answers}
    return [found.get(job.place) or [RawHypothesis(tuple(job.prefix), True, 0.0)] for job in jobs]
