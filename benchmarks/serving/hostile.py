"""Rows 27 and 28: those who are slow or huge on purpose, and those who say anything at all."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from time import perf_counter

from serving.client import Client, translate_request
from serving.lab import Figure, Lab

HEAD = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MAX_RATIO = 2.0
ODD_BODIES = [
    b"",
    b"{",
    b'{"text": "\\ud800"}',
    b'{"text": NaN}',
    b'{"text": "a", "beam": Infinity}',
    b'{"text": "\xff"}',
    b'{"text":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    b'{"text": "a", "beam": 1e400}',
    b'{"q": "\\udfff", "source": "en", "target": "de"}',
    b'{"q": NaN, "source": "\\ud800", "target": []}',
    json.dumps({"q": "<" * 50_000, "source": "en", "target": "de", "format": "html"}).encode(),
    json.dumps({"q": "<b>" * 10_000, "source": "en", "target": "de", "format": "html"}).encode(),
    json.dumps({"text": "\u202e\u0000\ufeff\U0010ffff" * 100}).encode(),
]


def slow_and_huge(lab: Lab) -> Figure:
    with lab.serving("--quiet") as child:
        return asyncio.run(_besieged(lab, child.port))


async def _besieged(lab: Lab, port: int) -> Figure:
    seconds, n_slow = lab.times(12, 11), lab.times(200, 50)
    await _p99(lab, port, 1.0)
    calm = await _p99(lab, port, 5.0 if not lab.quick else 2.0)
    statuses: Counter[int] = Counter()
    attacks = [
        *(_attack(port, [b"POST /v1/tr"] + [b"a"] * 100, 0.3, statuses) for _ in range(n_slow)),
        *(_attack(port, [HEAD + b"Content-Length: 500\r\n\r\n"] + [b"a"] * 100, 0.3, statuses) for _ in range(n_slow)),
        *(
            _attack(port, [HEAD + b"Content-Length: 1073741824\r\n\r\n"] + [b"a" * 65_536] * 40, 0.01, statuses)
            for _ in range(5)
        ),
        *(_attack(port, [HEAD + b"X-Long: "] + [b"a" * 65_536] * 16, 0.01, statuses) for _ in range(5)),
    ]
    under_way = [asyncio.create_task(attack) for attack in attacks]
    await asyncio.sleep(0.5)
    besieged = await _p99(lab, port, seconds)
    await asyncio.wait(under_way, timeout=15)
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    told = ", ".join(f"{statuses[status]} × {status}" for status in sorted(statuses))
    text = f"p99 {besieged * 1000:.0f} ms against {calm * 1000:.0f} ms: {besieged / calm:.2f}; told {told}"
    return Figure(text, besieged / calm <= MAX_RATIO and set(statuses) == {408, 413, 431})


async def _p99(lab: Lab, port: int, seconds: float) -> float:
    """Of eight clients with a sentence each."""
    client, taken = Client(port), list[float]()
    end = perf_counter() + seconds

    async def one(sentence: str) -> None:
        raw = translate_request([sentence])
        while perf_counter() < end:
            started_at = perf_counter()
            answer = await client.ask(raw)
            assert answer.status == 200
            taken.append(perf_counter() - started_at)

    await asyncio.gather(*map(one, lab.some(8)))
    client.close()
    return sorted(taken)[int(0.99 * (len(taken) - 1))]


async def _attack(port: int, parts: list[bytes], pause_seconds: float, statuses: Counter[int]) -> None:
    """Send part after part until an answer comes, or the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.create_task(reader.readline())
    with suppress(OSError):
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.wait([answer], timeout=pause_seconds)
            if answer.done():
                break
    with suppress(OSError, TimeoutError, IndexError, ValueError):
        line = await asyncio.wait_for(answer, 25)
        statuses[int(line.split()[1])] += 1
    writer.close()


def fuzzed(lab: Lab) -> Figure:
    """Cases from the schema, and bodies that no schema thinks of."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis import Case, openapi
    from schemathesis.generation import GenerationMode

    statuses: Counter[int] = Counter()
    with lab.serving("--quiet") as child:
        asyncio.run(_odd_bodies(child.port, statuses))
        schema = openapi.from_url(f"http://127.0.0.1:{child.port}/openapi.json")
        operations = [one.ok() for one in schema.get_all_operations()]
        ways = [
            (operation, mode)
            for operation in operations
            for mode in GenerationMode
            if mode is GenerationMode.POSITIVE or operation.body or operation.query  # else nothing can be wrong
        ]
        # the routes that take much are asked more often
        weights = [8 if operation.body else 1 for operation, _ in ways]
        for (operation, mode), weight in zip(ways, weights, strict=True):
            n = max(1, lab.times(6_000, 200) * weight // sum(weights))

            @settings(max_examples=n, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: Case) -> None:
                statuses[case.call(timeout=60).status_code] += 1

            with suppress(Unsatisfiable):
                ask()
    n_broken = sum(count for status, count in statuses.items() if status >= 500)
    told = ", ".join(f"{statuses[status]:,} × {status}" for status in sorted(statuses))
    return Figure(f"5xx = {n_broken} in {statuses.total():,} ({told})", n_broken == 0)


async def _odd_bodies(port: int, statuses: Counter[int]) -> None:
    client = Client(port)
    for path in ("/v1/translate", "/v1/translate?stream=1", "/v1/look", "/translate", "/detect"):
        for body in ODD_BODIES:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
            raw = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
            statuses[(await client.ask(raw)).status] += 1
