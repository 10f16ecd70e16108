"""Row 24: ten times the load that the service can handle, sent without waiting for responses."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

from serving.client import Client, ConnectionClosed, translate_request
from serving.harness import Child, Harness, Result
from serving.throughput import closed_loop

OVERLOAD_FACTOR = 10
TEXTS_PER_REQUEST = 32
N_CLIENTS = 12  # to measure the peak: as many texts as the queue holds
MIN_GOODPUT = 0.9
MAX_GROWTH_MB = 50.0


@dataclass
class _Responses:
    statuses: Counter[int] = field(default_factory=Counter)
    n_without_retry_after: int = 0  # responses with 429
    seconds: list[float] = field(default_factory=list)
    last_success_at: float = 0.0


def overload(harness: Harness) -> Result:
    with harness.run_service("--quiet") as child:
        return asyncio.run(_measure(harness, child))


async def _measure(harness: Harness, child: Child) -> Result:
    sentences = harness.sample(TEXTS_PER_REQUEST * N_CLIENTS * harness.choose(12, 2))
    await closed_loop(child.port, sentences[: TEXTS_PER_REQUEST * N_CLIENTS], TEXTS_PER_REQUEST, N_CLIENTS)
    started_at = perf_counter()
    await closed_loop(child.port, sentences, TEXTS_PER_REQUEST, N_CLIENTS)
    peak = len(sentences) / (perf_counter() - started_at)
    seconds, responses = harness.seconds, _Responses()
    memory = asyncio.create_task(_measure_memory(child, seconds))
    started_at = perf_counter()
    await _open_loop(child.port, sentences, OVERLOAD_FACTOR * peak / TEXTS_PER_REQUEST, seconds, responses)
    statuses = responses.statuses
    goodput = statuses[200] * TEXTS_PER_REQUEST / (responses.last_success_at - started_at)
    early_mb, late_mb = await memory
    ordered = sorted(responses.seconds)
    p99 = ordered[int(0.99 * (len(ordered) - 1))] if ordered else float("nan")
    unexpected = {status: n for status, n in statuses.items() if status not in (200, 429)}
    text = (
        f"goodput {goodput / peak:.0%} of {peak:,.0f} sentences/s; {statuses[200]:,} × 200, {statuses[429]:,} × 429 "
        f"({responses.n_without_retry_after} without Retry-After), others {unexpected or 0}; "
        f"p99 {p99:.2f} s; {late_mb:.0f} MB, {late_mb - early_mb:+.0f} after the first quarter"
    )
    as_expected = not unexpected and not responses.n_without_retry_after
    return Result(text, goodput >= MIN_GOODPUT * peak and as_expected and late_mb - early_mb < MAX_GROWTH_MB)


async def _open_loop(port: int, sentences: list[str], rate: float, seconds: float, responses: _Responses) -> None:
    client = Client(port)
    n = TEXTS_PER_REQUEST
    requests = [translate_request(sentences[start : start + n]) for start in range(0, min(len(sentences), 20 * n), n)]
    tasks: set[asyncio.Task[None]] = set()
    started_at = perf_counter()
    for number in range(int(rate * seconds)):
        delay = started_at + number / rate - perf_counter()
        if delay > 0 or number % 32 == 0:
            await asyncio.sleep(max(0.0, delay))
        task = asyncio.create_task(_send(client, requests[number % len(requests)], responses))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    client.close()


async def _send(client: Client, raw: bytes, responses: _Responses) -> None:
    started_at = perf_counter()
    try:
        response = await client.send(raw)
    except (ConnectionClosed, OSError):
        responses.statuses[0] += 1
        return
    responses.statuses[response.status] += 1
    if response.status == 200:
        responses.last_success_at = perf_counter()
        responses.seconds.append(responses.last_success_at - started_at)
    elif response.status == 429 and "retry-after" not in response.headers:
        responses.n_without_retry_after += 1


async def _measure_memory(child: Child, seconds: float) -> tuple[float, float]:
    """After a quarter of the time, and at the end."""
    await asyncio.sleep(seconds / 4)
    early = child.memory_mb
    await asyncio.sleep(seconds * 0.74)
    return early, child.memory_mb
