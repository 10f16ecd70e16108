"""The service without HTTP: models, their queues, and its state (live, ready, stopping)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf, isfinite
from time import monotonic
from typing import Any

from regard.errors import UserError
from regard.serve.batching.batcher import Batcher
from regard.serve.batching.jobs import PredictJob, TranslateJob
from regard.serve.http.keys import Keys
from regard.serve.http.problem import Problem, not_ready, too_busy
from regard.serve.models import ServedModel, has_model
from regard.serve.settings import Settings
from regard.translator import Translation

_HEALTH_CHECK_SECONDS = 0.25
_RUN_CHECK_SECONDS = 3.0  # at most this often, looks for the models of runs that were still training
log = logging.getLogger("regard.serve")


class Service:
    """What the routes call. The first model is the default."""

    def __init__(
        self, models: Sequence[ServedModel], settings: Settings | None = None, keys: Keys | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.keys = keys  # None: no API key required
        self.models = {model.name: model for model in models}
        self.draining = False  # stopping: not ready any more
        self.closed = False  # stopping: new requests are refused
        self.n_admitted = 0  # requests in progress
        self.failure: str | None = None
        self.has_stuck_thread = False  # set by stop()
        self.batchers = {model.name: self._create_batcher(model) for model in models if model.ready}
        self._health_task: asyncio.Task[None] | None = None
        self._load_task: asyncio.Task[None] | None = None
        self._runs_checked_at = -inf

    async def start(self) -> None:
        self._health_task = asyncio.create_task(self._check_health_forever())

    async def stop(self) -> None:
        """Ends all threads except stuck ones."""
        for task in (self._health_task, self._load_task):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        ended = [batcher.close() for batcher in self.batchers.values()]
        self.has_stuck_thread = not all(ended)

    @property
    def live(self) -> bool:
        """Whether every engine thread is alive and not stuck."""
        self.check_health()
        return self.failure is None

    @property
    def ready(self) -> bool:
        """Whether a model can be used now; a run that still trains has none."""
        return self.live and not self.draining and bool(self.batchers)

    @property
    def ready_translators(self) -> list[ServedModel]:
        return [model for model in self.models.values() if model.ready and model.translates]

    def pick(self, source: str | None = None, target: str | None = None, name: str | None = None) -> ServedModel:
        """The translator with this name, or the first for these languages, preferring models that are ready."""
        first = self.get_model(name)
        candidates = [first] if name is not None else list(self.models.values())
        translators = [model for model in candidates if model.translates]
        if not translators:
            message = f"{first.name} does not translate: its task is {first.task}; use POST /v1/predict"
            raise Problem(400, "no_translator", message)
        for model in sorted(translators, key=lambda translator: not translator.ready):
            if model.supports(source, target):
                return model
        raise Problem(400, "no_language", "no model supports these languages; GET /v1/models lists the models")

    def get_model(self, name: str | None) -> ServedModel:
        """The model with this name, or the first one, of any task, ready or not."""
        if name is not None and name not in self.models:
            raise Problem(404, "no_model", "no model has this name; GET /v1/models lists the models")
        self.load_finished_runs()
        return self.models[name] if name is not None else next(iter(self.models.values()))

    def load_finished_runs(self) -> None:
        """Starts loading the model of a run whose training has finished; checks only every few seconds."""
        training = [model for model in self.models.values() if not model.ready]
        if not training or self._load_task is not None or monotonic() < self._runs_checked_at + _RUN_CHECK_SECONDS:
            return
        self._runs_checked_at = monotonic()
        for model in training:
            if model.run is not None and has_model(model.run):
                self._load_task = asyncio.create_task(self._load(model))
                return

    async def _load(self, training: ServedModel) -> None:
        assert training.load is not None
        try:
            model = await asyncio.to_thread(training.load)
            self.batchers[model.name] = self._create_batcher(model)
            self.models[model.name] = model
        except (UserError, OSError) as error:
            log.error("cannot load the model of %s: %s", training.name, error)
        finally:
            self._load_task = None

    def translate_job(
        self,
        model: ServedModel,
        target: str | None,
        *,
        beam: int = 4,
        alternatives: int = 0,
        details: bool = False,
        split: bool = True,
    ) -> TranslateJob:
        """How the model translates texts of a request. Raises a Problem if the beam would be too large."""
        self.check_beam(beam, alternatives)
        options = replace(model.options, beam=max(beam, alternatives + 1), n_best=alternatives + 1)
        return TranslateJob(options, model.target_tag(target), details, split)

    async def translate(
        self,
        texts: Sequence[str],
        model: ServedModel,
        job: TranslateJob,
        *,
        deadline_seconds: float | None = None,
        admitted: bool = False,
    ) -> list[Translation]:
        """One translation per text, through the queue. Raises a Problem. If cancelled, its texts leave the queue."""
        self.check_count(texts)
        self.check_lengths(texts)
        seconds = deadline_seconds or self.settings.deadline_seconds
        batcher = self._get_batcher(model)
        return await batcher.run(job, texts, model.count_tokens, deadline_seconds=seconds, admitted=admitted)

    async def predict(self, inputs: Sequence[Any], *, model: ServedModel) -> list[dict[str, Any]]:
        """One prediction per input, of a model of any task, through the queue. Raises a Problem."""
        self.check_count(inputs)
        for value in inputs:
            texts = _texts(value)
            if not model.reads_files:  # in base64, a file is longer than a text; the size of the request limits it
                self.check_lengths(texts)

        def count_tokens(value: Any) -> int:
            """Of all texts in the value; numbers and files count nothing: the size of the request limits them."""
            return 1 if model.reads_files else max(1, sum(map(model.count_tokens, _texts(value))))

        return await self._get_batcher(model).run(
            PredictJob(), inputs, count_tokens, deadline_seconds=self.settings.deadline_seconds
        )

    def admit(
        self, texts: Sequence[str], model: ServedModel, job: TranslateJob, *, n_tokens: int | None = None
    ) -> None:
        """Raises a Problem unless queue and deadline allow these texts; then call `translate` with `admitted=True`.

        `n_tokens`: the tokens of all texts, if `texts` is only the first part of them.
        """
        self.check_lengths(texts)
        batcher, seconds = self._get_batcher(model), self.settings.deadline_seconds
        batcher.admit(len(texts), seconds)
        n_tokens = sum(map(model.count_tokens, texts)) if n_tokens is None else n_tokens
        batcher.check_work(n_tokens, job.beam, seconds)

    def refuse_if_full(self) -> None:
        """Raises a Problem if all queues are full; cheaper than parsing the request first."""
        if self.batchers and all(batcher.full for batcher in self.batchers.values()):
            next(iter(self.batchers.values())).throughput.n_refused += 1
            raise too_busy(min(batcher.waiting_seconds for batcher in self.batchers.values()))

    def check_health(self) -> None:
        """Checks every thread; if one is dead or stuck, fails all requests."""
        if self.failure is not None:
            return
        for name, batcher in self.batchers.items():
            problem = batcher.health()
            if problem is not None:
                self.failure = f"{name}: {problem}"
                log.error("engine thread of model %s: %s", name, problem)
        if self.failure is not None:
            for batcher in self.batchers.values():
                batcher.fail()

    def check_count(self, texts: Sequence[Any]) -> None:
        limit = self.settings.max_texts
        if len(texts) > limit:
            raise Problem(413, "too_many", f"{len(texts):,} texts, and the limit is {limit:,}")

    def check_lengths(self, texts: Sequence[str]) -> None:
        longest, limit = max(map(len, texts), default=0), self.settings.max_text
        if longest > limit:
            message = f"a text has {longest:,} characters, and the limit is {limit:,}"
            message += "; /v1/translate?stream=1 translates longer ones"
            raise Problem(413, "too_long", message)

    def check_beam(self, beam: int, alternatives: int) -> None:
        limit = self.settings.max_beam
        if beam > limit or alternatives >= limit:
            raise Problem(400, "too_wide", f"beam may be {limit} at most, and alternatives {limit - 1}")

    def require_ready(self, model: ServedModel) -> None:
        if model.name not in self.batchers:
            raise not_ready()

    def _get_batcher(self, model: ServedModel) -> Batcher:
        self.require_ready(model)
        return self.batchers[model.name]

    def _create_batcher(self, model: ServedModel) -> Batcher:
        return Batcher(model.predictors, self.settings, threads_per_predictor=2 if model.translates else 1)

    async def _check_health_forever(self) -> None:
        while True:
            await asyncio.sleep(_HEALTH_CHECK_SECONDS)
            self.check_health()


def _texts(value: Any) -> list[str]:
    """All texts in a JSON value. Raises a Problem if it has a number that is infinite or NaN."""
    texts: list[str] = []
    to_visit = [[value]]
    while to_visit:
        for item in to_visit.pop():
            kind = type(item)
            if kind is str:
                texts.append(item)
            elif kind is float and not isfinite(item):  # Pydantic's parser accepts NaN here
                raise Problem(422, "not_understood", "input: a number is infinite or NaN")
            elif kind is list or kind is dict:
                to_visit.append(item if kind is list else list(item.values()))
    return texts
