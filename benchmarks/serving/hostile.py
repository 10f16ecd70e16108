"""Rows 27 and 28: slow and large requests, and fuzzing."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from time import perf_counter

from serving.client import Client, translate_request
from serving.harness import Harness, Result

HEADERS = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MAX_RATIO = 2.0
UNUSUAL_BODIES = [
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


def slow_and_large_requests(harness: Harness) -> Result:
    with harness.run_service("--quiet") as child:
        return asyncio.run(_attacked(harness, child.port))


async def _attacked(harness: Harness, port: int) -> Result:
    seconds, n_slow = harness.choose(12, 11), harness.choose(200, 50)
    await measure_p99(harness, port, 1.0)
    undisturbed = await measure_p99(harness, port, 5.0 if not harness.quick else 2.0)
    statuses: Counter[int] = Counter()
    attacks = [
        *(_attack(port, [b"POST /v1/tr"] + [b"a"] * 100, 0.3, statuses) for _ in range(n_slow)),
        *(
            _attack(port, [HEADERS + b"Content-Length: 500\r\n\r\n"] + [b"a"] * 100, 0.3, statuses)
            for _ in range(n_slow)
        ),
        *(
            _attack(port, [HEADERS + b"Content-Length: 1073741824\r\n\r\n"] + [b"a" * 65_536] * 40, 0.01, statuses)
            for _ in range(5)
        ),
        *(_attack(port, [HEADERS + b"X-Long: "] + [b"a" * 65_536] * 16, 0.01, statuses) for _ in range(5)),
    ]
    attack_tasks = [asyncio.create_task(attack) for attack in attacks]
    await asyncio.sleep(0.5)
    attacked = await measure_p99(harness, port, seconds)
    await asyncio.wait(attack_tasks, timeout=15)
    for task in attack_tasks:
        task.cancel()
    await asyncio.gather(*attack_tasks, return_exceptions=True)
    counts = ", ".join(f"{statuses[status]} × {status}" for status in sorted(statuses))
    ratio = attacked / undisturbed
    text = f"p99 {attacked * 1000:.0f} ms against {undisturbed * 1000:.0f} ms: {ratio:.2f}; attackers got {counts}"
    return Result(text, ratio <= MAX_RATIO and set(statuses) == {408, 413, 431})


async def measure_p99(harness: Harness, port: int, seconds: float) -> float:
    """The 99th percentile of the response time of eight clients that send one sentence at a time."""
    client, durations = Client(port), list[float]()
    end = perf_counter() + seconds

    async def run_client(sentence: str) -> None:
        raw = translate_request([sentence])
        while perf_counter() < end:
            started_at = perf_counter()
            response = await client.send(raw)
            assert response.status == 200
            durations.append(perf_counter() - started_at)

    await asyncio.gather(*map(run_client, harness.sample(8)))
    client.close()
    return sorted(durations)[int(0.99 * (len(durations) - 1))]


async def _attack(port: int, parts: list[bytes], pause_seconds: float, statuses: Counter[int]) -> None:
    """Sends parts until a response arrives or the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    response = asyncio.create_task(reader.readline())
    with suppress(OSError):
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.wait([response], timeout=pause_seconds)
            if response.done():
                break
    with suppress(OSError, TimeoutError, IndexError, ValueError):
        line = await asyncio.wait_for(response, 25)
        statuses[int(line.split()[1])] += 1
    writer.close()


def fuzzed(harness: Harness) -> Result:
    """Requests generated from the schema, and unusual bodies."""
    from hypothesis import HealthCheck, given, settings
    from schemathesis import Case, openapi
    from schemathesis.generation import GenerationMode

    statuses: Counter[int] = Counter()
    with harness.run_service("--quiet") as child:
        asyncio.run(_send_unusual_bodies(child.port, statuses))
        schema = openapi.from_url(f"http://127.0.0.1:{child.port}/openapi.json")
        operations = [result.ok() for result in schema.get_all_operations()]
        operation_modes = [
            (operation, mode)
            for operation in operations
            for mode in GenerationMode
            # without input, no request is invalid
            if mode is GenerationMode.POSITIVE or operation.body or operation.query
        ]
        weights = [8 if operation.body else 1 for operation, _ in operation_modes]  # more cases for routes with a body
        for (operation, mode), weight in zip(operation_modes, weights, strict=True):
            n = max(1, harness.choose(6_000, 200) * weight // sum(weights))

            @settings(max_examples=n, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def send(case: Case) -> None:
                statuses[case.call(timeout=60).status_code] += 1

            send()
    n_errors = sum(count for status, count in statuses.items() if status >= 500)
    counts = ", ".join(f"{statuses[status]:,} × {status}" for status in sorted(statuses))
    return Result(f"{n_errors} × 5xx in {statuses.total():,} ({counts})", n_errors == 0)


async def _send_unusual_bodies(port: int, statuses: Counter[int]) -> None:
    client = Client(port)
    for path in ("/v1/translate", "/v1/translate?stream=1", "/v1/look", "/translate", "/detect"):
        for body in UNUSUAL_BODIES:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
            raw = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
            statuses[(await client.send(raw)).status] += 1
