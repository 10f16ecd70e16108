from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from regard.data import (
    Batch,
    Cursor,
    LoaderSettings,
    TokenStore,
    epoch_order,
    prefetch,
    updates,
    validation_batches,
)
from regard.errors import DataError

StoreMaker = Callable[..., TokenStore]
SETTINGS = LoaderSettings(max_tokens=200, seed=3, pad_id=0, bos_id=1, eos_id=2)


def read(
    store: TokenStore, settings: LoaderSettings, n_updates: int, start: Cursor | None = None
) -> list[tuple[list[Batch], Cursor]]:
    return list(islice(updates(store, settings, start or Cursor()), n_updates))


def assert_same(one: list[tuple[list[Batch], Cursor]], other: list[tuple[list[Batch], Cursor]]) -> None:
    assert [cursor for _, cursor in one] == [cursor for _, cursor in other]
    for (batches, _), (others, _) in zip(one, other, strict=True):
        for batch, twin in zip(batches, others, strict=True):
            assert torch.equal(batch.src, twin.src)
            assert torch.equal(batch.tgt_in, twin.tgt_in)
            assert torch.equal(batch.tgt_out, twin.tgt_out)


def numbers(batches: list[Batch]) -> list[int]:
    return [index for batch in batches for index in batch.indices.tolist()]


def double(sentences: list[list[int]], seed: int) -> list[list[int]]:
    """A stand-in for sub-word sampling: repeats some ids, which ones depends on the seed."""
    rng = np.random.default_rng(seed)
    return [[token for token in ids for _ in range(rng.integers(1, 3))] for ids in sentences]


def test_one_epoch_holds_every_pair_once(make_store: StoreMaker) -> None:
    store = make_store(300)
    n_batches = len(epoch_order(store, SETTINGS, 0))
    found = [index for update, _ in read(store, SETTINGS, n_batches) for index in numbers(update)]
    assert sorted(found) == list(range(300))


def test_a_batch_holds_the_pairs_that_its_indices_name(make_store: StoreMaker) -> None:
    store = make_store(50)
    [([batch], _)] = read(store, SETTINGS, 1)
    for row, index in enumerate(batch.indices.tolist()):
        source, target = store.pair(index)
        assert batch.src[row, : len(source) + 1].tolist() == [*source.tolist(), 2]
        assert batch.tgt_out[row, : len(target) + 1].tolist() == [*target.tolist(), 2]


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("resample", [None, double])
def test_resuming_at_any_cursor_equals_not_having_stopped(
    make_store: StoreMaker, accumulate: int, resample: Callable[[list[list[int]], int], list[list[int]]] | None
) -> None:
    store = make_store(40)
    settings = replace(SETTINGS, accumulate=accumulate, resample_source=resample, resample_target=resample)
    whole = read(store, settings, 25)
    assert whole[-1][1].epoch >= 2  # over two borders of epochs
    for done in range(1, 25):
        assert_same(read(store, settings, 25 - done, start=whole[done - 1][1]), whole[done:])


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_share_out_what_one_process_would_read(make_store: StoreMaker, world_size: int) -> None:
    store = make_store(100)
    alone = read(store, replace(SETTINGS, accumulate=2 * world_size), 12)
    settings = replace(SETTINGS, accumulate=2, world_size=world_size)
    ranks = [read(store, replace(settings, rank=rank), 12) for rank in range(world_size)]
    for step, (update, cursor) in enumerate(alone):
        assert all(rank[step][1] == cursor and len(rank[step][0]) == 2 for rank in ranks)
        shared_out = [rank[step][0][place].indices.tolist() for place in range(2) for rank in ranks]
        assert shared_out == [batch.indices.tolist() for batch in update]


def test_each_batch_epoch_and_side_is_sampled_with_a_seed_of_its_own_alike_in_each_run(make_store: StoreMaker) -> None:
    store = make_store(30)
    seeds: list[int] = []

    def spy(sentences: list[list[int]], seed: int) -> list[list[int]]:
        seeds.append(seed)
        return sentences

    settings = replace(SETTINGS, resample_source=spy, resample_target=spy)
    last_cursor = read(store, settings, 20)[-1][1]
    assert last_cursor.epoch >= 1
    assert len(set(seeds)) == len(seeds) == 40
    read(store, settings, 20)
    assert seeds[:40] == seeds[40:]


def test_sampling_one_side_leaves_the_other_as_stored(make_store: StoreMaker) -> None:
    store = make_store(30)
    plain = read(store, SETTINGS, 5)
    sampled = read(store, replace(SETTINGS, resample_source=double), 5)
    for ([batch], _), ([other], _) in zip(plain, sampled, strict=True):
        assert torch.equal(batch.tgt_out, other.tgt_out)
    assert any(batch.src.shape != other.src.shape for ([batch], _), ([other], _) in zip(plain, sampled, strict=True))


def test_a_sample_too_long_for_the_model_is_not_used(make_store: StoreMaker) -> None:
    store = make_store(30)
    endless = replace(SETTINGS, resample_target=lambda sentences, seed: [ids * 40 for ids in sentences])
    assert_same(read(store, endless, 5), read(store, SETTINGS, 5))


def test_corpora_come_as_often_as_their_weights_say(make_store: StoreMaker) -> None:
    store = make_store(60, n_corpora=3)
    settings = replace(SETTINGS, corpus_weights=(2.0, 0.0, 1.0))
    order = epoch_order(store, settings, 0)
    times = np.bincount(order.pairs, minlength=60)
    assert [set(times[store.corpora == corpus].tolist()) for corpus in range(3)] == [{2}, {0}, {1}]


def test_weights_that_leave_nothing_are_an_error_not_an_endless_search(make_store: StoreMaker) -> None:
    with pytest.raises(DataError, match="weight 0"):
        read(make_store(10), replace(SETTINGS, corpus_weights=(0.0,)), 1)


def test_validation_reads_every_pair_once_in_the_same_batches(make_store: StoreMaker) -> None:
    store = make_store(100)

    def once() -> list[Batch]:
        return list(validation_batches(store, max_tokens=200, pad_id=0, bos_id=1, eos_id=2))

    assert sorted(numbers(once())) == list(range(100))
    assert numbers(once()) == numbers(once())
    assert sum(batch.n_tokens for batch in once()) == store.meta.n_target_tokens + 100


def test_prefetched_updates_are_the_same_updates(make_store: StoreMaker) -> None:
    store = make_store(100)
    ahead = prefetch(updates(store, SETTINGS, Cursor()), depth=2)
    assert_same(list(islice(ahead, 20)), read(store, SETTINGS, 20))
    ahead.close()
