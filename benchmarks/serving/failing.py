"""Rows 29 and 30: the engine fails; somebody has no key, or reads the logs."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
from pathlib import Path
from time import perf_counter

from serving.client import Client, translate_request
from serving.lab import Child, Figure, Lab

SOON_SECONDS = 15.0


def the_engine_fails(lab: Lab) -> Figure:
    told, held = [], True
    for word in ("die", "block"):
        with lab.serving_badly() as child:
            seconds, statuses = asyncio.run(_fail(child.port, word, lab.some(20)))
        told.append(f"{word}s: noticed after {seconds:.1f} s, waiters got {sorted(statuses)}")
        held &= seconds < SOON_SECONDS and statuses == {503}
    return Figure("; ".join(told), held)


async def _fail(port: int, word: str, others: list[str]) -> tuple[float, set[int]]:
    client = Client(port)
    assert (await client.get("/livez")).status == 200
    started_at = perf_counter()
    first = asyncio.create_task(client.ask(translate_request([word] * 64)))  # enough for every thread
    await asyncio.sleep(0.1)
    waiters = [asyncio.create_task(client.ask(translate_request([text]))) for text in others]
    while (await client.get("/livez")).status == 200 and perf_counter() - started_at < 60:
        await asyncio.sleep(0.05)
    seconds = perf_counter() - started_at
    return seconds, {answer.status for answer in await asyncio.gather(first, *waiters)}


def without_a_key(lab: Lab) -> Figure:
    key, secret = secrets.token_hex(24), f"secret{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "keys"
        file.write_text(key + "\n")
        with lab.serving("--keys", str(file)) as child:
            n_routes, open_routes, measured = asyncio.run(_try_all(child, key, secret))
            child.stop()
            logged = child.log.read_text() + "".join(child.lines)
    leaks = [what for what in (key, secret) for place in (logged, measured) if what in place]
    lines = logged.count("\n")
    text = f"{n_routes} routes tried: open {open_routes}; leaks {len(leaks)} in {lines} lines of log and the metrics"
    return Figure(text, open_routes == ["/livez"] and not leaks and lines > n_routes)


async def _try_all(child: Child, key: str, secret: str) -> tuple[int, list[str], str]:
    client, good = Client(child.port), f"Authorization: Bearer {key}\r\n"
    described = json.loads((await client.get("/openapi.json", good)).body)
    routes = [(method, path) for path, methods in described["paths"].items() for method in methods]
    routes += [("get", path) for path in ("/docs", "/openapi.json", "/none")]
    opened = []
    for method, path in routes:
        for headers in ("", f"Authorization: Bearer {secret}\r\n", f"Authorization: Basic {key}\r\n"):
            raw = f"{method.upper()} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{headers}\r\n"
            if (await client.ask(raw.encode())).status != 401 and path not in opened:
                opened.append(path)
    for text in ([secret], [secret * 5_000], [secret] * 500):
        await client.ask(translate_request(text, good))
    await client.get(f"/{secret}?api_key={secret}", good)
    await client.get(f"/v1/training?model={secret}", good)
    form = f"q={secret}&source=en&target=de&api_key={key}".encode()
    head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    await client.ask(f"{head}Content-Length: {len(form)}\r\n\r\n".encode() + form)
    return len(routes), opened, (await client.get("/metrics", good)).body.decode()
