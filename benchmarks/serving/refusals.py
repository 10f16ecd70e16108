"""Rows 32, 37, 38 and 39: costly mistakes, requests that two servers read differently, stops, and costly texts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter

from serving.client import Client, ConnectionClosed, translate_request
from serving.harness import Child, Harness, Result
from serving.hostile import HEADERS, MAX_RATIO, measure_p99

MAX_CPU_SECONDS, MAX_MB, MAX_LIVEZ_SECONDS = 0.05, 20.0, 0.2
MAX_SECONDS, MAX_TEXT_MB = 30.0, 500.0
_N = 349_000
WRONG = {
    "/v1/translate": [b'{"text":[' + b"1," * 520_000 + b"1]}", b'{"text":[' + b"[]," * _N + b"1]}",
                      b'{"text":"a",' + b",".join(b'"%x":1' % number for number in range(100_000)) + b"}"],
    "/v1/predict": [b'{"input":[' + b"{}," * _N + b"1]}", b'{"input":[' + b"1," * 520_000 + b"1]}"],
    "/v1/look": [b'{"text":"a","interventions":{"heads_off":[' + b"1," * 520_000 + b"1]}}"],
    "/translate": [b'{"source":"en","target":"de","q":[' + b"[]," * _N + b"1]}",
                   b'{"source":"en","target":"de","q":[' + b"1," * 510_000 + b"1]}"],
    "/detect": [b'{"q":[' + b"[]," * _N + b"1]}"],
}  # fmt: skip
N_CLIENTS = 64
_CHUNKED = b'd\r\n{"text": "a"}\r\n0\r\n\r\n'
AMBIGUOUS = [  # headers, body
    (b"Content-Length: 23\r\nTransfer-Encoding: chunked", _CHUNKED),
    (b"Transfer-Encoding: chunked\r\nContent-Length: 0", _CHUNKED),
    (b"Content-Length: 13\r\nContent-Length: 5", b'{"text": "a"}'),
    (b"Content-Length: +13", b'{"text": "a"}'),
    (b"Content-Length: -1", b'{"text": "a"}'),
    (b"Content-Length: 0xd", b'{"text": "a"}'),
    (b"Transfer-Encoding : chunked", _CHUNKED),
    (b"Transfer-Encoding: \x0bchunked", _CHUNKED),
    (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", _CHUNKED),
    (b"Transfer-Encoding: gzip, chunked", _CHUNKED),
    (b"Transfer-Encoding: chunked", b"zz\r\n" + _CHUNKED),
    (b"Transfer-Encoding: chunked", b"-1\r\n" + _CHUNKED),
    (b"Transfer-Encoding: chunked", b"5\r\n" + _CHUNKED[3:]),
    (b"Transfer-Encoding: chunked", _CHUNKED[:-2] + b"X: " + b"a" * 90_000 + b"\r\n\r\n"),
    *((b"X: " + b"a" * size, b"") for size in (17_000, 60_000, 98_000, 1_000_000)),
]


def _request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _cpu_seconds(child: Child) -> float:
    fields = Path(f"/proc/{child.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(child: Child) -> float:
    lines = Path(f"/proc/{child.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def costly_mistakes(harness: Harness) -> Result:
    """Row 32."""
    with harness.run_service("--quiet") as child:
        return asyncio.run(_costly_mistakes(harness, child))


async def _costly_mistakes(harness: Harness, child: Child) -> Result:
    client, n = Client(child.port), harness.choose(20, 5)
    await measure_p99(harness, child.port, 2.0)
    undisturbed = await measure_p99(harness, child.port, 4.0)
    requests = [_request(path, body) for path, bodies in WRONG.items() for body in bodies]
    most_seconds, memory = 0.0, _peak_mb(child)
    for raw in requests:
        started_at = _cpu_seconds(child)
        for _ in range(n):
            assert 400 <= (await client.send(raw)).status < 500
        most_seconds = max(most_seconds, (_cpu_seconds(child) - started_at) / n)
    memory = _peak_mb(child) - memory
    attackers = [asyncio.create_task(_repeat(child.port, requests)) for _ in range(4)]
    liveness = asyncio.create_task(_slowest_livez(child.port))
    attacked = await measure_p99(harness, child.port, 8.0)
    for task in (*attackers, liveness):
        task.cancel()
    [slowest, *_] = await asyncio.gather(liveness, *attackers)
    ratio = attacked / undisturbed
    text = (
        f"at most {most_seconds * 1000:.0f} ms of CPU and {memory:.0f} MB; with 4 clients repeating them, /livez took "
        f"{slowest * 1000:.0f} ms at most, and the p99 of others was {ratio:.2f} times as long"
    )
    passed = most_seconds < MAX_CPU_SECONDS and memory < MAX_MB and slowest < MAX_LIVEZ_SECONDS and ratio < MAX_RATIO
    return Result(text, passed)


async def _repeat(port: int, requests: list[bytes]) -> None:
    client = Client(port)
    with suppress(asyncio.CancelledError):
        while True:
            for raw in requests:
                await client.send(raw)


async def _slowest_livez(port: int) -> float:
    client, slowest = Client(port), 0.0
    with suppress(asyncio.CancelledError):
        while True:
            started_at = perf_counter()
            await client.get("/livez")
            slowest = max(slowest, perf_counter() - started_at)
            await asyncio.sleep(0.01)
    return slowest


def ambiguous_requests(harness: Harness) -> Result:
    """Row 37: each is refused, and its connection closed."""
    with harness.run_service("--quiet") as child:
        n_ok = sum(asyncio.run(_is_refused_and_closed(child.port, *case)) for case in AMBIGUOUS)
    return Result(f"{n_ok} of {len(AMBIGUOUS)} refused and closed", n_ok == len(AMBIGUOUS))


async def _is_refused_and_closed(port: int, headers: bytes, body: bytes) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    with suppress(OSError):
        writer.write(HEADERS + headers + b"\r\n\r\n" + body)
        await writer.drain()
    try:
        async with asyncio.timeout(5):
            with suppress(OSError):
                received = await reader.readline()
                await reader.read()
    except TimeoutError:
        return False
    finally:
        writer.close()
    return received.split()[1:2] in ([b"400"], [b"431"], [b"501"])


def stops_under_load(harness: Harness) -> Result:
    """Row 38: 64 clients with connections that stay open, and 64 that connect each time."""
    n_stops, n_lost, n_sent, codes = harness.choose(20, 2), 0, 0, set[int]()
    for number in range(n_stops):
        with harness.run_service("--quiet") as child:
            lost, sent, code = asyncio.run(_stop(harness, child, reconnect=number % 2 == 1))
        n_lost, n_sent, codes = n_lost + lost, n_sent + sent, codes | {code}
    text = f"{n_lost} of {n_sent:,} requests lost in {n_stops} stops; exit codes {sorted(codes)}"
    return Result(text, n_lost == 0 and codes == {0})


async def _stop(harness: Harness, child: Child, *, reconnect: bool) -> tuple[int, int, int]:
    raw, answered, lost = translate_request(harness.sample(1)), [0], [0]

    async def send_until_refused() -> None:
        client = Client(child.port)
        while True:
            if reconnect:
                client.close()
            try:
                response = await client.send(raw)
            except ConnectionRefusedError:  # nothing was sent
                return
            except (OSError, ConnectionClosed):
                lost[0] += 1
                return
            answered[0] += 1
            if response.status != 200:
                return

    clients = [asyncio.create_task(send_until_refused()) for _ in range(N_CLIENTS)]
    await asyncio.sleep(1.0)
    child.process.send_signal(signal.SIGTERM)
    await asyncio.gather(*clients)
    return lost[0], answered[0] + lost[0], await asyncio.to_thread(child.process.wait, 60)


def costly_texts(harness: Harness) -> Result:
    """Row 39."""
    texts = ["a" + "\u0301" * 1_000_000, "\u200b" * 1_000_000, "a" * 100_000]
    texts += ["a" * 10_000, "a\u0301" * 5_000, "\u200b" * 10_000]
    slowest, statuses = 0.0, set[int]()
    with harness.run_service("--quiet", "--max-body", "4000000") as child:
        _status(child, "/v1/translate", {"text": "a"})
        before = _peak_mb(child)
        for path in ("/v1/translate", "/v1/translate?stream=1", "/v1/look", "/translate", "/detect"):
            for text in texts:
                is_libretranslate = path in ("/translate", "/detect")
                body = {"q": text, "source": "auto", "target": "de"} if is_libretranslate else {"text": text}
                started_at = perf_counter()
                statuses.add(_status(child, path, body))
                slowest = max(slowest, perf_counter() - started_at)
        grown = _peak_mb(child) - before
    text = f"slowest {slowest:.1f} s, {grown:.0f} MB more; statuses {sorted(statuses)}"
    return Result(text, slowest < MAX_SECONDS and grown < MAX_TEXT_MB and max(statuses) < 500)


def _status(child: Child, path: str, body: dict[str, str]) -> int:
    connection = HTTPConnection("127.0.0.1", child.port, timeout=2 * MAX_SECONDS)
    content = json.dumps(body, ensure_ascii=False).encode()
    connection.request("POST", path, content, {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status
