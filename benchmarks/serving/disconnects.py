"""Rows 25 and 26: shutdown of the service under load, and clients that disconnect."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

from serving.client import Client, ConnectionClosed, translate_request
from serving.harness import Child, Harness, Result
from serving.throughput import N_CLIENTS, closed_loop

NOTICE_SECONDS = 0.5  # the service's default: how long it accepts requests after the signal
MAX_WASTED = 0.1


@dataclass
class _Shutdown:
    statuses: Counter[int] = field(default_factory=Counter)
    signalled_at: float = float("inf")
    first_refusal_at: float = float("inf")
    unready_at: float = float("inf")
    n_lost: int = 0  # sent before the service refused requests, and never answered


def sigterm_under_load(harness: Harness) -> Result:
    with harness.run_service("--quiet") as child:
        shutdown, code, seconds = asyncio.run(_stop_under_load(harness, child))
    readiness_first = shutdown.unready_at <= shutdown.first_refusal_at
    text = (
        f"{shutdown.n_lost} lost; {shutdown.statuses[200]:,} × 200, {shutdown.statuses[503]:,} × 503; readiness failed "
        f"{shutdown.unready_at - shutdown.signalled_at:.2f} s, the first request was refused "
        f"{shutdown.first_refusal_at - shutdown.signalled_at:.2f} s and the process exited with {code} "
        f"{seconds:.1f} s after the signal"
    )
    unexpected = set(shutdown.statuses) - {200, 503}
    return Result(text, not shutdown.n_lost and code == 0 and readiness_first and not unexpected)


async def _stop_under_load(harness: Harness, child: Child) -> tuple[_Shutdown, int, float]:
    shutdown, raw = _Shutdown(), translate_request(harness.sample(8))
    clients = [asyncio.create_task(_send_until_gone(child.port, raw, shutdown)) for _ in range(N_CLIENTS)]
    watcher = asyncio.create_task(_watch_readiness(child.port, shutdown))
    await asyncio.sleep(1.0)
    shutdown.signalled_at = perf_counter()
    child.process.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(child.process.wait, 60)
    seconds = perf_counter() - shutdown.signalled_at
    await asyncio.gather(*clients, watcher)
    return shutdown, code, seconds


async def _send_until_gone(port: int, raw: bytes, shutdown: _Shutdown) -> None:
    client = Client(port)
    while True:
        sent_at = perf_counter()
        try:
            response = await client.send(raw)
        except OSError:
            return
        except ConnectionClosed:
            if sent_at < shutdown.signalled_at + NOTICE_SECONDS:
                shutdown.n_lost += 1
            return
        shutdown.statuses[response.status] += 1
        if response.status == 503:
            shutdown.first_refusal_at = min(shutdown.first_refusal_at, perf_counter())
            await asyncio.sleep(0.05)


async def _watch_readiness(port: int, shutdown: _Shutdown) -> None:
    client = Client(port)
    try:
        while (await client.get("/readyz")).status == 200:
            await asyncio.sleep(0.01)
        shutdown.unready_at = perf_counter()
    except (ConnectionClosed, OSError):
        return


def clients_disconnect(harness: Harness) -> Result:
    """500 clients send a request and disconnect, while others stay connected."""
    with harness.run_service("--quiet", "--queue", "10000", "--deadline", "300") as child:
        return asyncio.run(_disconnect(harness, child.port))


async def _disconnect(harness: Harness, port: int) -> Result:
    n_disconnected, client = harness.choose(500, 300), Client(port)
    await closed_loop(port, harness.sample(64), 4)
    connected = asyncio.create_task(closed_loop(port, harness.sample(harness.choose(2_000, 400)), 4, n_clients=4))
    before = [await client.metric(f"regard_tokens_{kind}_total") for kind in ("wasted", "dropped")]
    connections = [await client.connect() for _ in range(n_disconnected)]
    raw = translate_request(harness.sample(16))
    for connection in connections:
        connection.send(raw).add_done_callback(lambda future: future.exception())
    await asyncio.sleep(0.3)
    for connection in connections:
        connection.close()
    await connected
    after = [await client.metric(f"regard_tokens_{kind}_total") for kind in ("wasted", "dropped")]
    wasted, dropped = (late - early for late, early in zip(after, before, strict=True))
    share = wasted / max(1.0, wasted + dropped)
    text = f"{n_disconnected} disconnected: {share:.1%} of their tokens wasted ({wasted:,.0f}), {dropped:,.0f} dropped"
    return Result(text, share <= MAX_WASTED)
