"""Texts that wait, and the threads that take them: batches by tokens, and nothing done for those who have left.

Everything but the translating itself happens on the event loop, so there are no locks. There is a translator for each
core, so that a batch stays whole, and two threads for each translator: while one waits for the engine, the other cuts
its next texts into sub-words, or puts its last ones together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from regard.decoding.options import DecodingOptions
from regard.errors import UserError
from regard.serve.batching.throughput import Meter
from regard.serve.batching.worker import WorkThread
from regard.serve.http.problem import Problem, engine_failed, too_busy, too_late
from regard.translator import Translation

TOKENS_PER_BATCH = 1024  # of the source
TEXTS_PER_BATCH = 64
_THREADS_EACH = 2
_PATIENCE_IN_TRAFFIC = 5  # times the usual wait: who was just answered may soon ask again
_CLOSE_SECONDS = 2.0
_SLOWEST = 100.0  # tokens a second; an engine that needs longer is stuck


class Translates(Protocol):
    """What the batcher needs of a Translator."""

    def translate(
        self, lines: Sequence[str], *, options: DecodingOptions, target: str | None, details: bool
    ) -> list[Translation]: ...


@dataclass(frozen=True)
class Wish:
    """How a text is to be translated; only like wishes share a batch."""

    options: DecodingOptions = field(default_factory=DecodingOptions)
    target: str | None = None
    details: bool = False


@dataclass(eq=False)
class _Request:
    """The texts of one request: what is known of each, and how many are not yet."""

    found: list[Translation | None]
    n_left: int
    answer: asyncio.Future[list[Translation]]


@dataclass(eq=False)
class _Line:
    """One text that waits, or is being translated."""

    request: _Request
    place: int
    text: str
    n_tokens: int
    wish: Wish
    since: float


class Batcher:
    """The queue of one model. Made on, and only used from, the event loop."""

    def __init__(
        self,
        translators: Sequence[Translates],
        *,
        wait_seconds: float,
        max_waiting: int,
        stall_seconds: float,
        meter: Meter | None = None,
    ) -> None:
        self._translators = translators
        self._wait_seconds, self._max_waiting, self._stall_seconds = wait_seconds, max_waiting, stall_seconds
        self.meter = meter or Meter()
        self._waiting: dict[Wish, dict[_Line, None]] = {}  # dicts as ordered sets: leaving costs nothing
        self._running: dict[WorkThread, list[_Line]] = {}
        self._threads: dict[WorkThread, Translates] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._failed = False
        self.n_waiting = self.n_waiting_tokens = 0
        self._n_sent_away = 0  # texts of the largest request that has found no room, while there is none

    def start(self) -> None:
        turns = [*self._translators] * _THREADS_EACH
        self._threads = {WorkThread(f"engine-{number}"): one for number, one in enumerate(turns)}

    def close(self) -> bool:
        """End the threads; False when one of them does not."""
        for thread in self._threads:
            thread.close()
        ended = [thread.join(_CLOSE_SECONDS) for thread in self._threads]
        return all(ended)

    async def translate(
        self,
        texts: Sequence[str],
        size: Callable[[str], int],
        wish: Wish,
        *,
        deadline_seconds: float,
        admitted: bool = False,
    ) -> list[Translation]:
        """One translation a text; `size` counts tokens. A Problem when there is no room, no time or no engine.

        `admitted`: part of something that has been let in before, so the queue's bound does not apply.
        """
        if self._failed:
            raise engine_failed()
        if not texts:
            return []
        if not admitted:
            self.admit(len(texts), deadline_seconds)
        sizes = [size(text) for text in texts]
        if not admitted:
            self.check_work(sum(sizes), wish.options.beam, deadline_seconds)
        request = _Request([None] * len(texts), len(texts), asyncio.get_running_loop().create_future())
        now = monotonic()
        lines = [
            _Line(request, place, text, n_tokens, wish, now)
            for place, (text, n_tokens) in enumerate(zip(texts, sizes, strict=True))
        ]
        self._enqueue(lines)
        try:
            async with asyncio.timeout(deadline_seconds):
                return await request.answer
        except TimeoutError:
            raise too_late(deadline_seconds) from None
        finally:
            self._forget(lines)

    def health(self) -> str | None:
        """What is wrong with the threads; None when nothing is."""
        if self._failed:
            return "failed"
        for thread in self._threads:
            if not thread.alive:
                return f"dead ({thread.ended_by})"
            if thread.busy_seconds > self._stall_seconds + self._patience():
                return "stuck"
        return None

    def _patience(self) -> float:
        """How long a large model on a slow machine could take for what is being translated."""
        running = (line for batch in self._running.values() for line in batch)
        work = sum(_work(line.n_tokens, line.wish.options.beam) for line in running)
        return work / min(self.meter.tokens_per_second, _SLOWEST)

    def fail(self) -> None:
        """Give up: everyone who waits is told, and whoever comes."""
        self._failed = True
        running = [line for batch in self._running.values() for line in batch]
        waiting = [line for lines in self._waiting.values() for line in lines]
        for line in running + waiting:
            _refuse(line.request, engine_failed())

    def admit(self, n_texts: int, deadline_seconds: float) -> None:
        """Bounded by number, and by what can be done in time. An empty queue takes whatever the limits allow.

        Who asks for little does not overtake who was sent away for asking for much: until there is room for that, the
        queue counts as full.
        """
        if self.n_waiting and self.n_waiting + n_texts > self._max_waiting:
            self._n_sent_away = max(self._n_sent_away, n_texts)
        if self.full or (self.n_waiting and self.waiting_seconds > deadline_seconds / 2):
            self.meter.refused()
            raise too_busy(self.waiting_seconds)
        self._n_sent_away = 0

    def check_work(self, n_tokens: int, beam: int, deadline_seconds: float) -> None:
        """What could not be done in time, even alone, is not begun: it would keep everyone else waiting for nothing."""
        seconds = self.meter.seconds_for(_work(n_tokens, beam))
        if seconds > deadline_seconds:
            raise Problem(
                413,
                "too_much",
                f"this would take about {seconds:,.0f} s; {deadline_seconds:g} s at most: send less at once",
            )

    @property
    def full(self) -> bool:
        """Whether a request can be refused before it is read."""
        return self._n_sent_away > 0 and self.n_waiting > 0 and self.n_waiting + self._n_sent_away > self._max_waiting

    @property
    def waiting_seconds(self) -> float:
        """How long what waits should take."""
        return self.meter.seconds_for(self.n_waiting_tokens)

    def _enqueue(self, lines: list[_Line]) -> None:
        self._waiting.setdefault(lines[0].wish, {}).update(dict.fromkeys(lines))
        self.n_waiting += len(lines)
        self.n_waiting_tokens += sum(line.n_tokens for line in lines)
        self._wake()

    def _forget(self, lines: list[_Line]) -> None:
        """Take out what is still waiting: its client is served, has left, or has waited too long."""
        for line in lines:
            queue = self._waiting.get(line.wish)
            if queue is not None and line in queue:
                self._remove(line)
                self.meter.dropped(line.n_tokens)

    def _remove(self, line: _Line) -> None:
        queue = self._waiting[line.wish]
        del queue[line]
        if not queue:
            del self._waiting[line.wish]
        self.n_waiting -= 1
        self.n_waiting_tokens -= line.n_tokens

    def _wake(self) -> None:
        """Start batches while a translator is idle and enough is waiting, or something has waited long enough.

        Enough is a translator's share of all that is there: two small batches take longer than one of twice the size.
        A translator that is busy is given its next batch already when that is a full one.
        """
        while self._waiting and not self._failed:
            busy = [self._threads[thread] for thread in self._running]
            free = sorted((busy.count(one), number, thread) for number, (thread, one) in self._free())
            if not free:
                return
            lines = min(self._waiting.values(), key=lambda queue: next(iter(queue)).since)
            n_running = sum(map(len, self._running.values()))
            share = min(TEXTS_PER_BATCH, -(-(self.n_waiting + n_running) // len(self._translators)))
            due = next(iter(lines)).since + self._wait_seconds * (_PATIENCE_IN_TRAFFIC if busy else 1)
            if len(lines) < TEXTS_PER_BATCH and all(one in busy for one in self._translators):
                return
            if len(lines) < (share if busy else TEXTS_PER_BATCH) and monotonic() < due:
                self._wake_at(due)
                return
            self._begin(free[0][2], _choose(list(lines), share))

    def _free(self) -> Iterator[tuple[int, tuple[WorkThread, Translates]]]:
        return ((number, item) for number, item in enumerate(self._threads.items()) if item[0] not in self._running)

    def _wake_at(self, due: float) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, due - monotonic()), self._timer_rang)

    def _timer_rang(self) -> None:
        self._timer = None
        self._wake()

    def _begin(self, thread: WorkThread, batch: list[_Line]) -> None:
        for line in batch:
            self._remove(line)
        self._running[thread] = batch
        enough = len(batch) >= TEXTS_PER_BATCH // 4 or sum(line.n_tokens for line in batch) >= TOKENS_PER_BATCH // 4
        full = self.n_waiting > 0 and enough
        translator, wish = self._threads[thread], batch[0].wish
        texts = [line.text for line in batch]
        self.meter.begun()
        work = thread.submit(lambda: _translated(translator, texts, wish))
        work.add_done_callback(lambda done: self._finished(thread, done, full))

    def _finished(self, thread: WorkThread, done: asyncio.Future[list[Translation | Exception]], full: bool) -> None:
        batch = self._running.pop(thread)
        results = done.result()
        wasted = sum(line.n_tokens for line in batch if line.request.answer.done())
        self.meter.finished(len(batch), sum(line.n_tokens for line in batch), wasted, full)
        for line, result in zip(batch, results, strict=True):
            _deliver(line, result)
        self._wake()


def _work(n_tokens: int, beam: int) -> float:
    """A wide beam takes longer than the usual one."""
    return n_tokens * max(1.0, beam / 4)


def _choose(lines: list[_Line], most: int) -> list[_Line]:
    """A batch around the one that has waited longest: of like length, so that little is padded."""
    if len(lines) > most:
        first = lines[0]
        lines = sorted(lines, key=lambda line: (line is not first, abs(line.n_tokens - first.n_tokens)))
    chosen: list[_Line] = []
    longest = 0
    for line in lines[:most]:
        longest = max(longest, line.n_tokens)
        if chosen and (longest + 1) * (len(chosen) + 1) > TOKENS_PER_BATCH:  # each ends with a symbol more
            break
        chosen.append(line)
    return chosen


def _translated(translator: Translates, texts: list[str], wish: Wish) -> list[Translation | Exception]:
    """In a thread: one answer a text. When a batch fails, each is tried alone, so that one can not spoil the others."""
    try:
        return list(translator.translate(texts, options=wish.options, target=wish.target, details=wish.details))
    except Exception as error:
        if len(texts) == 1:
            return [error]
    return [answer for text in texts for answer in _translated(translator, [text], wish)]


def _deliver(line: _Line, result: Translation | Exception) -> None:
    request = line.request
    if isinstance(result, Exception):
        _refuse(request, _problem(result))
        return
    request.found[line.place] = result
    request.n_left -= 1
    if not request.n_left and not request.answer.done():
        request.answer.set_result([one for one in request.found if one is not None])


def _refuse(request: _Request, problem: Problem) -> None:
    if not request.answer.done():
        request.answer.set_exception(problem)


def _problem(error: Exception) -> Problem:
    if isinstance(error, UserError):
        return Problem(400, "can_not_translate", str(error))
    return Problem(500, "engine_error", f"the engine could not translate this ({type(error).__name__})")
