"""Long texts, sentence by sentence: each is sent as server-sent event as soon as all before it have been."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from time import perf_counter
from typing import Any

from regard.serve.api.one_by_one import one_by_one
from regard.serve.api.schemas import TranslateRequest
from regard.serve.http.problem import Problem
from regard.serve.http.responses import to_json, translation_record
from regard.serve.models import ServedModel
from regard.serve.service import Service
from regard.text.sentences import Part
from regard.translator import Translation


@dataclass(frozen=True)
class _Sentence:
    text_number: int
    number: int
    part: Part


class Stream:
    """One request's sentences on their way: only so many wait or are translated at a time, whatever its length."""

    def __init__(self, service: Service, model: ServedModel, texts: list[str], asked: TranslateRequest) -> None:
        self._service, self._model, self._asked = service, model, asked
        self._most = service.settings.max_streamed
        service.check_number(texts)
        self._n_begun = 0
        remaining = _cut(texts, service.settings.max_text)
        first = list(islice(remaining, self._most))
        service.admit([one.part.text for one in first], model=model, beam=asked.beam, alternatives=asked.alternatives)
        self._remaining = chain(first, remaining)

    async def events(self) -> AsyncIterator[bytes]:
        """`sentence` for each, then `done`; or `error`, and then nothing."""
        started_at = perf_counter()
        waiting: deque[tuple[_Sentence, asyncio.Task[list[Translation]]]] = deque()
        try:
            self._fill(waiting)
            while waiting:
                sentence, task = waiting[0]
                [translation] = await task
                waiting.popleft()
                self._fill(waiting)
                yield self._event(sentence, translation)
            milliseconds = (perf_counter() - started_at) * 1000
            done = {"model": self._model.name, "milliseconds": milliseconds, "n_sentences": self._n_begun}
            yield _event("done", done)
        except Problem as problem:
            yield _event("error", {"error": {"code": problem.code, "message": problem.message}})
        finally:
            for _, task in waiting:
                task.cancel()
            await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)

    def _fill(self, waiting: deque[tuple[_Sentence, asyncio.Task[list[Translation]]]]) -> None:
        while len(waiting) < self._most and (sentence := next(self._remaining, None)) is not None:
            self._n_begun += 1
            waiting.append((sentence, asyncio.create_task(self._translate(sentence.part.text))))

    async def _translate(self, text: str) -> list[Translation]:
        return await self._service.translate(
            [text],
            model=self._model,
            target=self._asked.target,
            beam=self._asked.beam,
            alternatives=self._asked.alternatives,
            details=self._asked.details,
            admitted=True,
        )

    def _event(self, sentence: _Sentence, translation: Translation) -> bytes:
        source, gap = sentence.part
        place = {"index": sentence.text_number, "sentence": sentence.number, "source": source, "gap": gap}
        return _event("sentence", {**place, **translation_record(source, translation, self._asked.details)})


def _cut(texts: list[str], longest: int) -> Iterator[_Sentence]:
    for number, text in enumerate(texts):
        for place, part in enumerate(one_by_one(text, longest)):
            yield _Sentence(number, place, part)


def _event(name: str, value: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + to_json(value) + b"\n\n"
