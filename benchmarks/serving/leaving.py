"""Rows 25 and 26: the service is told to leave; the clients leave."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

from serving.client import Client, Lost, translate_request
from serving.lab import Child, Figure, Lab
from serving.throughput import N_CLIENTS, closed_loop

NOTICE_SECONDS = 0.5  # the service's own: so long it takes new requests after the signal
MAX_WASTED = 0.1


@dataclass
class _Ending:
    statuses: Counter[int] = field(default_factory=Counter)
    asked_at: float = float("inf")
    first_refusal_at: float = float("inf")
    unready_at: float = float("inf")
    n_lost: int = 0  # asked before the service closed, and never answered
    n_turned_away: int = 0  # found nobody there any more


def told_to_stop(lab: Lab) -> Figure:
    with lab.serving("--quiet") as child:
        ending, code, seconds = asyncio.run(_stop_under_load(lab, child))
    first = ending.unready_at <= ending.first_refusal_at
    text = (
        f"lost {ending.n_lost}; {ending.statuses[200]:,} × 200, {ending.statuses[503]:,} × 503; readiness fell "
        f"{ending.unready_at - ending.asked_at:.2f} s, refusals {ending.first_refusal_at - ending.asked_at:.2f} s and "
        f"exit {code} {seconds:.1f} s after the signal"
    )
    others = set(ending.statuses) - {200, 503}
    return Figure(text, not ending.n_lost and code == 0 and first and not others)


async def _stop_under_load(lab: Lab, child: Child) -> tuple[_Ending, int, float]:
    ending, raw = _Ending(), translate_request(lab.some(8))
    clients = [asyncio.create_task(_until_gone(child.port, raw, ending)) for _ in range(N_CLIENTS)]
    watcher = asyncio.create_task(_watch_readiness(child.port, ending))
    await asyncio.sleep(1.0)
    ending.asked_at = perf_counter()
    child.process.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(child.process.wait, 60)
    seconds = perf_counter() - ending.asked_at
    await asyncio.gather(*clients, watcher)
    return ending, code, seconds


async def _until_gone(port: int, raw: bytes, ending: _Ending) -> None:
    client = Client(port)
    while True:
        sent_at = perf_counter()
        try:
            answer = await client.ask(raw)
        except OSError:
            ending.n_turned_away += 1
            return
        except Lost:
            if sent_at < ending.asked_at + NOTICE_SECONDS:
                ending.n_lost += 1
            return
        ending.statuses[answer.status] += 1
        if answer.status == 503:
            ending.first_refusal_at = min(ending.first_refusal_at, perf_counter())
            await asyncio.sleep(0.05)


async def _watch_readiness(port: int, ending: _Ending) -> None:
    client = Client(port)
    try:
        while (await client.get("/readyz")).status == 200:
            await asyncio.sleep(0.01)
        ending.unready_at = perf_counter()
    except (Lost, OSError):
        return


def clients_leave(lab: Lab) -> Figure:
    """500 ask and leave, while others stay."""
    with lab.serving("--quiet", "--queue", "10000", "--deadline", "300") as child:
        return asyncio.run(_leave(lab, child.port))


async def _leave(lab: Lab, port: int) -> Figure:
    n_leavers, client = lab.times(500, 300), Client(port)
    await closed_loop(port, lab.some(64), 4)
    staying = asyncio.create_task(closed_loop(port, lab.some(lab.times(2_000, 400)), 4, n_clients=4))
    before = [await client.metric(f"regard_tokens_{kind}_total") for kind in ("wasted", "dropped")]
    leavers = [await client.connect() for _ in range(n_leavers)]
    raw = translate_request(lab.some(16))
    for leaver in leavers:
        leaver.send(raw).add_done_callback(lambda done: done.exception())
    await asyncio.sleep(0.3)
    for leaver in leavers:
        leaver.close()
    await staying
    after = [await client.metric(f"regard_tokens_{kind}_total") for kind in ("wasted", "dropped")]
    wasted, dropped = (late - early for late, early in zip(after, before, strict=True))
    share = wasted / max(1.0, wasted + dropped)
    text = f"{n_leavers} left: {share:.1%} of their tokens wasted ({wasted:,.0f}), {dropped:,.0f} dropped"
    return Figure(text, share <= MAX_WASTED)
