from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from regard.data import Batch, Cursor, Loader, PairCollator, TokenStore, fixed_order, prefetch
from regard.errors import DataError

StoreMaker = Callable[..., TokenStore]


def make_loader(store: TokenStore, resample_source: Any = None, resample_target: Any = None, **values: Any) -> Loader:
    collate = PairCollator(
        store=store, pad_id=0, bos_id=1, eos_id=2, resample_source=resample_source, resample_target=resample_target
    )
    return Loader(**{"examples": store, "collate": collate, "max_tokens": 200, "seed": 3} | values)


def read(
    loader: Loader, n_updates: int, start: Cursor | None = None, step: int = 1
) -> list[tuple[list[Batch], Cursor]]:
    return list(islice(loader.updates(start or Cursor(), step), n_updates))


def assert_same(actual: list[tuple[list[Batch], Cursor]], expected: list[tuple[list[Batch], Cursor]]) -> None:
    assert [cursor for _, cursor in actual] == [cursor for _, cursor in expected]
    for (actual_batches, _), (expected_batches, _) in zip(actual, expected, strict=True):
        for a, b in zip(actual_batches, expected_batches, strict=True):
            assert a.place == b.place
            assert torch.equal(a.inputs[0], b.inputs[0])
            assert torch.equal(a.inputs[1], b.inputs[1])
            assert torch.equal(a.targets[0], b.targets[0])


def indices(batches: list[Batch]) -> list[int]:
    return [index for batch in batches for index in batch.indices.tolist()]


def double(sentences: list[list[int]], seed: int) -> list[list[int]]:
    """Replaces sub-word sampling: repeats some ids, depending on the seed."""
    rng = np.random.default_rng(seed)
    return [[token for token in ids for _ in range(rng.integers(1, 3))] for ids in sentences]


def test_one_epoch_has_every_pair_once(make_store: StoreMaker) -> None:
    store = make_store(300)
    loader = make_loader(store)
    pairs = [index for update, _ in read(loader, len(loader.epoch_order(0))) for index in indices(update)]
    assert sorted(pairs) == list(range(300))


def test_a_batch_has_the_pairs_of_its_indices(make_store: StoreMaker) -> None:
    store = make_store(50)
    [([batch], _)] = read(make_loader(store), 1)
    for row, index in enumerate(batch.indices.tolist()):
        source, target = store.pair(index)
        assert batch.inputs[0][row, : len(source) + 1].tolist() == [*source.tolist(), 2]
        assert batch.targets[0][row, : len(target) + 1].tolist() == [*target.tolist(), 2]


@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize("resample", [None, double])
def test_resuming_at_any_cursor_gives_the_same_updates(
    make_store: StoreMaker, n_batches: int, resample: Callable[[list[list[int]], int], list[list[int]]] | None
) -> None:
    store = make_store(40)
    loader = make_loader(store, resample, resample, n_batches=n_batches)
    expected = read(loader, 25)
    assert expected[-1][1].epoch >= 2  # crosses the end of two epochs
    for n_read in range(1, 25):
        assert_same(read(loader, 25 - n_read, expected[n_read - 1][1], n_read + 1), expected[n_read:])


def test_a_batch_knows_its_place_in_the_run(make_store: StoreMaker) -> None:
    loader = make_loader(make_store(40), n_batches=2)
    n_batches = len(loader.epoch_order(0))
    places = [batch.place for update, _ in read(loader, n_batches, step=5) for batch in update]
    assert [(place.step, place.part) for place in places[:4]] == [(5, 0), (5, 1), (6, 0), (6, 1)]
    assert [(place.epoch, place.index) for place in places[:n_batches]] == [(0, index) for index in range(n_batches)]
    assert (places[n_batches].epoch, places[n_batches].index) == (1, 0)
    assert {place.seed for place in places} == {3}


def test_each_batch_epoch_and_side_has_its_own_reproducible_sampling_seed(make_store: StoreMaker) -> None:
    store = make_store(30)
    seeds: list[int] = []

    def record_seed(sentences: list[list[int]], seed: int) -> list[list[int]]:
        seeds.append(seed)
        return sentences

    loader = make_loader(store, record_seed, record_seed)
    last_cursor = read(loader, 20)[-1][1]
    assert last_cursor.epoch >= 1
    assert len(set(seeds)) == len(seeds) == 40
    read(loader, 20)
    assert seeds[:40] == seeds[40:]


def test_sampling_one_side_does_not_change_the_other(make_store: StoreMaker) -> None:
    store = make_store(30)
    plain = read(make_loader(store), 5)
    sampled = read(make_loader(store, double), 5)
    for ([batch], _), ([other], _) in zip(plain, sampled, strict=True):
        assert torch.equal(batch.targets[0], other.targets[0])
    assert any(
        batch.inputs[0].shape != other.inputs[0].shape
        for ([batch], _), ([other], _) in zip(plain, sampled, strict=True)
    )


def test_samples_that_are_too_long_are_not_used(make_store: StoreMaker) -> None:
    store = make_store(30)
    too_long = make_loader(store, resample_target=lambda sentences, seed: [ids * 40 for ids in sentences])
    assert_same(read(too_long, 5), read(make_loader(store), 5))


def test_weights_set_how_often_a_corpus_occurs(make_store: StoreMaker) -> None:
    store = make_store(60, n_corpora=3)
    weights = np.array([2.0, 0.0, 1.0])[store.corpora]
    order = make_loader(store, weights=weights).epoch_order(0)
    counts = np.bincount(order.pairs, minlength=60)
    assert [set(counts[store.corpora == corpus].tolist()) for corpus in range(3)] == [{2}, {0}, {1}]


def test_weights_that_are_all_0_raise_data_error(make_store: StoreMaker) -> None:
    with pytest.raises(DataError, match="weight 0"):
        read(make_loader(make_store(10), weights=np.zeros(10)), 1)


def test_validation_reads_every_pair_once_in_the_same_batches(make_store: StoreMaker) -> None:
    store = make_store(100)

    def read_all() -> list[Batch]:
        return list(fixed_order(store, make_loader(store).collate, 200))

    assert sorted(indices(read_all())) == list(range(100))
    assert indices(read_all()) == indices(read_all())
    assert {batch.place.step for batch in read_all()} == {None}  # outside training
    assert sum(batch.n_targets[0] for batch in read_all()) == store.meta.n_target_tokens + 100


def test_prefetching_does_not_change_the_updates(make_store: StoreMaker) -> None:
    store = make_store(100)
    loader = make_loader(store)
    prefetched = prefetch(loader.updates(Cursor()), depth=2)
    assert_same(list(islice(prefetched, 20)), read(loader, 20))
    prefetched.close()


def test_in_a_curriculum_examples_get_longer_with_the_step(make_store: StoreMaker) -> None:
    store = make_store(400)
    loader = make_loader(store, curriculum=40, max_tokens=60)

    def longest(batch: Batch) -> int:
        return max(int(side[batch.indices].max()) for side in store.lengths)

    widths = [longest(update[0]) for update, _ in read(loader, 80)]
    all_widths = {longest(update[0]) for update, _ in read(replace(loader, curriculum=0), 80)}
    limits = [min(all_widths) + (max(all_widths) - min(all_widths)) * step / 40 for step in range(1, 41)]
    n_too_long = sum(width > limit for width, limit in zip(widths, limits, strict=False))
    assert 0 < n_too_long < 20  # a few are of any length
    assert max(widths[40:]) == max(all_widths)


def test_a_curriculum_continues_after_a_restart_and_ends_in_the_usual_order(make_store: StoreMaker) -> None:
    loader = make_loader(make_store(300), curriculum=12)
    whole = read(loader, 20)
    assert_same(read(loader, 15, whole[4][1], step=6), whole[5:])
    assert_same(read(loader, 8, whole[11][1], step=13), read(replace(loader, curriculum=0), 20)[12:])
