"""Streaming: long texts are split into sentences, and each translation is sent as a server-sent event, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from time import perf_counter
from typing import Any

from regard.serve.api.schemas import TranslateRequest, translation_record
from regard.serve.http.problem import Problem
from regard.serve.http.responses import to_json
from regard.serve.models import ServedModel
from regard.serve.service import Service
from regard.text.sentences import Part, sentences
from regard.translator import Translation


@dataclass(frozen=True)
class _StreamedSentence:
    text_index: int
    index: int  # within its text
    part: Part


class SentenceStream:
    """The stream of one request; a bounded number of its sentences is queued or translated at a time."""

    def __init__(self, service: Service, model: ServedModel, texts: list[str], body: TranslateRequest) -> None:
        self._service, self._model, self._body = service, model, body
        self._max_pending = service.settings.max_streamed
        service.check_count(texts)
        self._n_started = 0
        remaining = _split(texts, service.settings.max_text)
        first = list(islice(remaining, self._max_pending))
        service.admit(
            [sentence.part.text for sentence in first], model=model, beam=body.beam, alternatives=body.alternatives
        )
        self._remaining = chain(first, remaining)

    async def events(self) -> AsyncIterator[bytes]:
        """A `sentence` event for each sentence, then `done`; the stream ends early with `error` on a Problem."""
        started_at = perf_counter()
        pending: deque[tuple[_StreamedSentence, asyncio.Task[list[Translation]]]] = deque()
        try:
            self._fill(pending)
            while pending:
                sentence, task = pending[0]
                [translation] = await task
                pending.popleft()
                self._fill(pending)
                yield self._sentence_event(sentence, translation)
            milliseconds = (perf_counter() - started_at) * 1000
            summary = {"model": self._model.name, "milliseconds": milliseconds, "n_sentences": self._n_started}
            yield _event("done", summary)
        except Problem as problem:
            yield _event("error", {"error": {"code": problem.code, "message": problem.message}})
        finally:
            for _, task in pending:
                task.cancel()
            await asyncio.gather(*(task for _, task in pending), return_exceptions=True)

    def _fill(self, pending: deque[tuple[_StreamedSentence, asyncio.Task[list[Translation]]]]) -> None:
        while len(pending) < self._max_pending and (sentence := next(self._remaining, None)) is not None:
            self._n_started += 1
            pending.append((sentence, asyncio.create_task(self._translate(sentence.part.text))))

    async def _translate(self, text: str) -> list[Translation]:
        return await self._service.translate(
            [text],
            model=self._model,
            target=self._body.target,
            beam=self._body.beam,
            alternatives=self._body.alternatives,
            details=self._body.details,
            admitted=True,
        )

    def _sentence_event(self, sentence: _StreamedSentence, translation: Translation) -> bytes:
        source, gap = sentence.part
        position = {"index": sentence.text_index, "sentence": sentence.index, "source": source, "gap": gap}
        return _event("sentence", {**position, **translation_record(source, translation, self._body.details)})


def iter_sentences(text: str, max_length: int) -> Iterator[Part]:
    """As `sentences`, but lazily. Raises a Problem at the first sentence of more than `max_length` characters.

    Works on one window of the text at a time. Sentence boundaries depend only on the characters around them, so a
    window is split like the whole text; only its last sentence may continue, and is left to the next window.
    """
    start, size = 0, 2 * max_length + 2
    while True:
        is_last = start + size >= len(text)
        parts = sentences(text[start : start + size])
        if not is_last and len(parts) == 1:
            raise Problem(413, "too_long", f"a sentence has more than {max_length:,} characters")
        yield from parts if is_last else parts[:-1]
        if is_last:
            return
        start += sum(len(part.text) + len(part.gap) for part in parts[:-1])


def _split(texts: list[str], max_length: int) -> Iterator[_StreamedSentence]:
    for text_index, text in enumerate(texts):
        for index, part in enumerate(iter_sentences(text, max_length)):
            yield _StreamedSentence(text_index, index, part)


def _event(name: str, value: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + to_json(value) + b"\n\n"
