"""Rows 29 and 30: engine failures, and API keys and texts in logs."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
from pathlib import Path
from time import perf_counter

from serving.client import Client, translate_request
from serving.harness import Child, Harness, Result

MAX_DETECTION_SECONDS = 15.0


def engine_failure(harness: Harness) -> Result:
    reports, passed = [], True
    for word in ("die", "block"):
        with harness.run_faulty_service() as child:
            seconds, statuses = asyncio.run(_trigger(child.port, word, harness.sample(20)))
        reports.append(f"{word}s: detected after {seconds:.1f} s, waiting requests got {sorted(statuses)}")
        passed &= seconds < MAX_DETECTION_SECONDS and statuses == {503}
    return Result("; ".join(reports), passed)


async def _trigger(port: int, word: str, texts: list[str]) -> tuple[float, set[int]]:
    client = Client(port)
    assert (await client.get("/livez")).status == 200
    started_at = perf_counter()
    first = asyncio.create_task(client.send(translate_request([word] * 64)))  # enough for every thread
    await asyncio.sleep(0.1)
    waiting = [asyncio.create_task(client.send(translate_request([text]))) for text in texts]
    while (await client.get("/livez")).status == 200 and perf_counter() - started_at < 60:
        await asyncio.sleep(0.05)
    seconds = perf_counter() - started_at
    return seconds, {response.status for response in await asyncio.gather(first, *waiting)}


WITHOUT_KEY = {"/livez", "/health", "/docs", "/openapi.json"}  # a status, and files without data


def missing_keys_and_logs(harness: Harness) -> Result:
    key, secret = secrets.token_hex(24), f"secret{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "keys"
        file.write_text(key + "\n")
        with harness.run_service("--keys", str(file)) as child:
            n_routes, open_routes, metrics = asyncio.run(_try_routes(child, key, secret))
            child.stop()
            log = child.log.read_text() + "".join(child.lines)
    leaks = [value for value in (key, secret) for output in (log, metrics) if value in output]
    n_lines = log.count("\n")
    text = f"{n_routes} routes tried: open {open_routes}; {len(leaks)} leaks in {n_lines} log lines and the metrics"
    return Result(text, set(open_routes) == WITHOUT_KEY and not leaks and n_lines > n_routes)


async def _try_routes(child: Child, key: str, secret: str) -> tuple[int, list[str], str]:
    client, authorized = Client(child.port), f"Authorization: Bearer {key}\r\n"
    openapi = json.loads((await client.get("/openapi.json", authorized)).body)
    routes = [(method, path) for path, methods in openapi["paths"].items() for method in methods]
    routes += [("get", path) for path in ("/docs", "/openapi.json", "/none")]
    open_routes = []
    for method, path in routes:
        for headers in ("", f"Authorization: Bearer {secret}\r\n", f"Authorization: Basic {key}\r\n"):
            raw = f"{method.upper()} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{headers}\r\n"
            if (await client.send(raw.encode())).status != 401 and path not in open_routes:
                open_routes.append(path)
    for texts in ([secret], [secret * 5_000], [secret] * 500):
        await client.send(translate_request(texts, authorized))
    await client.get(f"/{secret}?api_key={secret}", authorized)
    await client.get(f"/v1/training?model={secret}", authorized)
    form = f"q={secret}&source=en&target=de&api_key={key}".encode()
    head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    await client.send(f"{head}Content-Length: {len(form)}\r\n\r\n".encode() + form)
    return len(routes), open_routes, (await client.get("/metrics", authorized)).body.decode()
