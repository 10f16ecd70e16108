"""Looking inside over HTTP: torch and the lens are loaded when somebody first looks, in a thread of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import Event, Lock
from typing import Any, Protocol, TypeVar

from regard.errors import UserError
from regard.lens.interventions import Head, Interventions
from regard.serve.api.schemas import LookRequest
from regard.serve.batching.worker import WorkThread
from regard.serve.http.in_parts import in_parts
from regard.serve.http.problem import Problem, too_busy, too_late
from regard.serve.http.responses import to_json
from regard.serve.inside.look_size import check_look, check_numbers
from regard.serve.inside.validation_text import validation_pairs
from regard.serve.models import ServedModel
from regard.serve.settings import Settings

T = TypeVar("T")

HEADS_SENTENCES = 200  # of the validation text
_SECONDS_A_LOOK = 0.3


class Looks(Protocol):
    """What is needed of a Lens."""

    def look(
        self,
        text: str,
        translation: str | None = None,
        *,
        interventions: Interventions,
        beam: int = 4,
        target: str | None = None,
    ) -> Any: ...

    def heads(self, pairs: Sequence[tuple[str, str]], *, target: str | None = None) -> Any: ...


def load_lens(model: ServedModel) -> Looks:
    """The model again, in torch."""
    from regard.lens import Lens

    if model.described is None:
        raise Problem(404, "no_lens", "this model can not be looked into")
    return Lens.load(model.run or model.described.directory)


class Looking:
    """One look at a time, a few that wait; statistics over a corpus beside them, made once."""

    def __init__(self, settings: Settings, load: Callable[[ServedModel], Looks] = load_lens) -> None:
        self._settings, self._load = settings, load
        self._lenses: dict[str, Looks] = {}
        self._loading = Lock()
        self._looks = _Lane("looks")
        self._tables = _Lane("heads")
        self._heads: dict[str, asyncio.Future[bytes]] = {}
        self._n_sending = 0  # bytes

    def warm(self, model: ServedModel) -> None:
        """Load the lens before it is asked for: a page was opened."""
        if model.name not in self._lenses and not self._looks.n_waiting:
            self._looks.submit(lambda: self._lens(model)).add_done_callback(_forget_error)

    async def look(self, model: ServedModel, asked: LookRequest) -> list[bytes]:
        """The JSON of a look, in parts; whoever gets it says with `sent` when it has gone."""
        check_look(model, asked, self._settings)
        if self._looks.n_waiting >= self._settings.max_looks or self._n_sending > self._settings.max_looked:
            raise too_busy(self._looks.n_waiting * _SECONDS_A_LOOK)
        given_up = Event()
        try:
            looked = self._looks.submit(lambda: self._looked(model, asked, given_up))
            parts = await self._in_time(looked)
        finally:
            given_up.set()
        self._n_sending += sum(map(len, parts))
        return parts

    def sent(self, parts: list[bytes]) -> None:
        self._n_sending -= sum(map(len, parts))

    async def heads(self, model: ServedModel) -> bytes:
        """The JSON of all heads over validation text. Who gives up waiting finds it done later."""
        if model.run is None:
            raise Problem(404, "no_run", "this model came without its run, so there is no text to measure on")
        known = self._heads.get(model.name)
        if known is None or (known.done() and known.exception() is not None):
            known = self._heads[model.name] = self._tables.submit(lambda: self._measured(model))
            known.add_done_callback(_forget_error)
        return await self._in_time(asyncio.shield(known))

    def close(self) -> None:
        self._looks.close()
        self._tables.close()

    async def _in_time(self, work: asyncio.Future[T]) -> T:
        seconds = self._settings.deadline_seconds
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            raise too_late(seconds) from None
        except UserError as error:
            raise Problem(400, "can_not_look", str(error)) from None

    def _lens(self, model: ServedModel) -> Looks:
        with self._loading:
            if model.name not in self._lenses:
                self._lenses[model.name] = self._load(model)
            return self._lenses[model.name]

    def _looked(self, model: ServedModel, asked: LookRequest, given_up: Event) -> list[bytes]:
        look = self._lens(model).look(
            asked.text,
            asked.translation,
            interventions=_interventions(asked),
            beam=asked.beam,
            target=model.tag_of(asked.target),
        )
        if model.described is not None:
            n_pieces = len(look.source.ids), len(look.target.outputs.ids)
            check_numbers(model.described.model, *n_pieces, asked, self._settings)
        parts: list[bytes] = []
        if not given_up.is_set():
            for part in in_parts(look.to_dict(arrays=asked.arrays)):
                if given_up.is_set():
                    break
                parts.append(part)
        return parts

    def _measured(self, model: ServedModel) -> bytes:
        target = model.tag_of(None)
        pairs = validation_pairs(model, HEADS_SENTENCES, target)
        if not pairs:
            raise Problem(404, "no_text", "the run's validation text is not there any more")
        return to_json(self._lens(model).heads(pairs, target=target).to_dict())


class _Lane:
    """A thread that is started when first needed, and how many stand before it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: WorkThread | None = None
        self.n_waiting = 0

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if self._thread is None or not self._thread.alive:
            self._thread = WorkThread(self._name)
        future = self._thread.submit(work)
        self.n_waiting += 1
        future.add_done_callback(self._done)
        return future

    def close(self) -> None:
        if self._thread is not None:
            self._thread.close()

    def _done(self, _: asyncio.Future[Any]) -> None:
        self.n_waiting -= 1


def _forget_error(future: asyncio.Future[Any]) -> None:
    """Nobody may be there to hear it: mark it as heard."""
    if not future.cancelled():
        future.exception()


def _interventions(asked: LookRequest) -> Interventions:
    wanted = asked.interventions
    return Interventions(
        heads_off=frozenset(Head(one.attention, one.layer, one.head) for one in wanted.heads_off),
        scale=wanted.scale,
        mask=wanted.mask,
        positions=wanted.positions,
    )
