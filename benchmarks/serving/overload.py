"""Row 24: ten times as much as it can do, whether or not it answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

from serving.client import Client, Lost, translate_request
from serving.lab import Child, Figure, Lab
from serving.throughput import closed_loop

TIMES_TOO_MUCH = 10
TEXTS_A_REQUEST = 32
N_CLIENTS = 12  # of the peak: as many texts as the queue takes
GOODPUT = 0.9
MAX_MORE_MB = 50.0


@dataclass
class Seen:
    statuses: Counter[int] = field(default_factory=Counter)
    n_unsaid: int = 0  # 429 without Retry-After
    seconds: list[float] = field(default_factory=list)
    finished_at: float = 0.0


def ten_times_too_much(lab: Lab) -> Figure:
    with lab.serving("--quiet") as child:
        return asyncio.run(_measure(lab, child))


async def _measure(lab: Lab, child: Child) -> Figure:
    sentences = lab.some(TEXTS_A_REQUEST * N_CLIENTS * lab.times(12, 2))
    await closed_loop(child.port, sentences[: TEXTS_A_REQUEST * N_CLIENTS], TEXTS_A_REQUEST, N_CLIENTS)
    started_at = perf_counter()
    await closed_loop(child.port, sentences, TEXTS_A_REQUEST, N_CLIENTS)
    peak = len(sentences) / (perf_counter() - started_at)
    seconds, seen = lab.seconds, Seen()
    memory = asyncio.create_task(_memory(child, seconds))
    started_at = perf_counter()
    await _open_loop(child.port, sentences, TIMES_TOO_MUCH * peak / TEXTS_A_REQUEST, seconds, seen)
    goodput = seen.statuses[200] * TEXTS_A_REQUEST / (seen.finished_at - started_at)
    early, late = await memory
    p99 = sorted(seen.seconds)[int(0.99 * (len(seen.seconds) - 1))] if seen.seconds else float("nan")
    others = {status: n for status, n in seen.statuses.items() if status not in (200, 429)}
    text = (
        f"goodput {goodput / peak:.0%} of {peak:,.0f} sentences/s; {seen.statuses[200]:,} × 200, "
        f"{seen.statuses[429]:,} × 429 ({seen.n_unsaid} without Retry-After), others {others or 0}; "
        f"p99 {p99:.2f} s; {late:.0f} MB, {late - early:+.0f} after the first quarter"
    )
    held = goodput >= GOODPUT * peak and not others and not seen.n_unsaid and late - early < MAX_MORE_MB
    return Figure(text, held)


async def _open_loop(port: int, sentences: list[str], rate: float, seconds: float, seen: Seen) -> None:
    client = Client(port)
    n = TEXTS_A_REQUEST
    raw = [translate_request(sentences[start : start + n]) for start in range(0, min(len(sentences), 20 * n), n)]
    tasks: set[asyncio.Task[None]] = set()
    started_at = perf_counter()
    for number in range(int(rate * seconds)):
        late = started_at + number / rate - perf_counter()
        if late > 0 or number % 32 == 0:
            await asyncio.sleep(max(0.0, late))
        task = asyncio.create_task(_once(client, raw[number % len(raw)], seen))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    client.close()


async def _once(client: Client, raw: bytes, seen: Seen) -> None:
    started_at = perf_counter()
    try:
        answer = await client.ask(raw)
    except (Lost, OSError):
        seen.statuses[0] += 1
        return
    seen.statuses[answer.status] += 1
    if answer.status == 200:
        seen.finished_at = perf_counter()
        seen.seconds.append(seen.finished_at - started_at)
    elif answer.status == 429 and "retry-after" not in answer.headers:
        seen.n_unsaid += 1


async def _memory(child: Child, seconds: float) -> tuple[float, float]:
    """After a quarter of the time, and at its end."""
    await asyncio.sleep(seconds / 4)
    early = child.memory_mb
    await asyncio.sleep(seconds * 0.74)
    return early, child.memory_mb
