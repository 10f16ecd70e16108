"""The fast engine: CTranslate2 on the CPU, int8 or float32. No torch is imported here.

How CTranslate2 searches (its `decoding.cc`), as far as another search has to know it to give the same answers:
- each step looks at the 2·beam best continuations. Of the first `beam` of them, those that end are finished
  hypotheses, and the best of the others that do not end take their places; an end among the second `beam` is lost;
- a sentence is done as soon as it has `beam` finished hypotheses (the last step may bring more than that), whatever
  the hypotheses that are still alive could become. With a length penalty of exactly 0 it would stop earlier, so it is
  never given 0;
- at the length limit, which counts the end symbol, the first `beam` continuations are finished as they are;
- a hypothesis is then worth Σ log p / length^β, and only the `beam` best are given back, which are ranked again here
  by ((5 + length) / 6)^α. β is chosen so that both penalties grow alike at the length of the source: what is lost
  are the worst of the surplus;
- a symbol that may not come is taken out before the softmax, so its probability goes to the others, and a forced
  prefix costs nothing. Where that matters, hypotheses are scored again here, by forced decoding;
- behind a forced prefix, the end may come next only as the single best continuation;
- the attention that it gives for the first symbol of a beam search is another sentence's (seen in 4.8.4), so the
  hypotheses are gone through once more for their attention, greedily, as forced prefixes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import ctranslate2

from regard.decoding.penalties import gnmt
from regard.decoding.records import DecodingOptions, Hypothesis, check_options
from regard.engines.model_file import check_converted
from regard.errors import ArtifactError, DataError
from regard.text.vocabulary import EOS_ID

Ids = Sequence[int]
ComputeType = Literal["int8", "float32"]

TOKENS_PER_BATCH = 512  # of the source, padding included
SENTENCES_PER_BATCH = 64
_SMALLEST_BETA = 1e-9  # in float32, length to this power is 1
_IMPOSSIBLE = -1e9  # CTranslate2 fills up with hypotheses of about -1e10 where there are not enough
_END = str(EOS_ID)
_AGAIN = "copy the model again from where it was made"

_seeding = Lock()  # CTranslate2 has one seed for the whole process


@dataclass(frozen=True)
class _Job:
    """One sentence: its place in the list that was given, and the most symbols that it may become."""

    place: int
    source: Ids
    prefix: Ids
    limit: int


@dataclass(frozen=True)
class _Found:
    """A hypothesis as the search left it."""

    ids: tuple[int, ...]
    ended: bool  # or cut off at the limit
    total: float  # Σ log p

    def score(self, alpha: float) -> float:
        return self.total / gnmt(len(self.ids) + self.ended, alpha)


class CTranslate2Engine:
    """A converted model, run by `n_threads` workers of one thread each (as many as there are cores).

    One worker of two threads does half the work of two workers of one, and takes longer for a single sentence too.
    """

    name = "ctranslate2"

    def __init__(self, directory: Path, *, compute_type: ComputeType = "int8", n_threads: int | None = None) -> None:
        self._directory, self._compute_type = directory, compute_type
        self.max_positions, n_src, n_tgt, self._aligns = check_converted(directory)
        self._n_symbols = (n_src, n_tgt)
        self._n_workers = n_threads or len(os.sched_getaffinity(0))
        self._names = [str(i) for i in range(max(n_src, n_tgt))]
        self._translator: Any = self._load(self._n_workers)

    def translate(
        self,
        sources: Sequence[Ids],
        options: DecodingOptions,
        prefixes: Sequence[Ids] | None = None,
        with_attention: bool = False,
    ) -> list[list[Hypothesis]]:
        """For each source (ids without end symbol), its `n_best` hypotheses, best first.

        `with_attention` fills in the weights of the model's alignment head over the source without its end symbol; a
        model that names no such head leaves them out. It also fills in `log_probs`, which cost a second pass: they are
        empty otherwise. An empty source stays empty.
        """
        check_options(options)
        jobs = self._jobs(sources, options, prefixes)
        waiting = [job for job in jobs if job.source]
        answers = self._sample(waiting, options) if options.sampling is not None else self._search(waiting, options)
        found = {job.place: _ranked(some, options) for job, some in answers}
        for job in jobs:
            if not job.source:
                found[job.place] = [_Found(tuple(job.prefix), True, 0.0)]
        ordered = [found[job.place] for job in jobs]
        if with_attention or prefixes is not None or _constrains(options):
            return self._looked_into(sources, ordered, options, with_attention)
        return [[Hypothesis(one.ids, (), one.score(options.length_penalty)) for one in some] for some in ordered]

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
            )
        except (RuntimeError, ValueError) as error:
            raise ArtifactError(f"{self._directory} is not a CTranslate2 model: {error}", hint=_AGAIN) from error

    def _jobs(self, sources: Sequence[Ids], options: DecodingOptions, prefixes: Sequence[Ids] | None) -> list[_Job]:
        forced = prefixes if prefixes is not None else [()] * len(sources)
        self._require_known(sources, 0)
        self._require_known(forced, 1)
        jobs = []
        for place, (source, prefix) in enumerate(zip(sources, forced, strict=True)):
            limit = max(len(source) + options.extra_length, len(prefix) + 1)  # the end symbol counts
            jobs.append(_Job(place, source, prefix, min(limit, self.max_positions - 1)))  # begin has a position too
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

    def _search(self, jobs: list[_Job], options: DecodingOptions) -> list[_Answer]:
        """A batch has one limit, that of its longest source: a sentence that reached its own goes again with that."""
        done, again = [], []
        batches = _batches(jobs, self._n_workers)
        for batch, answers in self._run(self._translator, batches, options):
            limit = max(job.limit for job in batch)
            for job, found in answers:
                cut = job.limit < limit and max(len(one.ids) + one.ended for one in found) >= job.limit
                again.append(job) if cut else done.append((job, found))
        for _, answers in self._run(self._translator, _of_one_limit(again, self._n_workers), options):
            done += answers
        return done

    def _sample(self, jobs: list[_Job], options: DecodingOptions) -> list[_Answer]:
        """Draw translations: the same ones for the same list and seed.

        A thread of CTranslate2 takes the seed once, when it first draws, so each call has one new thread of its own.
        """
        assert options.sampling is not None
        with _seeding:
            ctranslate2.set_random_seed(options.sampling.seed)
            answered = self._run(self._load(1), _of_one_limit(jobs, 1), options)
            return [answer for _, answers in answered for answer in answers]

    def _run(
        self, translator: Any, batches: list[list[_Job]], options: DecodingOptions
    ) -> Iterator[tuple[list[_Job], list[_Answer]]]:
        """All batches at once to the workers; the answers come in the order of the batches."""
        settings = _settings(options, self._n_symbols[1])
        betas = [_beta(options.length_penalty, max(len(job.source) for job in batch)) for batch in batches]
        waiting = []
        for batch, beta in zip(batches, betas, strict=True):
            limit = max(job.limit for job in batch)
            waiting.append(
                translator.translate_batch(
                    self._tokens((job.source for job in batch), end=True),
                    self._tokens(job.prefix for job in batch) if batch[0].prefix else None,
                    max_decoding_length=limit,
                    min_decoding_length=min(options.min_length, limit),
                    length_penalty=beta,
                    **settings,
                )
            )
        for batch, beta, results in zip(batches, betas, waiting, strict=True):
            yield batch, [(job, _found(one.result(), beta)) for job, one in zip(batch, results, strict=True)]

    def _looked_into(
        self, sources: Sequence[Ids], found: list[list[_Found]], options: DecodingOptions, with_attention: bool
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
        jobs = [_Job(i, source, target, 0) for i, (source, target) in enumerate(zip(sources, targets, strict=True))]
        batches = _batches([job for job in jobs if job.source and job.prefix], self._n_workers)
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
        jobs = [_Job(i, source, target, 0) for i, (source, target) in enumerate(zip(sources, targets, strict=True))]
        batches = _batches(sorted(jobs, key=lambda job: len(job.prefix)), self._n_workers)
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
        names, last = self._names, [_END] if end else []
        return [[names[i] for i in ids] + last for ids in sequences]


_Answer = tuple[_Job, list[_Found]]


def _settings(options: DecodingOptions, n_symbols: int) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "asynchronous": True,
        "max_input_length": 0,
        "return_end_token": True,
        "return_scores": True,
        "beam_size": options.beam,
        "num_hypotheses": options.beam,
        "no_repeat_ngram_size": options.no_repeat_ngram,
        "suppress_sequences": [[str(i)] for i in options.banned] or None,
    }
    if options.sampling is not None:
        settings |= {
            "beam_size": 1,
            "num_hypotheses": options.n_best,
            "sampling_topk": min(options.sampling.top_k, n_symbols),
            "sampling_topp": options.sampling.top_p,
            "sampling_temperature": options.sampling.temperature,
        }
    return settings


def _beta(alpha: float, length: int) -> float:
    """The exponent with which length^β grows as ((5 + length) / 6)^α does; never 0, which is another search."""
    return max(alpha * length / (length + 5), _SMALLEST_BETA)


def _found(result: Any, beta: float) -> list[_Found]:
    """What CTranslate2 gives, its own length penalty taken back."""
    done = []
    for tokens, score in zip(result.hypotheses, result.scores, strict=True):
        ended = bool(tokens) and tokens[-1] == _END
        ids = tuple(map(int, tokens[:-1] if ended else tokens))
        done.append(_Found(ids, ended, score * len(tokens) ** beta))
    return [one for one in done if one.total > _IMPOSSIBLE] or done[:1]


def _ranked(found: list[_Found], options: DecodingOptions) -> list[_Found]:
    return sorted(found, key=lambda one: -one.score(options.length_penalty))[: options.n_best]


def _constrains(options: DecodingOptions) -> bool:
    """Whether the probabilities of the search are others than the model's."""
    return bool(options.min_length or options.no_repeat_ngram or options.banned or options.sampling)


def _batches(jobs: Sequence[_Job], n_workers: int) -> list[list[_Job]]:
    """Sources of like length together, the longest first; forced prefixes apart; work for every worker."""
    most = min(SENTENCES_PER_BATCH, max(1, -(-len(jobs) // n_workers)))
    batches: list[list[_Job]] = []
    for job in sorted(jobs, key=lambda job: (not job.prefix, -len(job.source))):
        batch = batches[-1] if batches else []
        full = len(batch) == most or (len(batch) + 1) * (len(batch[0].source) + 1) > TOKENS_PER_BATCH if batch else True
        if full or bool(batch[0].prefix) != bool(job.prefix):
            batches.append([job])
        else:
            batch.append(job)
    return batches


def _of_one_limit(jobs: Sequence[_Job], n_workers: int) -> list[list[_Job]]:
    limits = sorted({job.limit for job in jobs}, reverse=True)
    alike = [[job for job in jobs if job.limit == limit] for limit in limits]
    return [batch for group in alike for batch in _batches(group, n_workers)]
