"""The queue: who shares a batch, who is refused, and whose work is never done."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.options import DecodingOptions
from regard.serve.batching.batcher import MAX_BATCH_TEXTS, MAX_BATCH_TOKENS, Batcher, BatchKey, _choose, _QueuedText
from regard.serve.http.problem import Problem
from regard.translator import Translation

from .fakes import Shout


def with_batcher(
    body: Callable[[Batcher], Awaitable[Any]], *translators: Shout, max_waiting: int = 100, stall_seconds: float = 60.0
) -> Any:
    async def whole() -> Any:
        batcher = Batcher(translators, wait_seconds=0.005, max_waiting=max_waiting, stall_seconds=stall_seconds)
        batcher.start()
        try:
            return await body(batcher)
        finally:
            for translator in translators:
                translator.free.set()
            batcher.close()

    return asyncio.run(whole())


async def ask(batcher: Batcher, *texts: str, wish: BatchKey | None = None, seconds: float = 10.0) -> list[str]:
    found = await batcher.translate(texts, lambda _: 1, wish or BatchKey(), deadline_seconds=seconds)
    return [one.text for one in found]


async def held(translator: Shout) -> None:
    """Until a batch is in the engine, which will not let it go."""
    await asyncio.to_thread(translator.begun.wait, 10)


def test_requests_that_come_together_share_a_batch_and_each_gets_its_own() -> None:
    shout = Shout()

    async def body(batcher: Batcher) -> list[list[str]]:
        return await asyncio.gather(*(ask(batcher, f"a{i}", f"b{i}") for i in range(10)))

    found = with_batcher(body, shout)
    assert found == [[f"A{i}", f"B{i}"] for i in range(10)]
    assert len(shout.batches) == 1


def test_only_like_wishes_share_a_batch() -> None:
    shout = Shout()
    greedy = BatchKey(DecodingOptions(beam=1))

    async def body(batcher: Batcher) -> Any:
        return await asyncio.gather(*(ask(batcher, f"{i}", wish=greedy if i % 2 else None) for i in range(8)))

    assert with_batcher(body, shout) == [[f"{i}"] for i in range(8)]
    assert sorted(map(sorted, shout.batches)) == [["0", "2", "4", "6"], ["1", "3", "5", "7"]]


def test_the_work_of_a_client_that_has_left_is_never_begun() -> None:
    shout = Shout()
    shout.free.clear()

    async def body(batcher: Batcher) -> None:
        first = asyncio.create_task(ask(batcher, "first"))
        await held(shout)
        leavers = [asyncio.create_task(ask(batcher, f"leaver {i}")) for i in range(20)]
        stays = asyncio.create_task(ask(batcher, "stays"))
        await asyncio.sleep(0)
        assert batcher.n_waiting == 21
        for leaver in leavers:
            leaver.cancel()
        await asyncio.gather(*leavers, return_exceptions=True)
        assert batcher.n_waiting == batcher.n_waiting_tokens == 1
        shout.free.set()
        assert await first == ["FIRST"] and await stays == ["STAYS"]
        assert batcher.throughput.n_dropped_tokens == 20 and batcher.throughput.n_wasted_tokens == 0

    with_batcher(body, shout)
    assert shout.seen == ["first", "stays"]


def test_what_is_translated_for_nobody_is_counted() -> None:
    shout = Shout()
    shout.free.clear()

    async def body(batcher: Batcher) -> int:
        leaver = asyncio.create_task(ask(batcher, "too late"))
        await held(shout)
        leaver.cancel()
        await asyncio.gather(leaver, return_exceptions=True)
        shout.free.set()
        await ask(batcher, "next")
        return batcher.throughput.n_wasted_tokens

    assert with_batcher(body, shout) == 1


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    shout = Shout()
    shout.free.clear()

    async def body(batcher: Batcher) -> None:
        first = asyncio.create_task(ask(batcher, "first"))
        await held(shout)
        waiting = [asyncio.create_task(ask(batcher, f"{i}")) for i in range(10)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await ask(batcher, "one too many")
        assert refused.value.status == 429 and refused.value.retry_after in range(1, 61)
        shout.free.set()
        assert await first == ["FIRST"]
        assert await asyncio.gather(*waiting) == [[f"{i}"] for i in range(10)]
        assert await ask(batcher, "room again") == ["ROOM AGAIN"]

    with_batcher(body, shout, max_waiting=10)
    assert "one too many" not in shout.seen


def test_what_can_not_be_done_in_time_is_refused_though_nothing_waits() -> None:
    shout = Shout()

    async def body(batcher: Batcher) -> None:
        async def translate(size: int, beam: int) -> None:
            wish = BatchKey(DecodingOptions(beam=beam))
            await batcher.translate(["a"] * 10, lambda _: size, wish, deadline_seconds=10)

        await translate(int(batcher.throughput.tokens_per_second), 4)
        for size, beam in (
            (int(batcher.throughput.tokens_per_second) + 1, 4),
            (int(batcher.throughput.tokens_per_second), 5),
        ):
            with pytest.raises(Problem) as refused:
                await translate(size, beam)
            assert refused.value.status == 413 and batcher.n_waiting == 0

    with_batcher(body, shout)
    assert len(shout.seen) == 10


def test_a_deadline_is_kept_and_what_was_not_begun_is_dropped() -> None:
    shout = Shout()
    shout.free.clear()

    async def body(batcher: Batcher) -> None:
        first = asyncio.create_task(ask(batcher, "first"))
        await held(shout)
        with pytest.raises(Problem) as late:
            await ask(batcher, "late", seconds=0.05)
        assert late.value.status == 504 and batcher.n_waiting == 0
        shout.free.set()
        await first

    with_batcher(body, shout)
    assert shout.seen == ["first"]


def test_one_text_that_fails_does_not_spoil_the_others_of_its_batch() -> None:
    shout = Shout()

    async def body(batcher: Batcher) -> list[Any]:
        texts = ["good", "raise ValueError secret", "fine"]
        return await asyncio.gather(*(ask(batcher, text) for text in texts), return_exceptions=True)

    good, failed, fine = with_batcher(body, shout)
    assert (good, fine) == (["GOOD"], ["FINE"])
    assert isinstance(failed, Problem) and failed.status == 500 and "secret" not in failed.message


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_thread_that_dies_is_noticed_and_everyone_is_told(n_threads: int) -> None:
    shouts = [Shout() for _ in range(n_threads)]

    async def body(batcher: Batcher) -> None:
        waiting = asyncio.create_task(ask(batcher, "raise SystemExit"))
        for _ in range(200):
            await asyncio.sleep(0.01)
            if batcher.health() is not None:
                break
        assert batcher.health() == "dead (SystemExit)"
        batcher.fail()
        for asked in (waiting, ask(batcher, "anything")):
            with pytest.raises(Problem) as told:
                await asked
            assert told.value.status == 503

    with_batcher(body, *shouts)


def test_a_thread_that_is_stuck_is_noticed() -> None:
    shout = Shout()
    shout.free.clear()

    async def body(batcher: Batcher) -> None:
        waiting = asyncio.create_task(ask(batcher, "stuck"))
        await held(shout)
        assert batcher.health() is None
        await asyncio.sleep(0.3)
        assert batcher.health() == "stuck"
        batcher.fail()
        with pytest.raises(Problem, match="engine"):
            await waiting

    with_batcher(body, shout, stall_seconds=0.1)


def test_two_threads_share_what_waits() -> None:
    shouts = Shout(0.02), Shout(0.02)

    async def body(batcher: Batcher) -> list[str]:
        return await ask(batcher, *(f"{i}" for i in range(20)))

    assert with_batcher(body, *shouts) == [f"{i}" for i in range(20)]
    assert all(shout.batches for shout in shouts)


def test_in_traffic_an_idle_translator_waits_for_its_share() -> None:
    shouts = Shout(), Shout()
    shouts[0].free.clear()

    async def body(batcher: Batcher) -> None:
        held_up = asyncio.create_task(ask(batcher, "a", "b", "c"))  # two are held up, one is not
        await held(shouts[1])
        batcher._wait_seconds = 60.0
        one = asyncio.create_task(ask(batcher, "one"))
        await asyncio.sleep(0.05)
        assert shouts[1].batches == [["c"]]
        await asyncio.gather(one, ask(batcher, "two"))  # with two running, two are a share
        assert shouts[1].batches == [["c"], ["one", "two"]]
        shouts[0].free.set()
        await held_up

    with_batcher(body, *shouts)


@given(st.lists(st.integers(1, 600), min_size=1, max_size=120), st.integers(1, MAX_BATCH_TEXTS))
def test_a_batch_has_the_oldest_fits_the_budget_and_repeats_nothing(sizes: list[int], most: int) -> None:
    lines = [_QueuedText(None, i, "", size, BatchKey(), 0.0) for i, size in enumerate(sizes)]  # type: ignore[arg-type]
    chosen = _choose(lines, most)
    assert lines[0] in chosen and len(set(chosen)) == len(chosen) <= most
    longest = max(line.n_tokens for line in chosen)
    assert len(chosen) == 1 or (longest + 1) * len(chosen) <= MAX_BATCH_TOKENS


def test_blank_texts_and_none_at_all() -> None:
    async def body(batcher: Batcher) -> list[list[Translation]]:
        return [await batcher.translate(texts, lambda _: 1, BatchKey(), deadline_seconds=5) for texts in ([], [" "])]

    assert with_batcher(body, Shout()) == [[], [Translation("", n_parts=0)]]


def test_who_asks_for_little_does_not_overtake_who_asked_for_much() -> None:
    shout = Shout()
    shout.free.clear()

    async def body(batcher: Batcher) -> None:
        first = asyncio.create_task(ask(batcher, "first"))
        await held(shout)
        waiting = asyncio.create_task(ask(batcher, *"abcdef"))
        await asyncio.sleep(0)
        assert not batcher.full
        for texts in ("ghijkl", "m"):
            with pytest.raises(Problem):
                await ask(batcher, *texts)
            assert batcher.full
        shout.free.set()
        await asyncio.gather(first, waiting)
        assert not batcher.full and await ask(batcher, "m") == ["M"]

    with_batcher(body, shout, max_waiting=10)


def test_a_few_texts_split_among_two_engines_do_not_say_how_fast_they_are() -> None:
    """One sentence alone takes much longer than its share of a batch: nobody should be refused for that."""

    async def body(batcher: Batcher) -> float:
        for number in range(5):
            await ask(batcher, f"a{number}", f"b{number}")
        return batcher.throughput.tokens_per_second

    before = with_batcher(_speed, Shout(), Shout())
    assert with_batcher(body, Shout(0.05), Shout(0.05)) == before


async def _speed(batcher: Batcher) -> float:
    return batcher.throughput.tokens_per_second
