"""The service without HTTP: models, their queues, and whether it is alive, ready or on its way out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from regard.decoding.records import DecodingOptions
from regard.serve.batcher import Batcher, Wish
from regard.serve.keys import Keys
from regard.serve.models import ServedModel
from regard.serve.problem import Problem, too_busy
from regard.serve.settings import Settings
from regard.translator import Translation

_LOOK_EVERY_SECONDS = 0.25
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
        self._batchers = {model.name: self._batcher(model) for model in models}
        self._watchdog: asyncio.Task[None] | None = None

    async def start(self) -> None:
        for batcher in self._batchers.values():
            batcher.start()
        self._watchdog = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """End the threads; one that is stuck has to be left behind."""
        if self._watchdog is not None:
            self._watchdog.cancel()
            with suppress(asyncio.CancelledError):
                await self._watchdog
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
    def batchers(self) -> list[Batcher]:
        return list(self._batchers.values())

    def pick(self, source: str | None = None, target: str | None = None, name: str | None = None) -> ServedModel:
        """The model of that name, or the first one for these languages."""
        if name is not None and name not in self.models:
            raise Problem(404, "no_model", "there is no model of that name; GET /v1/models lists them")
        candidates = [self.models[name]] if name is not None else list(self.models.values())
        for model in candidates:
            if model.suits(source, target):
                return model
        raise Problem(400, "no_language", "no model is for these languages; GET /v1/models lists what there is")

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
        options = DecodingOptions(beam=max(beam, alternatives + 1), n_best=alternatives + 1)
        return await self._batchers[model.name].translate(
            texts,
            model.count_tokens,
            Wish(options, model.tag_of(target), details),
            deadline_seconds=deadline_seconds or self.settings.deadline_seconds,
            admitted=admitted,
        )

    def admit(self, texts: Sequence[str], *, model: ServedModel, beam: int, alternatives: int) -> None:
        """A Problem unless there is room for these; `translate` with `admitted` then asks no more."""
        self.check_size(texts)
        self.check_beam(beam, alternatives)
        self._batchers[model.name].admit(len(texts), self.settings.deadline_seconds)

    def refuse_if_full(self) -> None:
        """A Problem when no model has room, whatever is asked; costs less than to read what is asked."""
        if all(batcher.full for batcher in self.batchers):
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
