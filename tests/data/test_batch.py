from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.data import NO_TARGET, Batch, Place, collate_pairs

PAD, BOS, EOS = 0, 1, 2
sentences = st.lists(st.integers(3, 60_000), min_size=1, max_size=12)


def collated(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    return collate_pairs(pairs, pad_id=PAD, bos_id=BOS, eos_id=EOS)


def test_source_ends_with_eos_and_target_is_shifted_by_bos() -> None:
    batch = collated([([5, 6], [7, 8, 9]), ([5], [7])])
    assert batch.inputs[0].tolist() == [[5, 6, EOS], [5, EOS, PAD]]
    assert batch.inputs[1].tolist() == [[BOS, 7, 8, 9], [BOS, 7, PAD, PAD]]
    assert batch.targets[0].tolist() == [[7, 8, 9, EOS], [7, EOS, NO_TARGET, NO_TARGET]]
    assert batch.n_targets[0] == 6
    assert batch.inputs[0].dtype == batch.inputs[1].dtype == batch.targets[0].dtype == torch.int64


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8))
def test_each_row_of_a_batch_is_its_pair(pairs: list[tuple[list[int], list[int]]]) -> None:
    batch = collated(pairs)
    for row, (source, target) in enumerate(pairs):
        assert [token for token in batch.inputs[0][row].tolist() if token != PAD] == [*source, EOS]
        assert [token for token in batch.inputs[1][row].tolist() if token != PAD] == [BOS, *target]
        assert [token for token in batch.targets[0][row].tolist() if token != NO_TARGET] == [*target, EOS]
    assert batch.n_targets[0] == int((batch.targets[0] != NO_TARGET).sum()) == int((batch.inputs[1] != PAD).sum())


def test_stored_arrays_and_lists_of_ids_give_the_same_batch() -> None:
    pairs = [([60_000, 4], [5]), ([6], [7, 8])]
    stored = [(np.array(source, dtype=np.uint16), np.array(target, dtype=np.uint16)) for source, target in pairs]
    batch = collate_pairs(stored, pad_id=PAD, bos_id=BOS, eos_id=EOS, indices=np.array([9, 3], dtype=np.int32))
    assert torch.equal(batch.inputs[0], collated(pairs).inputs[0])
    assert torch.equal(batch.targets[0], collated(pairs).targets[0])
    assert batch.indices.tolist() == [9, 3]


def test_an_id_equal_to_padding_is_kept() -> None:
    batch = collated([([PAD, 5], [PAD, 6, PAD])])
    assert batch.inputs[1].tolist() == [[BOS, PAD, 6, PAD]]
    assert batch.targets[0].tolist() == [[PAD, 6, PAD, EOS]]
    assert batch.n_targets[0] == 4


DTYPES = (torch.int64, torch.float32, torch.bool, torch.uint8)


def mixed_batch() -> Batch:
    """Four examples: tensors of one to four dimensions and several dtypes, and two terms."""
    shapes = ((4,), (4, 3), (4, 2, 5), (4, 1, 2, 2))
    inputs = tuple(
        torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
        for shape, dtype in zip(shapes, DTYPES, strict=True)
    )
    targets = (torch.tensor([[1, 2], [3, NO_TARGET], [4, 5], [6, 7]]), torch.tensor([0, NO_TARGET, 1, NO_TARGET]))
    return Batch(inputs, targets, (7, 2), Place(seed=3, step=5, part=1), np.array([8, 2, 6, 4]))


def all_tensors(batch: Batch) -> tuple[Tensor, ...]:
    return *batch.inputs, *batch.targets


def test_all_tensors_of_a_batch_move_to_the_device() -> None:
    batch = mixed_batch()
    moved = batch.to("meta")
    assert {tensor.device.type for tensor in all_tensors(moved)} == {"meta"}
    assert [(tensor.shape, tensor.dtype) for tensor in all_tensors(moved)] == [
        (tensor.shape, tensor.dtype) for tensor in all_tensors(batch)
    ]
    assert (moved.n_targets, moved.place, moved.indices.tolist()) == (batch.n_targets, batch.place, [8, 2, 6, 4])


@pytest.mark.parametrize("rows", [slice(0, None, 2), slice(1, None, 2), slice(0, 1), slice(4, None), slice(None)])
def test_rows_are_taken_from_every_tensor(rows: slice) -> None:
    batch = mixed_batch()
    part = batch.rows(rows)
    assert (len(part.inputs), len(part.targets)) == (4, 2)
    for tensor, whole in zip(all_tensors(part), all_tensors(batch), strict=True):
        assert tensor.dtype == whole.dtype
        assert torch.equal(tensor, whole[rows])
    assert part.indices.tolist() == [8, 2, 6, 4][rows]
    assert (part.n_targets, part.place) == (batch.n_targets, batch.place)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_repeated_examples_follow_one_repetition_after_the_other(n: int) -> None:
    batch = mixed_batch()
    for tensor, whole in zip(all_tensors(batch.repeat(n)), all_tensors(batch), strict=True):
        assert tensor.dtype == whole.dtype
        assert torch.equal(tensor, torch.cat([whole] * n))


def test_keys_of_a_place_depend_on_step_part_and_name_but_not_on_the_epoch() -> None:
    place = Place(seed=1, step=4, epoch=2, index=5, part=1)
    assert place.key("dropout") == replace(place, epoch=3, index=0).key("dropout")
    others = [replace(place, step=5), replace(place, part=0), replace(place, seed=2), replace(place, step=None)]
    keys = [place.key("dropout"), place.key("mask"), place.key("dropout", 1), *(p.key("dropout") for p in others)]
    assert len(set(keys)) == len(keys)
