"""Sentences per second: the Translator alone, and 32 clients of the service, alternating, on the same sentences."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator
from time import perf_counter

from regard.translator import Translator
from serving.client import Client, translate_request
from serving.harness import Harness, Result

N_CLIENTS = 32
MIN_RATIO = 0.9


def compared_with_translator(harness: Harness, texts_per_request: int) -> Result:
    """Medians of three rounds each."""
    sentences = harness.sample(max(N_CLIENTS * texts_per_request * 4, _sentence_count(harness)))
    alone, served = [], []
    for _ in range(harness.choose(3, 1)):
        alone.append(_translator_speed(harness, sentences))
        with harness.run_service("--quiet") as child:
            served.append(asyncio.run(_service_speed(child.port, sentences, texts_per_request)))
    ratio = statistics.median(served) / statistics.median(alone)
    text = f"{statistics.median(served):,.0f} of {statistics.median(alone):,.0f} sentences/s: {ratio:.2f}"
    return Result(text, ratio >= MIN_RATIO)


def _sentence_count(harness: Harness) -> int:
    """As many sentences as take about a sixth of the available time."""
    return max(256, int(_translator_speed(harness, harness.sample(512)) * harness.seconds / 6))


def _translator_speed(harness: Harness, sentences: list[str]) -> float:
    with Translator.load(harness.model) as translator:
        translator.translate(sentences[:64])
        started_at = perf_counter()
        translator.translate(sentences)
        return len(sentences) / (perf_counter() - started_at)


async def _service_speed(port: int, sentences: list[str], texts_per_request: int) -> float:
    await closed_loop(port, sentences[: 8 * N_CLIENTS], texts_per_request)
    started_at = perf_counter()
    await closed_loop(port, sentences, texts_per_request)
    return len(sentences) / (perf_counter() - started_at)


async def closed_loop(port: int, sentences: list[str], texts_per_request: int, n_clients: int = N_CLIENTS) -> None:
    """Each client sends its next request when it has its response, until all sentences are translated."""
    requests = (
        translate_request(sentences[start : start + texts_per_request])
        for start in range(0, len(sentences), texts_per_request)
    )
    client = Client(port)
    try:
        await asyncio.gather(*(_run_client(client, requests) for _ in range(n_clients)))
    finally:
        client.close()


async def _run_client(client: Client, requests: Iterator[bytes]) -> None:
    for raw in requests:
        response = await client.send(raw)
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {response.body[:200]!r}")
