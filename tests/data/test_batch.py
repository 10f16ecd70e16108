import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Batch, collate

PAD, BOS, EOS = 0, 1, 2
sentences = st.lists(st.integers(3, 60_000), min_size=1, max_size=12)


def collated(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    return collate(pairs, pad_id=PAD, bos_id=BOS, eos_id=EOS)


def test_source_ends_with_eos_and_target_is_shifted_by_bos() -> None:
    batch = collated([([5, 6], [7, 8, 9]), ([5], [7])])
    assert batch.src.tolist() == [[5, 6, EOS], [5, EOS, PAD]]
    assert batch.tgt_in.tolist() == [[BOS, 7, 8, 9], [BOS, 7, PAD, PAD]]
    assert batch.tgt_out.tolist() == [[7, 8, 9, EOS], [7, EOS, PAD, PAD]]
    assert batch.n_tokens == 6
    assert batch.src.dtype == batch.tgt_in.dtype == batch.tgt_out.dtype == torch.int64


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8))
def test_each_row_of_a_batch_is_its_pair(pairs: list[tuple[list[int], list[int]]]) -> None:
    batch = collated(pairs)
    for row, (source, target) in enumerate(pairs):
        assert [token for token in batch.src[row].tolist() if token != PAD] == [*source, EOS]
        assert [token for token in batch.tgt_in[row].tolist() if token != PAD] == [BOS, *target]
        assert [token for token in batch.tgt_out[row].tolist() if token != PAD] == [*target, EOS]
    assert batch.n_tokens == int((batch.tgt_out != PAD).sum()) == int((batch.tgt_in != PAD).sum())


def test_stored_arrays_and_lists_of_ids_give_the_same_batch() -> None:
    pairs = [([60_000, 4], [5]), ([6], [7, 8])]
    stored = [(np.array(source, dtype=np.uint16), np.array(target, dtype=np.uint16)) for source, target in pairs]
    batch = collate(stored, pad_id=PAD, bos_id=BOS, eos_id=EOS, indices=np.array([9, 3], dtype=np.int32))
    assert torch.equal(batch.src, collated(pairs).src)
    assert torch.equal(batch.tgt_out, collated(pairs).tgt_out)
    assert batch.indices.tolist() == [9, 3]


def test_an_id_equal_to_padding_is_kept() -> None:
    batch = collated([([PAD, 5], [PAD, 6, PAD])])
    assert batch.tgt_in.tolist() == [[BOS, PAD, 6, PAD]]
    assert batch.n_tokens == 4


def test_all_tensors_of_a_batch_move_to_the_device() -> None:
    moved = collated([([5], [6])]).to("meta")
    assert {moved.src.device.type, moved.tgt_in.device.type, moved.tgt_out.device.type} == {"meta"}
    assert moved.n_tokens == 2
