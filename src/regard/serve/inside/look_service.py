"""Model internals over HTTP. torch and the lens are loaded on first use, in a worker thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import takewhile
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.data.store import STORE_ERRORS, TokenStore, open_store, read_meta
from regard.errors import UserError
from regard.lens.interventions import Head, Interventions
from regard.serve.api.schemas import LookRequest, ProjectionRequest
from regard.serve.batching.worker import Worker
from regard.serve.http.problem import Problem, deadline_exceeded, too_busy
from regard.serve.http.responses import json_parts, to_json
from regard.serve.models import ServedModel
from regard.serve.settings import Settings
from regard.tasks.predictors import task_of

if TYPE_CHECKING:
    from regard.lens import Lens

T = TypeVar("T")

HEADS_SENTENCES = 200  # of the validation text
_SECONDS_PER_LOOK = 0.3
_MAX_UNMASKED_WORK = 256  # tokens × beam; without the mask, every step computes the whole translation again


def load_lens(model: ServedModel) -> Lens:
    """Loads the model a second time, in torch."""
    from regard.lens import Lens

    if model.description is None:
        raise Problem(404, "no_lens", "this model cannot be inspected")
    return Lens.load(model.run or model.description.directory)


class LookService:
    """Runs looks one at a time with a bounded queue, and caches head statistics, which run in a second thread."""

    def __init__(self, settings: Settings, load: Callable[[ServedModel], Lens] = load_lens) -> None:
        self._settings, self._load = settings, load
        self._lenses: dict[str, Lens] = {}
        self._loading = Lock()
        self._look_worker, self._heads_worker = Worker("looks"), Worker("heads")
        self._heads: dict[str, asyncio.Future[bytes]] = {}
        self._n_sending = 0  # bytes

    def preload(self, model: ServedModel) -> None:
        """Starts loading the lens; called when the page is opened."""
        if model.name not in self._lenses and not self._look_worker.n_waiting:
            self._look_worker.submit(lambda: self._lens(model)).add_done_callback(_mark_retrieved)

    async def look(self, model: ServedModel, body: LookRequest) -> list[bytes]:
        """The look as JSON, in parts. The caller passes them to `release` after sending."""
        check_unmasked(model, body)
        if self._look_worker.n_waiting >= self._settings.max_looks or self._n_sending > self._settings.max_looked:
            raise too_busy(self._look_worker.n_waiting * _SECONDS_PER_LOOK)
        abandoned = Event()
        try:
            future = self._look_worker.submit(lambda: self._run_look(model, body, abandoned))
            parts = await self._within_deadline(future)
        finally:
            abandoned.set()
        self._n_sending += sum(map(len, parts))
        return parts

    async def projection(self, model: ServedModel, body: ProjectionRequest) -> dict[str, Any]:
        """The inputs and matrices of one head."""
        if self._look_worker.n_waiting >= self._settings.max_looks:
            raise too_busy(self._look_worker.n_waiting * _SECONDS_PER_LOOK)
        head, target = Head(**body.head.model_dump()), model.target_tag(body.target)
        return await self._within_deadline(
            self._look_worker.submit(
                lambda: self._lens(model).projection(
                    body.text, body.translation, head, target=target, arrays=body.arrays
                )
            )
        )

    def release(self, parts: list[bytes]) -> None:
        self._n_sending -= sum(map(len, parts))

    async def heads(self, model: ServedModel) -> bytes:
        """Head statistics on validation text, as JSON. After a timeout the computation continues and is cached."""
        if model.run is None:
            raise Problem(404, "no_run", "this model has no run directory, so there is no validation text")
        future = self._heads.get(model.name)
        if future is None or (future.done() and future.exception() is not None):
            future = self._heads[model.name] = self._heads_worker.submit(lambda: self._run_heads(model))
            future.add_done_callback(_mark_retrieved)
        return await self._within_deadline(asyncio.shield(future))

    def close(self) -> None:
        self._look_worker.close()
        self._heads_worker.close()

    async def _within_deadline(self, future: asyncio.Future[T]) -> T:
        seconds = self._settings.deadline_seconds
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise deadline_exceeded(seconds) from None
        except UserError as error:
            raise Problem(400, "can_not_look", str(error)) from None

    def _lens(self, model: ServedModel) -> Lens:
        with self._loading:
            if model.name not in self._lenses:
                self._lenses[model.name] = self._load(model)
            return self._lenses[model.name]

    def _run_look(self, model: ServedModel, body: LookRequest, abandoned: Event) -> list[bytes]:
        look = self._look(model, body) if model.translates else self._look_at_other_task(model, body)
        if abandoned.is_set():
            return []
        parts = json_parts(look.to_dict(arrays=body.arrays))
        return list(takewhile(lambda _: not abandoned.is_set(), parts))

    def _look_at_other_task(self, model: ServedModel, body: LookRequest) -> Any:
        if given := body.model_dump(exclude={"text", "model", "arrays"}, exclude_defaults=True):
            raise Problem(400, "can_not_look", f"{', '.join(given)}: only for translators")
        assert model.description is not None
        look = task_of(model.description).look(model.description, body.text)
        _check_numbers(look.n_numbers, body, self._settings)
        return look

    def _look(self, model: ServedModel, body: LookRequest) -> Any:
        lens = self._lens(model)
        # a missing translation is assumed to be as long as the text
        texts = body.text, body.text if body.translation is None else body.translation
        n_source, n_target = (1 + model.count_tokens(text) for text in texts)
        _check_numbers(lens.count_numbers(n_source, n_target), body, self._settings)
        look = lens.look(
            body.text,
            body.translation,
            interventions=_interventions(body),
            beam=body.beam,
            target=model.target_tag(body.target),
            dependence=body.dependence,
        )
        n_numbers = lens.count_numbers(len(look.source.ids), len(look.target.outputs.ids))
        _check_numbers(n_numbers, body, self._settings)
        return look

    def _run_heads(self, model: ServedModel) -> bytes:
        target = model.target_tag(None)
        pairs = validation_pairs(model, HEADS_SENTENCES, target)
        if not pairs:
            raise Problem(404, "no_text", "the run's validation text is missing")
        return to_json(self._lens(model).heads(pairs, target=target).to_dict())


def _mark_retrieved(future: asyncio.Future[Any]) -> None:
    """Retrieves the exception, so that asyncio does not log it if nothing awaits the future."""
    if not future.cancelled():
        future.exception()


def _interventions(body: LookRequest) -> Interventions:
    request = body.interventions
    return Interventions(
        heads_off=frozenset(Head(head.attention, head.layer, head.head) for head in request.heads_off),
        scale=request.scale,
        mask=request.mask,
        positions=request.positions,
    )


def check_unmasked(model: ServedModel, body: LookRequest) -> None:
    """Raises a Problem if a look without the mask would take too long."""
    if body.interventions.mask or body.translation is not None:
        return
    if (1 + model.count_tokens(body.text)) * body.beam > _MAX_UNMASKED_WORK:
        limit = _MAX_UNMASKED_WORK // body.beam - 1
        message = f"without the mask and with beam {body.beam}, the text may have {limit} tokens at most"
        raise Problem(413, "too_long", message)


def _check_numbers(n_numbers: int, body: LookRequest, settings: Settings) -> None:
    """Raises a Problem if a look would be too large."""
    as_lists = body.arrays == "list"
    limit = settings.max_numbers // 4 if as_lists else settings.max_numbers
    if n_numbers > limit:
        alternative = f" (or {settings.max_numbers:,} with arrays: base64)" if as_lists else ""
        message = f"the response would have {n_numbers:,} numbers, and the limit is {limit:,}{alternative}"
        raise Problem(413, "too_long", f"{message}; send a shorter text")


def validation_pairs(model: ServedModel, max_pairs: int, target: str | None = None) -> list[tuple[str, str]]:
    """Pairs spread evenly over the run's validation text; for a multilingual model, only those into `target`.

    Returns nothing if the token store was deleted or has another vocabulary.
    """
    if model.run is None or model.description is None:
        return []
    directory, tokenizers = model.run / "data" / "validation", model.description.tokenizers
    try:
        meta = read_meta(directory)
    except STORE_ERRORS:
        return []
    store = open_store(directory, meta.key)
    if store is None or meta.vocab_size > max(tokenizers.source.size, tokenizers.target.size):
        return []
    indices = _indices_with_prefix(store, tokenizers.source.encode("", tag=target))
    chosen = indices[np.unique(np.linspace(0, len(indices) - 1, min(max_pairs, len(indices))).astype(np.int64))]
    sources, targets = store.gather(chosen)
    return [
        (tokenizers.source.decode(source_ids.tolist()), tokenizers.target.decode(target_ids.tolist()))
        for source_ids, target_ids in zip(sources, targets, strict=True)
    ]


def _indices_with_prefix(store: TokenStore, prefix: list[int]) -> NDArray[np.int64]:
    """The pairs whose source starts with the language tag, or all pairs if there is none."""
    if not prefix:
        return np.arange(len(store))
    return np.flatnonzero(store.source_ids[store.source_offsets[:-1]] == prefix[0])
