"""Streaming: long texts are split into sentences, and each translation is sent as a server-sent event, in order."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import accumulate, chain, count, islice
from time import perf_counter
from typing import Any, NamedTuple

from regard.serve.api.schemas import translation_record
from regard.serve.batching.jobs import TranslateJob
from regard.serve.http.problem import Problem
from regard.serve.http.responses import to_json
from regard.serve.models import ServedModel
from regard.serve.service import Service
from regard.text.sentences import LOOK_AHEAD, Part, join_gap
from regard.translator import Translation

_WORD = re.compile(r"\S")


class _Sentence(NamedTuple):
    text_index: int
    number: int  # within its text
    part: Part
    is_last: bool  # of its text


def stream_sentences(service: Service, model: ServedModel, job: TranslateJob, texts: list[str]) -> AsyncIterator[bytes]:
    """A `sentence` event for each sentence, then `done`; the stream ends early with `error` on a Problem.

    A bounded number of sentences is queued or translated at a time. Raises a Problem if the first ones are refused.
    """
    service.check_count(texts)
    split = partial(model.splitter.split, by_sentence=job.split)
    remaining = _split(texts, service.settings.max_text, split)
    first = list(islice(remaining, service.settings.max_streamed))
    service.admit([sentence.part.text for sentence in first], model, job)
    return _events(service, model, job, chain(first, remaining))


async def _events(
    service: Service, model: ServedModel, job: TranslateJob, remaining: Iterator[_Sentence]
) -> AsyncIterator[bytes]:
    started_at = perf_counter()
    n_sentences = 0
    pending: deque[tuple[_Sentence, asyncio.Task[list[Translation]]]] = deque()

    def start_next(n: int) -> None:
        for sentence in islice(remaining, n):
            translation = service.translate([sentence.part.text], model, job, admitted=True)
            pending.append((sentence, asyncio.create_task(translation)))

    try:
        start_next(service.settings.max_streamed)
        while pending:
            sentence, task = pending[0]
            [translation] = await task
            pending.popleft()
            start_next(1)
            n_sentences += 1
            source, gap = sentence.part
            position = {"index": sentence.text_index, "sentence": sentence.number, "source": source, "gap": gap}
            position["separator"] = "" if sentence.is_last else join_gap(sentence.part, translation.text)
            yield _event("sentence", position | translation_record(source, translation, job.details))
        milliseconds = (perf_counter() - started_at) * 1000
        yield _event("done", {"model": model.name, "milliseconds": milliseconds, "n_sentences": n_sentences})
    except Problem as problem:
        yield _event("error", {"error": {"code": problem.code, "message": problem.message}})
    finally:
        for _, task in pending:
            task.cancel()
        await asyncio.gather(*(task for _, task in pending), return_exceptions=True)


def iter_parts(text: str, max_length: int, split: Callable[[str], list[Part]]) -> Iterator[Part]:
    """As `split`, but lazily. Raises a Problem at the first part of more than `max_length` characters.

    Works on one window of the text at a time. Whether a sentence ends depends only on its own text and a few characters
    that follow, so a window is split like the whole text; its end is left to the next window.
    """
    word = _WORD.search(text)
    start, size = word.start() if word else len(text), 2 * max_length + 2 + LOOK_AHEAD
    while True:
        is_last = start + size >= len(text)
        parts = split(text[start : start + size])
        if not is_last:
            ends = accumulate(len(part.text) + len(part.gap) for part in parts[:-1])
            parts = [part for part, end in zip(parts, ends, strict=False) if end <= size - LOOK_AHEAD]
            if not parts:
                raise Problem(413, "too_long", f"a sentence has more than {max_length:,} characters")
        yield from parts
        if is_last:
            return
        start += sum(len(part.text) + len(part.gap) for part in parts)


def _split(texts: list[str], max_length: int, split: Callable[[str], list[Part]]) -> Iterator[_Sentence]:
    for text_index, text in enumerate(texts):
        parts = iter_parts(text, max_length, split)
        part = next(parts)
        for number in count():
            following = next(parts, None)
            yield _Sentence(text_index, number, part, is_last=following is None)
            if following is None:
                break
            part = following


def _event(name: str, value: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + to_json(value) + b"\n\n"
