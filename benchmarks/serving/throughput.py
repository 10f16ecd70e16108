"""Sentences a second: the Translator by itself, and 32 clients of the service, by turns on the same sentences."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator
from time import perf_counter

from regard.translator import Translator
from serving.client import Client, translate_request
from serving.lab import Figure, Lab

N_CLIENTS = 32
TO_REACH = 0.9


def against_the_translator(lab: Lab, texts_a_request: int) -> Figure:
    """Medians of three rounds each."""
    sentences = lab.some(max(N_CLIENTS * texts_a_request * 4, _enough(lab)))
    alone, served = [], []
    for _ in range(lab.times(3, 1)):
        alone.append(_translator_speed(lab, sentences))
        with lab.serving("--quiet") as child:
            served.append(asyncio.run(_served_speed(child.port, sentences, texts_a_request)))
    ratio = statistics.median(served) / statistics.median(alone)
    text = f"{statistics.median(served):,.0f} of {statistics.median(alone):,.0f} sentences/s: {ratio:.2f}"
    return Figure(text, ratio >= TO_REACH)


def _enough(lab: Lab) -> int:
    """Sentences for about a sixth of the time that there is."""
    return max(256, int(_translator_speed(lab, lab.some(512)) * lab.seconds / 6))


def _translator_speed(lab: Lab, sentences: list[str]) -> float:
    with Translator.load(lab.model) as translator:
        translator.translate(sentences[:64])
        started_at = perf_counter()
        translator.translate(sentences)
        return len(sentences) / (perf_counter() - started_at)


async def _served_speed(port: int, sentences: list[str], texts_a_request: int) -> float:
    await closed_loop(port, sentences[: 8 * N_CLIENTS], texts_a_request)
    started_at = perf_counter()
    await closed_loop(port, sentences, texts_a_request)
    return len(sentences) / (perf_counter() - started_at)


async def closed_loop(port: int, sentences: list[str], texts_a_request: int, n_clients: int = N_CLIENTS) -> None:
    """Each client asks again as soon as it has its answer, until all sentences are translated."""
    requests = (
        translate_request(sentences[start : start + texts_a_request])
        for start in range(0, len(sentences), texts_a_request)
    )
    client = Client(port)
    try:
        await asyncio.gather(*(_one_client(client, requests) for _ in range(n_clients)))
    finally:
        client.close()


async def _one_client(client: Client, requests: Iterator[bytes]) -> None:
    for raw in requests:
        answer = await client.ask(raw)
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {answer.body[:200]!r}")
