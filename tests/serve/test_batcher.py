"""The batcher: which texts share a batch, which requests are refused, and what is dropped."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.options import DecodingOptions
from regard.serve.batching.batcher import MAX_BATCH_TEXTS, MAX_BATCH_TOKENS, Batcher, _choose, _QueuedInput
from regard.serve.batching.jobs import TranslateJob
from regard.serve.http.problem import Problem
from regard.serve.settings import Settings
from regard.translator import Translation

from .fakes import TIMEOUT_SECONDS, UppercaseTranslator


def run_with_batcher(
    body: Callable[[Batcher], Awaitable[Any]],
    *translators: UppercaseTranslator,
    wait_seconds: float = 0.005,
    max_waiting: int = 100,
) -> Any:
    async def run() -> Any:
        limits = {"wait_seconds": wait_seconds, "max_waiting": max_waiting, "stall_seconds": 600.0}
        batcher = Batcher(translators, Settings().model_copy(update=limits))
        try:
            return await body(batcher)
        finally:
            for translator in translators:
                translator.released.set()
            batcher.close()

    return asyncio.run(run())


async def translate(
    batcher: Batcher, *texts: str, job: TranslateJob | None = None, seconds: float = TIMEOUT_SECONDS
) -> list[str]:
    translations = await batcher.run(job or TranslateJob(), texts, lambda _: 1, deadline_seconds=seconds)
    return [translation.text for translation in translations]


def held_translator() -> UppercaseTranslator:
    """Starts a batch, but does not finish it until `released` is set."""
    translator = UppercaseTranslator()
    translator.released.clear()
    return translator


async def wait_for_start(translator: UppercaseTranslator) -> None:
    assert await asyncio.to_thread(translator.started.wait, TIMEOUT_SECONDS)


async def wait_for_health(batcher: Batcher, expected: str) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while batcher.health() != expected:
            await asyncio.sleep(0.01)


def test_an_idle_translator_waits_for_a_full_batch_of_several_requests() -> None:
    translator = UppercaseTranslator()

    async def body(batcher: Batcher) -> list[list[str]]:
        return await asyncio.gather(*(translate(batcher, f"a{i}", f"b{i}") for i in range(MAX_BATCH_TEXTS // 2)))

    translations = run_with_batcher(body, translator, wait_seconds=2 * TIMEOUT_SECONDS)
    assert translations == [[f"A{i}", f"B{i}"] for i in range(MAX_BATCH_TEXTS // 2)]
    assert len(translator.batches) == 1


def test_texts_that_arrive_during_a_batch_share_the_next_one_if_their_keys_are_equal() -> None:
    translator = held_translator()
    greedy = TranslateJob(DecodingOptions(beam=1))

    async def body(batcher: Batcher) -> Any:
        first = asyncio.create_task(translate(batcher, "first"))
        await wait_for_start(translator)
        tasks = [asyncio.create_task(translate(batcher, f"{i}", job=greedy if i % 2 else None)) for i in range(8)]
        await asyncio.sleep(0)
        assert batcher.n_waiting == 8
        translator.released.set()
        return await asyncio.gather(first, *tasks)

    assert run_with_batcher(body, translator) == [["FIRST"], *([f"{i}"] for i in range(8))]
    assert translator.batches == [["first"], ["0", "2", "4", "6"], ["1", "3", "5", "7"]]


def test_cancelled_requests_leave_the_queue_and_are_never_translated() -> None:
    translator = held_translator()

    async def body(batcher: Batcher) -> None:
        first = asyncio.create_task(translate(batcher, "first"))
        await wait_for_start(translator)
        cancelled = [asyncio.create_task(translate(batcher, f"cancelled {i}")) for i in range(20)]
        last = asyncio.create_task(translate(batcher, "last"))
        await asyncio.sleep(0)
        assert batcher.n_waiting == 21
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*cancelled, return_exceptions=True)
        assert batcher.n_waiting == batcher.n_waiting_tokens == 1
        translator.released.set()
        assert await first == ["FIRST"] and await last == ["LAST"]
        assert batcher.throughput.n_dropped_tokens == 20 and batcher.throughput.n_wasted_tokens == 0

    run_with_batcher(body, translator)
    assert translator.texts == ["first", "last"]


def test_tokens_translated_for_a_cancelled_request_are_counted_as_wasted() -> None:
    translator = held_translator()

    async def body(batcher: Batcher) -> int:
        cancelled = asyncio.create_task(translate(batcher, "cancelled"))
        await wait_for_start(translator)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        translator.released.set()
        await translate(batcher, "next")
        return batcher.throughput.n_wasted_tokens

    assert run_with_batcher(body, translator) == 1


def test_full_queue_refuses_with_retry_after() -> None:
    translator = held_translator()

    async def body(batcher: Batcher) -> None:
        first = asyncio.create_task(translate(batcher, "first"))
        await wait_for_start(translator)
        queued = [asyncio.create_task(translate(batcher, f"{i}")) for i in range(10)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await translate(batcher, "one too many")
        assert refused.value.status == 429 and refused.value.retry_after in range(1, 61)
        translator.released.set()
        assert await first == ["FIRST"]
        assert await asyncio.gather(*queued) == [[f"{i}"] for i in range(10)]
        assert await translate(batcher, "accepted again") == ["ACCEPTED AGAIN"]

    run_with_batcher(body, translator, max_waiting=10)
    assert "one too many" not in translator.texts


def test_request_that_cannot_meet_its_deadline_is_refused_although_the_queue_is_empty() -> None:
    translator = UppercaseTranslator()

    async def body(batcher: Batcher) -> None:
        async def translate_ten(n_tokens: int, beam: int) -> None:
            job = TranslateJob(DecodingOptions(beam=beam))
            await batcher.run(job, ["a"] * 10, lambda _: n_tokens, deadline_seconds=10)

        await translate_ten(int(batcher.throughput.tokens_per_second), 4)
        speed = int(batcher.throughput.tokens_per_second)
        for n_tokens, beam in ((speed + 1, 4), (speed, 5)):
            with pytest.raises(Problem) as refused:
                await translate_ten(n_tokens, beam)
            assert refused.value.status == 413 and batcher.n_waiting == 0

    run_with_batcher(body, translator)
    assert len(translator.texts) == 10


def test_request_that_exceeds_its_deadline_leaves_the_queue() -> None:
    translator = held_translator()

    async def body(batcher: Batcher) -> None:
        first = asyncio.create_task(translate(batcher, "first"))
        await wait_for_start(translator)
        with pytest.raises(Problem) as late:
            await translate(batcher, "late", seconds=0.05)
        assert late.value.status == 504 and batcher.n_waiting == 0
        translator.released.set()
        await first

    run_with_batcher(body, translator)
    assert translator.texts == ["first"]


def test_a_text_that_fails_does_not_affect_the_others_of_its_batch() -> None:
    translator = held_translator()

    async def body(batcher: Batcher) -> list[Any]:
        first = asyncio.create_task(translate(batcher, "first"))
        await wait_for_start(translator)
        texts = ["good", "raise ValueError secret", "fine"]
        tasks = [asyncio.create_task(translate(batcher, text)) for text in texts]
        await asyncio.sleep(0)
        translator.released.set()
        return await asyncio.gather(first, *tasks, return_exceptions=True)

    _, good, failed, fine = run_with_batcher(body, translator)
    assert (good, fine) == (["GOOD"], ["FINE"])
    assert isinstance(failed, Problem) and failed.status == 500 and "secret" not in failed.message
    assert translator.batches[1] == ["good", "raise ValueError secret", "fine"]


@pytest.mark.parametrize("n_translators", [1, 2])
def test_dead_thread_is_detected_and_fails_all_requests(n_translators: int) -> None:
    async def body(batcher: Batcher) -> None:
        waiting = asyncio.create_task(translate(batcher, "raise SystemExit"))
        await wait_for_health(batcher, "dead (SystemExit)")
        batcher.fail()
        for request in (waiting, translate(batcher, "anything")):
            with pytest.raises(Problem) as failed:
                await request
            assert failed.value.status == 503

    run_with_batcher(body, *(UppercaseTranslator() for _ in range(n_translators)))


def test_stuck_thread_is_detected() -> None:
    translator = held_translator()

    async def body(batcher: Batcher) -> None:
        waiting = asyncio.create_task(translate(batcher, "stuck"))
        await wait_for_start(translator)
        assert batcher.health() is None
        batcher._settings = batcher._settings.model_copy(update={"stall_seconds": 0.0})
        await wait_for_health(batcher, "stuck")
        batcher.fail()
        with pytest.raises(Problem, match="engine"):
            await waiting

    run_with_batcher(body, translator)


def test_texts_are_shared_between_two_translators() -> None:
    translators = UppercaseTranslator(), UppercaseTranslator()

    async def body(batcher: Batcher) -> list[str]:
        return await translate(batcher, *(f"{i}" for i in range(20)))

    assert run_with_batcher(body, *translators) == [f"{i}" for i in range(20)]
    assert [len(translator.texts) for translator in translators] == [10, 10]


def test_idle_translator_waits_for_its_share_while_another_is_busy() -> None:
    held, idle = held_translator(), UppercaseTranslator()

    async def body(batcher: Batcher) -> None:
        first = asyncio.create_task(translate(batcher, "a", "b", "c"))  # a and b are held, c is not
        await wait_for_start(idle)
        batcher._settings = batcher._settings.model_copy(update={"wait_seconds": 2 * TIMEOUT_SECONDS})
        third = asyncio.create_task(translate(batcher, "d"))
        await asyncio.sleep(0.05)
        assert idle.batches == [["c"]]
        await asyncio.gather(third, translate(batcher, "e"))  # two texts are running, so two are a share
        assert idle.batches == [["c"], ["d", "e"]]
        held.released.set()
        await first

    run_with_batcher(body, held, idle)


@given(st.lists(st.integers(1, 600), min_size=1, max_size=120), st.integers(1, MAX_BATCH_TEXTS))
def test_batch_contains_the_oldest_text_and_stays_within_its_limits(sizes: list[int], max_texts: int) -> None:
    items = [_QueuedInput(None, i, "", size, TranslateJob(), 0.0) for i, size in enumerate(sizes)]  # type: ignore[arg-type]
    chosen = _choose(items, max_texts)
    assert items[0] in chosen and len(set(chosen)) == len(chosen) <= max_texts
    longest = max(item.n_tokens for item in chosen)
    assert len(chosen) == 1 or (longest + 1) * len(chosen) <= MAX_BATCH_TOKENS


def test_no_texts_and_blank_texts() -> None:
    async def body(batcher: Batcher) -> list[list[Translation]]:
        return [
            await batcher.run(TranslateJob(), texts, lambda _: 1, deadline_seconds=TIMEOUT_SECONDS)
            for texts in ([], [" "])
        ]

    assert run_with_batcher(body, UppercaseTranslator()) == [[], [Translation("", n_parts=0)]]


def test_small_request_does_not_overtake_a_large_one_that_was_refused() -> None:
    translator = held_translator()

    async def body(batcher: Batcher) -> None:
        first = asyncio.create_task(translate(batcher, "first"))
        await wait_for_start(translator)
        queued = asyncio.create_task(translate(batcher, *"abcdef"))
        await asyncio.sleep(0)
        assert not batcher.full
        for texts in ("ghijkl", "m"):
            with pytest.raises(Problem):
                await translate(batcher, *texts)
            assert batcher.full
        translator.released.set()
        await asyncio.gather(first, queued)
        assert not batcher.full and await translate(batcher, "m") == ["M"]

    run_with_batcher(body, translator, max_waiting=10)


def test_small_batches_do_not_change_the_measured_speed() -> None:
    """A single sentence takes longer than its share of a full batch: the engine would seem slow and refuse requests."""

    async def body(batcher: Batcher) -> tuple[float, float]:
        before = batcher.throughput.tokens_per_second
        for number in range(5):
            await translate(batcher, f"a{number}", f"b{number}")
        return before, batcher.throughput.tokens_per_second

    before, after = run_with_batcher(body, UppercaseTranslator(0.05), UppercaseTranslator(0.05))
    assert before == after
