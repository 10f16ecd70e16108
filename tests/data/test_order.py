from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.data import random_key
from regard.data.order import BatchOrder, epoch_batches, fixed_batches

Lengths = NDArray[np.int32]
some_lengths = st.lists(st.tuples(st.integers(1, 80), st.integers(1, 80)), min_size=1, max_size=300)


def columns(pairs: list[tuple[int, int]]) -> tuple[Lengths, Lengths]:
    src, tgt = np.array(pairs, dtype=np.int32).T
    return src, tgt


def captions(n_pairs: int) -> tuple[Lengths, Lengths]:
    """Lengths distributed as those of Multi30k with 8,000 sub-words: about 14 per side, similar on both sides."""
    rng = np.random.default_rng(3)
    src = np.exp(rng.normal(2.6, 0.29, n_pairs))
    tgt = src * np.exp(rng.normal(0.0, 0.17, n_pairs))
    return np.rint(src).astype(np.int32), np.maximum(1, np.rint(tgt)).astype(np.int32)


def as_lists(order: BatchOrder) -> list[list[int]]:
    return [order[i].tolist() for i in range(len(order))]


def groups(order: BatchOrder) -> set[frozenset[int]]:
    return {frozenset(batch) for batch in as_lists(order)}


@given(some_lengths, st.integers(1, 400), st.integers(0, 5), st.integers(0, 5))
def test_every_pair_occurs_once_per_epoch(pairs: list[tuple[int, int]], max_tokens: int, seed: int, epoch: int) -> None:
    order = epoch_batches(*columns(pairs), max_tokens=max_tokens, seed=seed, epoch=epoch)
    assert sorted(index for batch in as_lists(order) for index in batch) == list(range(len(pairs)))


@given(some_lengths, st.integers(1, 400), st.integers(0, 5))
def test_no_side_exceeds_max_tokens_except_in_a_batch_of_one(
    pairs: list[tuple[int, int]], max_tokens: int, epoch: int
) -> None:
    src, tgt = columns(pairs)
    shuffled = epoch_batches(src, tgt, max_tokens=max_tokens, seed=1, epoch=epoch)
    for batch in as_lists(shuffled) + as_lists(fixed_batches(src, tgt, max_tokens=max_tokens)):
        n_padded = len(batch) * (1 + max(src[batch].max(), tgt[batch].max()))  # with bos or eos
        assert n_padded <= max_tokens or len(batch) == 1


@pytest.mark.parametrize("max_tokens", [2048, 4096])
def test_at_most_a_tenth_of_the_batches_is_padding(max_tokens: int) -> None:
    src, tgt = captions(29_000)
    batches = as_lists(epoch_batches(src, tgt, max_tokens=max_tokens, seed=1, epoch=0))
    n_padded = sum(len(batch) * int(src[batch].max() + tgt[batch].max() + 2) for batch in batches)
    n_real = int(src.sum() + tgt.sum() + 2 * len(src))
    assert 1 - n_real / n_padded <= 0.10


def test_batches_are_nearly_full() -> None:
    src, tgt = captions(29_000)
    batches = as_lists(epoch_batches(src, tgt, max_tokens=4096, seed=1, epoch=0))
    fills = [len(batch) * (1 + max(src[batch].max(), tgt[batch].max())) / 4096 for batch in batches]
    assert np.mean(fills) > 0.97


def test_the_order_is_deterministic() -> None:
    src, tgt = captions(3_000)
    first, again = (epoch_batches(src, tgt, max_tokens=1024, seed=5, epoch=2) for _ in range(2))
    assert as_lists(first) == as_lists(again)


@pytest.mark.parametrize(("seed", "epoch"), [(5, 3), (6, 2)])
def test_another_epoch_or_seed_groups_the_pairs_differently(seed: int, epoch: int) -> None:
    src, tgt = captions(3_000)
    first = epoch_batches(src, tgt, max_tokens=1024, seed=5, epoch=2)
    other = epoch_batches(src, tgt, max_tokens=1024, seed=seed, epoch=epoch)
    assert len(groups(first) & groups(other)) <= 0.02 * len(first)


def test_batches_are_not_sorted_by_length() -> None:
    src, tgt = captions(3_000)
    order = epoch_batches(src, tgt, max_tokens=512, seed=1, epoch=0)
    widths = [int(src[batch].max()) for batch in as_lists(order)]
    assert abs(np.corrcoef(widths, np.arange(len(widths)))[0, 1]) < 0.3


def test_a_weight_is_how_often_a_pair_occurs() -> None:
    src, tgt = captions(4_000)
    weights = np.repeat([0.0, 0.5, 1.0, 2.25], 1_000)
    order = epoch_batches(src, tgt, max_tokens=1024, seed=1, epoch=0, weights=weights)
    counts = np.bincount(order.pairs, minlength=4_000).reshape(4, 1_000)
    assert counts[0].tolist() == [0] * 1_000
    assert set(counts[1]) == {0, 1} and 430 < counts[1].sum() < 570
    assert counts[2].tolist() == [1] * 1_000
    assert set(counts[3]) == {2, 3} and 2_180 < counts[3].sum() < 2_320


def test_the_fraction_of_a_weight_is_drawn_again_in_each_epoch() -> None:
    src, tgt = captions(500)
    drawn = [
        set(epoch_batches(src, tgt, max_tokens=512, seed=1, epoch=epoch, weights=np.full(500, 0.5)).pairs.tolist())
        for epoch in range(2)
    ]
    assert drawn[0] != drawn[1]


def test_the_fixed_order_has_every_pair_once() -> None:
    src, tgt = captions(1_000)
    order = fixed_batches(src, tgt, max_tokens=512)
    assert sorted(order.pairs.tolist()) == list(range(1_000))
    assert as_lists(order) == as_lists(fixed_batches(src, tgt, max_tokens=512))


def test_ordering_half_a_million_pairs_is_vectorised(count_calls: Callable[[Callable[[], Any]], int]) -> None:
    src, tgt = captions(500_000)
    orders: list[BatchOrder] = []
    n_calls = count_calls(lambda: orders.append(epoch_batches(src, tgt, max_tokens=4096, seed=1, epoch=0)))
    assert n_calls < 50_000  # a few per batch, none per pair
    assert orders[0].pairs.dtype == np.int32  # four bytes per pair


def test_random_keys_are_deterministic_and_distinct() -> None:
    assert random_key(1, "dropout", 5, 0) == random_key(1, "dropout", 5, 0)
    keys = {random_key(seed, name, step) for seed in range(10) for name in ("a", "b") for step in range(10)}
    assert len(keys) == 200
    assert random_key(1, 23) != random_key(12, 3)
    assert all(0 <= key < 2**63 for key in keys)


def test_random_keys_are_the_same_on_every_machine() -> None:
    assert random_key(1, "order", 0) == 299572666420262285
