"""What a finished training is measured on has a bound, however large its validation set is."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.data import Batch, LoaderSettings, TokenStore, build_store
from regard.run import export as finish
from regard.run.export import pairs_to_align


def batches_of(directory: Path, lengths: list[int], max_tokens: int = 8_192) -> list[Batch]:
    """What is aligned of pairs that have these lengths on both sides."""

    def encode(pairs: list[tuple[str, str, int]]) -> tuple[list[list[int]], list[list[int]]]:
        ids = [[7] * int(source) for source, _, _ in pairs]
        return ids, ids

    pairs = ((str(length), str(length), 0) for length in lengths)
    store: TokenStore = build_store(directory, pairs, encode, max_length=400, vocab_size=10, key="k")
    stream = LoaderSettings(max_tokens=max_tokens, seed=1, pad_id=0, bos_id=2, eos_id=3)
    training: Any = SimpleNamespace(validation=store, stream=stream)
    return list(pairs_to_align(training))


def n_pairs(batches: list[Batch]) -> int:
    return sum(len(batch.indices) for batch in batches)


def test_a_small_validation_set_is_taken_whole(tmp_path: Path) -> None:
    found = batches_of(tmp_path / "tokens", [1 + number % 30 for number in range(1_500)])
    assert sorted(np.concatenate([batch.indices for batch in found]).tolist()) == list(range(1_500))


def test_of_a_large_one_some_pairs_of_all_lengths_are_taken(tmp_path: Path) -> None:
    found = batches_of(tmp_path / "tokens", [1 + number % 40 for number in range(12_000)])
    assert 1_000 < n_pairs(found) < 2_500
    assert max(batch.src.numel() for batch in found) <= 2_048
    widths = {batch.src.shape[1] - 1 for batch in found}
    assert min(widths) <= 4 and max(widths) >= 37 and len(widths) > 10


def test_of_long_pairs_fewer_are_taken(tmp_path: Path) -> None:
    found = batches_of(tmp_path / "tokens", [400] * 100)
    assert 0 < sum(batch.src.numel() * batch.tgt_in.shape[1] for batch in found) <= 1.5 * finish.ALIGNED_CELLS
    assert n_pairs(found) < 20


def test_batches_are_never_larger_than_those_of_the_training(tmp_path: Path) -> None:
    found = batches_of(tmp_path / "tokens", [9] * 200, max_tokens=100)
    assert max(batch.src.numel() for batch in found) <= 100


@pytest.mark.parametrize("name", ["ALIGNED_PAIRS", "ALIGNED_CELLS"])
def test_there_is_always_something_to_measure_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(finish, name, 1)
    assert n_pairs(batches_of(tmp_path / "tokens", [9] * 50)) > 0
