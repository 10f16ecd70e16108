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


def assert_same(actual: list[tuple[list[Batch], Cursor]], expected: list[tuple[list[Batch], Cursor]]) -> None:
    assert [cursor for _, cursor in actual] == [cursor for _, cursor in expected]
    for (actual_batches, _), (expected_batches, _) in zip(actual, expected, strict=True):
        for a, b in zip(actual_batches, expected_batches, strict=True):
            assert torch.equal(a.src, b.src)
            assert torch.equal(a.tgt_in, b.tgt_in)
            assert torch.equal(a.tgt_out, b.tgt_out)


def indices(batches: list[Batch]) -> list[int]:
    return [index for batch in batches for index in batch.indices.tolist()]


def double(sentences: list[list[int]], seed: int) -> list[list[int]]:
    """Replaces sub-word sampling: repeats some ids, depending on the seed."""
    rng = np.random.default_rng(seed)
    return [[token for token in ids for _ in range(rng.integers(1, 3))] for ids in sentences]


def test_one_epoch_has_every_pair_once(make_store: StoreMaker) -> None:
    store = make_store(300)
    n_batches = len(epoch_order(store, SETTINGS, 0))
    pairs = [index for update, _ in read(store, SETTINGS, n_batches) for index in indices(update)]
    assert sorted(pairs) == list(range(300))


def test_a_batch_has_the_pairs_of_its_indices(make_store: StoreMaker) -> None:
    store = make_store(50)
    [([batch], _)] = read(store, SETTINGS, 1)
    for row, index in enumerate(batch.indices.tolist()):
        source, target = store.pair(index)
        assert batch.src[row, : len(source) + 1].tolist() == [*source.tolist(), 2]
        assert batch.tgt_out[row, : len(target) + 1].tolist() == [*target.tolist(), 2]


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("resample", [None, double])
def test_resuming_at_any_cursor_gives_the_same_updates(
    make_store: StoreMaker, accumulate: int, resample: Callable[[list[list[int]], int], list[list[int]]] | None
) -> None:
    store = make_store(40)
    settings = replace(SETTINGS, accumulate=accumulate, resample_source=resample, resample_target=resample)
    expected = read(store, settings, 25)
    assert expected[-1][1].epoch >= 2  # crosses the end of two epochs
    for n_read in range(1, 25):
        assert_same(read(store, settings, 25 - n_read, start=expected[n_read - 1][1]), expected[n_read:])


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_divide_the_batches_of_one_process(make_store: StoreMaker, world_size: int) -> None:
    store = make_store(100)
    expected = read(store, replace(SETTINGS, accumulate=2 * world_size), 12)
    settings = replace(SETTINGS, accumulate=2, world_size=world_size)
    ranks = [read(store, replace(settings, rank=rank), 12) for rank in range(world_size)]
    for step, (update, cursor) in enumerate(expected):
        assert all(rank[step][1] == cursor and len(rank[step][0]) == 2 for rank in ranks)
        divided = [rank[step][0][i].indices.tolist() for i in range(2) for rank in ranks]
        assert divided == [batch.indices.tolist() for batch in update]


def test_each_batch_epoch_and_side_has_its_own_reproducible_sampling_seed(make_store: StoreMaker) -> None:
    store = make_store(30)
    seeds: list[int] = []

    def record_seed(sentences: list[list[int]], seed: int) -> list[list[int]]:
        seeds.append(seed)
        return sentences

    settings = replace(SETTINGS, resample_source=record_seed, resample_target=record_seed)
    last_cursor = read(store, settings, 20)[-1][1]
    assert last_cursor.epoch >= 1
    assert len(set(seeds)) == len(seeds) == 40
    read(store, settings, 20)
    assert seeds[:40] == seeds[40:]


def test_sampling_one_side_does_not_change_the_other(make_store: StoreMaker) -> None:
    store = make_store(30)
    plain = read(store, SETTINGS, 5)
    sampled = read(store, replace(SETTINGS, resample_source=double), 5)
    for ([batch], _), ([other], _) in zip(plain, sampled, strict=True):
        assert torch.equal(batch.tgt_out, other.tgt_out)
    assert any(batch.src.shape != other.src.shape for ([batch], _), ([other], _) in zip(plain, sampled, strict=True))


def test_samples_that_are_too_long_are_not_used(make_store: StoreMaker) -> None:
    store = make_store(30)
    too_long = replace(SETTINGS, resample_target=lambda sentences, seed: [ids * 40 for ids in sentences])
    assert_same(read(store, too_long, 5), read(store, SETTINGS, 5))


def test_weights_set_how_often_a_corpus_occurs(make_store: StoreMaker) -> None:
    store = make_store(60, n_corpora=3)
    settings = replace(SETTINGS, corpus_weights=(2.0, 0.0, 1.0))
    order = epoch_order(store, settings, 0)
    counts = np.bincount(order.pairs, minlength=60)
    assert [set(counts[store.corpora == corpus].tolist()) for corpus in range(3)] == [{2}, {0}, {1}]


def test_weights_that_are_all_0_raise_data_error(make_store: StoreMaker) -> None:
    with pytest.raises(DataError, match="weight 0"):
        read(make_store(10), replace(SETTINGS, corpus_weights=(0.0,)), 1)


def test_validation_reads_every_pair_once_in_the_same_batches(make_store: StoreMaker) -> None:
    store = make_store(100)

    def read_all() -> list[Batch]:
        return list(validation_batches(store, max_tokens=200, pad_id=0, bos_id=1, eos_id=2))

    assert sorted(indices(read_all())) == list(range(100))
    assert indices(read_all()) == indices(read_all())
    assert sum(batch.n_tokens for batch in read_all()) == store.meta.n_target_tokens + 100


def test_prefetching_does_not_change_the_updates(make_store: StoreMaker) -> None:
    store = make_store(100)
    prefetched = prefetch(updates(store, SETTINGS, Cursor()), depth=2)
    assert_same(list(islice(prefetched, 20)), read(store, SETTINGS, 20))
    prefetched.close()
