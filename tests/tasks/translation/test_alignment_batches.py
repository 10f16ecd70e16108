"""Attention heads are measured on a bounded sample of the validation set."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.data import Batch, PairCollator, TokenStore, build_store, fixed_order
from regard.tasks.translation import task
from regard.tasks.translation.task import alignment_batches


def batches_of(directory: Path, lengths: list[int], max_tokens: int = 8_192) -> list[Batch]:
    """The batches used for alignment, for pairs of these lengths in both languages."""

    def encode(pairs: list[tuple[str, str, int]]) -> tuple[list[list[int]], list[list[int]]]:
        ids = [[7] * int(source) for source, _, _ in pairs]
        return ids, ids

    pairs = ((str(length), str(length), 0) for length in lengths)
    store: TokenStore = build_store(directory, pairs, encode, max_length=400, vocab_size=10, key="k")
    collate = PairCollator(store=store, pad_id=0, bos_id=2, eos_id=3)
    data: Any = SimpleNamespace(validation=store, validation_batches=lambda n: fixed_order(store, collate, n))
    return list(alignment_batches(data, max_tokens))


def n_pairs(batches: list[Batch]) -> int:
    return sum(len(batch.indices) for batch in batches)


def test_small_validation_set_is_used_completely(tmp_path: Path) -> None:
    batches = batches_of(tmp_path / "tokens", [1 + number % 30 for number in range(1_500)])
    assert sorted(np.concatenate([batch.indices for batch in batches]).tolist()) == list(range(1_500))


def test_large_validation_set_is_sampled_over_all_lengths(tmp_path: Path) -> None:
    batches = batches_of(tmp_path / "tokens", [1 + number % 40 for number in range(12_000)])
    assert 1_000 < n_pairs(batches) < 2_500
    assert max(batch.inputs[0].numel() for batch in batches) <= 2_048
    widths = {batch.inputs[0].shape[1] - 1 for batch in batches}
    assert min(widths) <= 4 and max(widths) >= 37 and len(widths) > 10


def test_fewer_pairs_are_used_if_they_are_long(tmp_path: Path) -> None:
    batches = batches_of(tmp_path / "tokens", [400] * 100)
    assert 0 < sum(batch.inputs[0].numel() * batch.inputs[1].shape[1] for batch in batches) <= 1.5 * task.ALIGNED_CELLS
    assert n_pairs(batches) < 20


def test_batches_are_not_larger_than_training_batches(tmp_path: Path) -> None:
    batches = batches_of(tmp_path / "tokens", [9] * 200, max_tokens=100)
    assert max(batch.inputs[0].numel() for batch in batches) <= 100


@pytest.mark.parametrize("name", ["ALIGNED_PAIRS", "ALIGNED_CELLS"])
def test_sample_is_never_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(task, name, 1)
    assert n_pairs(batches_of(tmp_path / "tokens", [9] * 50)) > 0
