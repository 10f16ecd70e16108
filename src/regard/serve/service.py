"""The service without HTTP: models, their queues, and whether it is alive, ready or on its way out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from time import monotonic

from regard.errors import UserError
from regard.serve.batching.batcher import Batcher, Wish
from regard.serve.http.keys import Keys
from regard.serve.http.problem import Problem, not_ready, too_busy
from regard.serve.models import ServedModel, has_model
from regard.serve.settings import Settings
from regard.translator import Translation

_LOOK_EVERY_SECONDS = 0.25
_EXPECT_EVERY_SECONDS = 3.0
log = logging.getLogger("regard.serve")


class Service:
    """What the routes ask. The first model is the default."""

    def __init__(
        self, models: Sequence[ServedModel], settings: Settings | None = None, keys: Keys | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.keys = keys  # None: everyone may ask
        self.models = {model.name: model for model in models}
        self.draining = False  # readiness has fallen
        self.closed = False  # and nothing new is admitted
        self.n_admitted = 0  # requests that are let in and not yet answered
        self.failure: str | None = None
        self.left_behind = False
        self._batchers = {model.name: self._batcher(model) for model in models if model.ready}
        self._watchdog: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._looked_at = -inf

    async def start(self) -> None:
        for batcher in self._batchers.values():
            batcher.start()
        self._watchdog = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """End the threads; one that is stuck has to be left behind."""
        for task in (self._watchdog, self._loading):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        ended = [batcher.close() for batcher in self._batchers.values()]
        self.left_behind = not all(ended)

    @property
    def live(self) -> bool:
        """Whether every engine thread is alive and moves."""
        self.check()
        return self.failure is None

    @property
    def ready(self) -> bool:
        return self.live and not self.draining

    @property
    def ready_models(self) -> list[ServedModel]:
        return [model for model in self.models.values() if model.ready]

    @property
    def batchers(self) -> list[Batcher]:
        return list(self._batchers.values())

    def pick(self, source: str | None = None, target: str | None = None, name: str | None = None) -> ServedModel:
        """The model of that name, or the first one for these languages."""
        if name is not None and name not in self.models:
            raise Problem(404, "no_model", "there is no model of that name; GET /v1/models lists them")
        self.look_for_models()
        candidates = [self.models[name]] if name is not None else list(self.models.values())
        for model in sorted(candidates, key=lambda one: not one.ready):
            if model.suits(source, target):
                return model
        raise Problem(400, "no_language", "no model is for these languages; GET /v1/models lists what there is")

    def named(self, name: str | None) -> ServedModel:
        """The model of that name, or the first, whether it is ready or still trains."""
        return self.pick(name=name if name is not None else next(iter(self.models)))

    def look_for_models(self) -> None:
        """When a run has finished its training, begin to load its model; looked for now and then, when asked."""
        expected = [model for model in self.models.values() if not model.ready]
        if not expected or self._loading is not None or monotonic() < self._looked_at + _EXPECT_EVERY_SECONDS:
            return
        self._looked_at = monotonic()
        for model in expected:
            if model.run is not None and has_model(model.run):
                self._loading = asyncio.create_task(self._take_in(model))
                return

    async def _take_in(self, expected: ServedModel) -> None:
        assert expected.load is not None
        try:
            model = await asyncio.to_thread(expected.load)
            batcher = self._batcher(model)
            batcher.start()
            self._batchers[model.name] = batcher
            self.models[model.name] = model
        except (UserError, OSError) as error:
            log.error("the model of %s can not be loaded: %s", expected.name, error)
        finally:
            self._loading = None

    async def translate(
        self,
        texts: Sequence[str],
        *,
        model: ServedModel,
        target: str | None = None,
        beam: int = 4,
        alternatives: int = 0,
        details: bool = False,
        deadline_seconds: float | None = None,
        admitted: bool = False,
    ) -> list[Translation]:
        """One translation a text, through the queue. Raises a Problem; cancelled, its work is dropped."""
        self.check_number(texts)
        self.check_size(texts)
        self.check_beam(beam, alternatives)
        options = replace(model.options, beam=max(beam, alternatives + 1), n_best=alternatives + 1)
        return await self._batcher_of(model).translate(
            texts,
            model.count_tokens,
            Wish(options, model.tag_of(target), details),
            deadline_seconds=deadline_seconds or self.settings.deadline_seconds,
            admitted=admitted,
        )

    def admit(
        self,
        texts: Sequence[str],
        *,
        model: ServedModel,
        beam: int = 4,
        alternatives: int = 0,
        n_tokens: int | None = None,
    ) -> None:
        """A Problem unless there is room for these, and time; `translate` with `admitted` then asks no more.

        `n_tokens`: of all that is to come, when these are only the first.
        """
        self.check_size(texts)
        self.check_beam(beam, alternatives)
        batcher, seconds = self._batcher_of(model), self.settings.deadline_seconds
        batcher.admit(len(texts), seconds)
        n_tokens = sum(map(model.count_tokens, texts)) if n_tokens is None else n_tokens
        batcher.check_work(n_tokens, max(beam, alternatives + 1), seconds)

    def refuse_if_full(self) -> None:
        """A Problem when no model has room, whatever is asked; costs less than to read what is asked."""
        if self._batchers and all(batcher.full for batcher in self._batchers.values()):
            self.batchers[0].meter.refused()
            raise too_busy(min(batcher.waiting_seconds for batcher in self.batchers))

    def check(self) -> None:
        """Look at every thread; when one is dead or stuck, tell all who wait."""
        if self.failure is not None:
            return
        for name, batcher in self._batchers.items():
            wrong = batcher.health()
            if wrong is not None:
                self.failure = f"{name}: {wrong}"
                log.error("an engine thread of %s is %s", name, wrong)
        if self.failure is not None:
            for batcher in self._batchers.values():
                batcher.fail()

    def check_number(self, texts: Sequence[str]) -> None:
        if len(texts) > self.settings.max_texts:
            raise Problem(413, "too_many", f"{len(texts):,} texts; {self.settings.max_texts:,} at most")

    def check_size(self, texts: Sequence[str]) -> None:
        longest = max(map(len, texts), default=0)
        if longest > self.settings.max_text:
            most = self.settings.max_text
            raise Problem(413, "too_long", f"a text of {longest:,} characters; {most:,} at most, or ?stream=1")

    def check_beam(self, beam: int, alternatives: int) -> None:
        most = self.settings.max_beam
        if beam > most or alternatives >= most:
            raise Problem(400, "too_wide", f"a beam of {most} at most, and {most - 1} alternatives")

    def require_ready(self, model: ServedModel) -> None:
        if model.name not in self._batchers:
            raise not_ready()

    def _batcher_of(self, model: ServedModel) -> Batcher:
        self.require_ready(model)
        return self._batchers[model.name]

    def _batcher(self, model: ServedModel) -> Batcher:
        return Batcher(
            model.translators,
            wait_seconds=self.settings.wait_seconds,
            max_waiting=self.settings.max_waiting,
            stall_seconds=self.settings.stall_seconds,
        )

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
            self.check()
