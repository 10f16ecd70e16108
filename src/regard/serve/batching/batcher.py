"""Dynamic batching: inputs of several requests are processed together, in batches limited by tokens.

Everything except the model itself runs on the event loop, so no locks are needed. There is one translator per core, so
that a batch is never split, and two threads per translator: while one waits for the engine, the other tokenizes its
next batch or detokenizes its last one. A predictor of another task has one thread: it may not be thread-safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from regard.errors import UserError
from regard.serve.batching.jobs import Job
from regard.serve.batching.worker import Worker
from regard.serve.http.problem import Problem, deadline_exceeded, engine_failed, too_busy
from regard.serve.settings import Settings

MAX_BATCH_TOKENS = 1024  # source tokens, with padding
MAX_BATCH_TEXTS = 64
_BUSY_WAIT_FACTOR = 5  # while a batch runs, its clients may soon send more: wait longer for a full batch
_CLOSE_SECONDS = 2.0
_MIN_TOKENS_PER_SECOND = 100.0  # an engine that is slower counts as stuck
_INITIAL_TOKENS_PER_SECOND = 1_000.0  # before anything is measured
_AVERAGING_SECONDS = 10.0  # busy time after which a measurement has a weight of 1/e


@dataclass(eq=False)
class _PendingRequest:
    """The inputs of one request, with the results that are finished."""

    results: list[Any]
    n_remaining: int
    future: asyncio.Future[list[Any]]


@dataclass(eq=False)
class _QueuedInput:
    """One text, or other input, that is queued or being processed."""

    request: _PendingRequest
    index: int  # within its request
    value: Any
    n_tokens: int
    job: Job  # only inputs with equal jobs share a batch
    queued_at: float


@dataclass
class Throughput:
    """Counters, and the speed while at least one worker is busy, as an exponentially weighted average."""

    n_batches: int = 0
    n_texts: int = 0
    n_tokens: int = 0  # source tokens translated
    n_wasted_tokens: int = 0  # translated after the client had disconnected
    n_dropped_tokens: int = 0  # removed from the queue: the client disconnected, or its deadline passed
    n_refused: int = 0  # requests refused with 429
    _n_running: int = 0
    _measured_at: float = 0.0
    _tokens: float = 0.0
    _seconds: float = 0.0

    def start_batch(self) -> None:
        if not self._n_running:
            self._measured_at = monotonic()
        self._n_running += 1

    def end_batch(self, n_texts: int, n_tokens: int, n_wasted_tokens: int, saturated: bool) -> None:
        """`saturated`: the batch was large and more texts were queued; only such batches measure the engine's speed."""
        now = monotonic()
        if saturated:
            elapsed = max(now - self._measured_at, 1e-6)
            decay = max(0.0, 1 - elapsed / _AVERAGING_SECONDS)
            self._tokens = self._tokens * decay + n_tokens
            self._seconds = self._seconds * decay + elapsed
        self._measured_at = now
        self._n_running -= 1
        self.n_batches += 1
        self.n_texts += n_texts
        self.n_tokens += n_tokens
        self.n_wasted_tokens += n_wasted_tokens

    @property
    def tokens_per_second(self) -> float:
        return self._tokens / self._seconds if self._seconds else _INITIAL_TOKENS_PER_SECOND

    def estimate_seconds(self, n_tokens: float) -> float:
        return n_tokens / max(self.tokens_per_second, 1.0)


class Batcher:
    """The queue of one model. Created on the event loop and only used from it."""

    def __init__(
        self,
        predictors: Sequence[Any],  # what the jobs of this model need: Translators, or one Predictor
        settings: Settings,
        *,
        threads_per_predictor: int = 2,
    ) -> None:
        self._predictors, self._settings = predictors, settings
        self.throughput = Throughput()
        self._queues: dict[Job, dict[_QueuedInput, None]] = {}  # dicts as ordered sets: removal is O(1)
        self._running: dict[Worker, list[_QueuedInput]] = {}
        threads = enumerate([*predictors] * threads_per_predictor)
        self._workers = {Worker(f"engine-{number}"): predictor for number, predictor in threads}
        self._timer: asyncio.TimerHandle | None = None
        self._failed = False
        self.n_waiting = self.n_waiting_tokens = 0
        self._n_refused_texts = 0  # size of the largest request that was refused since the queue became full

    def close(self) -> bool:
        """Ends the workers; returns False if one of them is stuck."""
        for worker in self._workers:
            worker.close()
        ended = [worker.join(_CLOSE_SECONDS) for worker in self._workers]
        return all(ended)

    async def run(
        self,
        job: Job,
        inputs: Sequence[Any],
        count_tokens: Callable[[Any], int],
        *,
        deadline_seconds: float,
        admitted: bool = False,
    ) -> list[Any]:
        """The result for each input. Raises a Problem if the queue is full, the deadline passes or the engine fails.

        `admitted`: the inputs belong to a request that `admit` has accepted, so the limit of the queue does not apply.
        """
        if self._failed:
            raise engine_failed()
        if not inputs:
            return []
        if not admitted:
            self.admit(len(inputs), deadline_seconds)
        sizes = [count_tokens(value) for value in inputs]
        if not admitted:
            self.check_work(sum(sizes), job.beam, deadline_seconds)
        request = _PendingRequest([None] * len(inputs), len(inputs), asyncio.get_running_loop().create_future())
        now = monotonic()
        queued = [
            _QueuedInput(request, index, value, n_tokens, job, now)
            for index, (value, n_tokens) in enumerate(zip(inputs, sizes, strict=True))
        ]
        self._enqueue(queued)
        try:
            async with asyncio.timeout(deadline_seconds):
                return await request.future
        except TimeoutError:
            raise deadline_exceeded(deadline_seconds) from None
        finally:
            self._drop(queued)

    def health(self) -> str | None:
        """What is wrong with the workers, or None."""
        if self._failed:
            return "failed"
        for worker in self._workers:
            if worker.ended_by is not None:
                return f"dead ({worker.ended_by})"
            if worker.busy_seconds > self._settings.stall_seconds + self._max_running_seconds():
                return "stuck"
        return None

    def _max_running_seconds(self) -> float:
        """How long a large model on a slow machine could take for the running batches."""
        running = (item for batch in self._running.values() for item in batch)
        work = sum(_work(item.n_tokens, item.job.beam) for item in running)
        return work / min(self.throughput.tokens_per_second, _MIN_TOKENS_PER_SECOND)

    def fail(self) -> None:
        """Fails all current and future requests."""
        self._failed = True
        running = [item for batch in self._running.values() for item in batch]
        queued = [item for queue in self._queues.values() for item in queue]
        for item in running + queued:
            _reject(item.request, engine_failed())

    def admit(self, n_texts: int, deadline_seconds: float) -> None:
        """Raises a Problem if the queue is full or too slow for the deadline. An empty queue accepts any request.

        Small requests do not overtake a large one that was refused: the queue counts as full until the large one fits.
        """
        if self.n_waiting and self.n_waiting + n_texts > self._settings.max_waiting:
            self._n_refused_texts = max(self._n_refused_texts, n_texts)
        if self.full or (self.n_waiting and self.waiting_seconds > deadline_seconds / 2):
            self.throughput.n_refused += 1
            raise too_busy(self.waiting_seconds)
        self._n_refused_texts = 0

    def check_work(self, n_tokens: int, beam: int, deadline_seconds: float) -> None:
        """Raises a Problem if the deadline would pass even on an idle engine: it would only delay other requests."""
        seconds = self.throughput.estimate_seconds(_work(n_tokens, beam))
        if seconds > deadline_seconds:
            message = (
                f"this would take about {seconds:,.0f} s, and the limit is {deadline_seconds:g} s; send less at once"
            )
            raise Problem(413, "too_much", message)

    @property
    def full(self) -> bool:
        """Whether every request is refused, whatever its size."""
        n_refused = self._n_refused_texts
        return n_refused > 0 and self.n_waiting > 0 and self.n_waiting + n_refused > self._settings.max_waiting

    @property
    def waiting_seconds(self) -> float:
        """Estimated time for what is queued."""
        return self.throughput.estimate_seconds(self.n_waiting_tokens)

    def _enqueue(self, items: list[_QueuedInput]) -> None:
        self._queues.setdefault(items[0].job, {}).update(dict.fromkeys(items))
        self.n_waiting += len(items)
        self.n_waiting_tokens += sum(item.n_tokens for item in items)
        self._start_batches()

    def _drop(self, items: list[_QueuedInput]) -> None:
        """Removes what is still queued: the request has failed, its client has disconnected or its deadline passed."""
        for item in items:
            queue = self._queues.get(item.job)
            if queue is not None and item in queue:
                self._remove(item)
                self.throughput.n_dropped_tokens += item.n_tokens

    def _remove(self, item: _QueuedInput) -> None:
        queue = self._queues[item.job]
        del queue[item]
        if not queue:
            del self._queues[item.job]
        self.n_waiting -= 1
        self.n_waiting_tokens -= item.n_tokens

    def _start_batches(self) -> None:
        """Starts batches while a predictor is idle, and enough texts are queued or one has waited long enough.

        Enough is one predictor's share of all queued and running texts, because two small batches take longer than
        one of twice the size. A busy predictor gets its next batch early if that batch is full.
        """
        while self._queues and not self._failed:
            busy = [self._workers[worker] for worker in self._running]
            worker = self._idle_worker(busy)
            if worker is None:
                return
            queue = min(self._queues.values(), key=lambda items: next(iter(items)).queued_at)
            n_running = sum(map(len, self._running.values()))
            share = min(MAX_BATCH_TEXTS, -(-(self.n_waiting + n_running) // len(self._predictors)))
            due = next(iter(queue)).queued_at + self._settings.wait_seconds * (_BUSY_WAIT_FACTOR if busy else 1)
            if len(queue) < MAX_BATCH_TEXTS and all(predictor in busy for predictor in self._predictors):
                return
            if len(queue) < (share if busy else MAX_BATCH_TEXTS) and monotonic() < due:
                self._set_timer(due)
                return
            self._start_batch(worker, _choose(list(queue), share))

    def _idle_worker(self, busy: list[Any]) -> Worker | None:
        """The idle worker whose predictor has the fewest running batches."""
        idle = (worker for worker in self._workers if worker not in self._running)
        return min(idle, key=lambda worker: busy.count(self._workers[worker]), default=None)

    def _set_timer(self, due: float) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, due - monotonic()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._start_batches()

    def _start_batch(self, worker: Worker, batch: list[_QueuedInput]) -> None:
        for item in batch:
            self._remove(item)
        self._running[worker] = batch
        large = len(batch) >= MAX_BATCH_TEXTS // 4 or sum(item.n_tokens for item in batch) >= MAX_BATCH_TOKENS // 4
        saturated = self.n_waiting > 0 and large
        predictor, job = self._workers[worker], batch[0].job
        values = [item.value for item in batch]
        self.throughput.start_batch()
        future = worker.submit(lambda: _run_batch(predictor, values, job))
        future.add_done_callback(lambda finished: self._end_batch(worker, finished, saturated))

    def _end_batch(self, worker: Worker, finished: asyncio.Future[list[Any]], saturated: bool) -> None:
        batch = self._running.pop(worker)
        results = finished.result()
        n_wasted_tokens = sum(item.n_tokens for item in batch if item.request.future.done())
        self.throughput.end_batch(len(batch), sum(item.n_tokens for item in batch), n_wasted_tokens, saturated)
        for item, result in zip(batch, results, strict=True):
            _deliver(item, result)
        self._start_batches()


def _work(n_tokens: int, beam: int) -> float:
    """Tokens, weighted by how much slower a beam is than the default of 4."""
    return n_tokens * max(1.0, beam / 4)


def _choose(items: list[_QueuedInput], max_texts: int) -> list[_QueuedInput]:
    """A batch with the oldest text and others of similar length, so that there is little padding."""
    if len(items) > max_texts:
        oldest = items[0]
        items = sorted(items, key=lambda item: (item is not oldest, abs(item.n_tokens - oldest.n_tokens)))
    chosen: list[_QueuedInput] = []
    longest = 0
    for item in items[:max_texts]:
        longest = max(longest, item.n_tokens)
        if chosen and (longest + 1) * (len(chosen) + 1) > MAX_BATCH_TOKENS:  # + 1: the end-of-sentence token
            break
        chosen.append(item)
    return chosen


def _run_batch(predictor: Any, values: list[Any], job: Job) -> list[Any]:
    """Results and exceptions. Runs in a worker; if a batch fails, its inputs run one by one: only the bad ones fail."""
    try:
        results = list(job.run(predictor, values))
        if len(results) != len(values):
            raise RuntimeError(f"{len(results)} results for {len(values)} inputs")
        return results
    except Exception as error:
        if len(values) == 1:
            return [error]
    return [result for value in values for result in _run_batch(predictor, [value], job)]


def _deliver(item: _QueuedInput, result: Any) -> None:
    request = item.request
    if isinstance(result, Exception):
        _reject(request, _problem(result, item.job))
        return
    request.results[item.index] = result
    request.n_remaining -= 1
    if not request.n_remaining and not request.future.done():
        request.future.set_result(request.results)


def _reject(request: _PendingRequest, problem: Problem) -> None:
    if not request.future.done():
        request.future.set_exception(problem)


def _problem(error: Exception, job: Job) -> Problem:
    if isinstance(error, UserError):
        return Problem(400, job.refusal_code, str(error))
    return Problem(500, "engine_error", f"the engine could not process this text ({type(error).__name__})")
