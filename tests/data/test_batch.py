from dataclasses import replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

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
    assert batch.n_targets[0] == 4


def test_all_tensors_of_a_batch_move_to_the_device() -> None:
    moved = collated([([5], [6])]).to("meta")
    assert {moved.inputs[0].device.type, moved.inputs[1].device.type, moved.targets[0].device.type} == {"meta"}
    assert moved.n_targets[0] == 2


def mixed_batch() -> Batch:
    inputs = (torch.arange(6).view(3, 2), torch.tensor([True, False, True]), torch.rand(3, 2, 2))
    return Batch(inputs, (torch.tensor([1, NO_TARGET, 2]),), (2,), Place(seed=1, step=4), np.array([7, 8, 9]))


def test_rows_of_a_batch_keep_all_tensors_together() -> None:
    batch = mixed_batch().rows(slice(0, None, 2))
    assert batch.inputs[0].tolist() == [[0, 1], [4, 5]]
    assert batch.inputs[1].tolist() == [True, True]
    assert batch.targets[0].tolist() == [1, 2]
    assert batch.indices.tolist() == [7, 9]
    assert batch.place == mixed_batch().place


def test_a_repeated_batch_has_one_repetition_after_the_other() -> None:
    batch = mixed_batch().repeat(2)
    assert batch.inputs[0].tolist() == [[0, 1], [2, 3], [4, 5]] * 2
    assert batch.inputs[1].tolist() == [True, False, True] * 2
    assert batch.inputs[2].shape == (6, 2, 2)
    assert batch.targets[0].tolist() == [1, NO_TARGET, 2] * 2


def test_keys_of_a_place_depend_on_step_part_and_name_but_not_on_the_epoch() -> None:
    place = Place(seed=1, step=4, epoch=2, index=5, part=1)
    assert place.key("dropout") == replace(place, epoch=3, index=0).key("dropout")
    others = [replace(place, step=5), replace(place, part=0), replace(place, seed=2), replace(place, step=None)]
    keys = [place.key("dropout"), place.key("mask"), place.key("dropout", 1), *(p.key("dropout") for p in others)]
    assert len(set(keys)) == len(keys)
