"""Texts and pairs of texts as batches."""

import numpy as np
import pytest

from regard.data import LabelledTexts, Place, TextCollator, collate_texts

IDS = {"pad_id": 0, "bos_id": 2, "eos_id": 3}


def make_texts(n: int = 50, n_texts: int = 1, seed: int = 1) -> LabelledTexts:
    rng = np.random.default_rng(seed)
    examples = [[rng.integers(4, 99, rng.integers(0, 9)) for _ in range(n_texts)] for _ in range(n)]
    return LabelledTexts.of(examples, rng.integers(0, 3, n).tolist(), n_texts)


def test_a_batch_has_begin_end_padding_and_classes() -> None:
    batch = collate_texts([[[5, 6]], [[7]], [[]]], np.array([1, 0, 2]), **IDS)
    assert batch.inputs[0].tolist() == [[2, 5, 6, 3], [2, 7, 3, 0], [2, 3, 0, 0]]
    assert not batch.inputs[1].any()
    assert (batch.targets[0].tolist(), batch.n_targets) == ([1, 0, 2], (3,))


def test_a_pair_has_an_end_and_a_segment_for_each_text() -> None:
    batch = collate_texts([[[5, 6], [7]], [[], [8, 9]]], np.array([0, 1]), **IDS)
    assert batch.inputs[0].tolist() == [[2, 5, 6, 3, 7, 3], [2, 3, 8, 9, 3, 0]]
    assert batch.inputs[1].tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 0]]


@pytest.mark.parametrize("n_texts", [1, 2])
def test_lengths_are_those_of_the_rows_without_begin(n_texts: int) -> None:
    texts = make_texts(n_texts=n_texts)
    collate = TextCollator(texts=texts, unk_id=1, **IDS)
    for i in range(len(texts)):
        assert collate(np.array([i]), Place()).inputs[0].shape[1] == texts.lengths[0][i] + 1
        assert len(texts[i]) == n_texts


def test_hidden_words_depend_on_the_place_in_the_run_only() -> None:
    texts = make_texts(200)
    collate = TextCollator(texts=texts, unk_id=1, word_dropout=0.3, **IDS)
    first, again, later = (collate(np.arange(200), Place(1, 5, epoch, 2)) for epoch in (0, 0, 1))
    assert (first.inputs[0] == again.inputs[0]).all()
    assert (first.inputs[0] != later.inputs[0]).any()
    is_hidden, is_word = first.inputs[0] == 1, first.inputs[0] != 0
    assert 0.2 < float(is_hidden.sum() / (is_word.sum() - 400)) < 0.4
    assert (first.inputs[0][:, 0] == 2).all()
