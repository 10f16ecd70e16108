"""Running text → passages → batches with hidden words."""

from typing import Any

import numpy as np
import pytest

from regard.data import NO_TARGET, Batch, MaskedTexts, Masking, Passages, Place
from regard.data.masked_texts import FOLLOWS, RANDOM

SPECIAL = {"pad_id": 0, "bos_id": 2, "eos_id": 3, "mask_id": 4}
N_SYMBOLS = 1000


def numbered_documents(n: int, n_sentences: int = 12, length: int = 6) -> list[list[Any]]:
    """All ids of document d are 10 + d."""
    return [[np.full(length, 10 + d, dtype=np.int32)] * n_sentences for d in range(n)]


def collator(passages: Passages, masking: Masking | None = None, asks: tuple[str, ...] = ("words", "next")) -> Any:
    return MaskedTexts(passages=passages, masking=masking or Masking(), asks=asks, n_symbols=N_SYMBOLS, **SPECIAL)


def all_of(collate: Any, epoch: int = 0, seed: int = 1) -> Batch:
    batch: Batch = collate(np.arange(len(collate.passages)), Place(seed=seed, step=1, epoch=epoch))
    return batch


def test_passages_are_neighbouring_sentences_of_one_document_and_lose_nothing() -> None:
    rng = np.random.default_rng(1)
    documents = [[rng.integers(10, 99, rng.integers(1, 9)).astype(np.int32) for _ in range(40)] for _ in range(5)]
    passages = Passages.of(documents, 20)
    assert np.array_equal(passages.ids, np.concatenate([s for document in documents for s in document]))
    assert passages.bounds[0, 0] == 0 and np.array_equal(passages.bounds[1:, 0], passages.bounds[:-1, 1])
    lengths = passages.lengths[0] - 2
    assert lengths.max() <= 20 and lengths.sum() == len(passages.ids)
    assert passages.documents.tolist() == sorted(passages.documents) and set(passages.documents) == set(range(5))
    assert (lengths > 10).mean() > 0.7 and (lengths <= 10).any()  # most are full, and a tenth is short


def test_a_sentence_that_is_too_long_is_cut() -> None:
    passages = Passages.of([[np.arange(10, 35, dtype=np.int32)]], 10)
    assert [len(passages.sentences(i)[0]) for i in range(len(passages))][:2] == [10, 10]
    assert np.array_equal(np.concatenate([*passages.sentences(0), *passages.sentences(1)]), np.arange(10, 30))


def test_shares_of_hidden_and_other_words_are_berts() -> None:
    passages = Passages.of(numbered_documents(200, n_sentences=20), 60)
    batch = all_of(collator(passages))
    ids, words = batch.inputs[0].numpy(), batch.targets[0].numpy()
    asked = words != NO_TARGET
    n_text = int((ids >= 4).sum())
    assert asked.sum() / n_text == pytest.approx(0.15, abs=0.01)
    assert (ids[asked] == 4).mean() == pytest.approx(0.8, abs=0.02)
    assert (ids[asked] == words[asked]).mean() == pytest.approx(0.1, abs=0.02)
    is_other = asked & (ids != 4) & (ids != words)
    assert is_other.sum() / asked.sum() == pytest.approx(0.1, abs=0.02)
    assert len(np.unique(ids[is_other])) > 100 and not (ids[is_other] == 0).any()
    assert batch.n_targets == (asked.sum(), (batch.targets[1].numpy() != NO_TARGET).sum())


def test_symbols_around_texts_are_never_hidden_and_every_passage_has_a_target() -> None:
    passages = Passages.of([[np.full(n, 10 + n, dtype=np.int32)] for n in range(1, 9)], 60)
    batch = all_of(collator(passages, asks=("words",)))
    ids, words, draws = batch.inputs[0].numpy(), batch.targets[0].numpy(), batch.inputs[2].numpy()
    assert ((words != NO_TARGET).sum(1) >= 1).all()
    assert ((words == NO_TARGET) | (words >= 10)).all()
    assert (ids[:, 0] == 2).all() and ((ids == 3).sum(1) == 1).all()
    is_drawn = draws >= 0
    assert (draws[is_drawn] < 1).all() and (is_drawn == ((words != NO_TARGET) | np.isin(ids, (2, 3)))).all()


def test_half_of_the_second_texts_are_from_another_document() -> None:
    passages = Passages.of(numbered_documents(300), 60)
    batch = all_of(collator(passages, Masking(hidden=0.0, random=0.0)))
    (ids, segments, _), (_, classes) = (tensor.numpy() for tensor in batch.inputs), batch.targets
    is_word = ids >= 10
    assert float((classes[classes != NO_TARGET] == RANDOM).double().mean()) == pytest.approx(0.5, abs=0.08)
    for row, label in enumerate(classes.tolist()):
        if label == NO_TARGET:  # a single sentence
            continue
        first = set(ids[row][is_word[row] & (segments[row] == 0)])
        second = set(ids[row][is_word[row] & (segments[row] == 1)])
        assert len(first) == len(second) == 1
        assert (first == second) == (label == FOLLOWS)
    assert ids.shape[1] <= passages.lengths[0].max() + 1


def test_a_single_sentence_is_one_text_without_a_question_about_the_next() -> None:
    passages = Passages.of([*numbered_documents(3), [np.full(5, 99, dtype=np.int32)]], 60)
    batch = all_of(collator(passages, Masking(hidden=0.0, random=0.0)))
    [row] = [row for row in range(len(passages)) if 99 in batch.inputs[0][row]]
    assert batch.targets[1][row] == NO_TARGET and not batch.inputs[1][row].any()


def test_batches_are_a_function_of_seed_epoch_and_number() -> None:
    passages = Passages.of(numbered_documents(30), 60)
    collate = collator(passages)
    batch, again = all_of(collate), all_of(collate)
    assert all(
        (a == b).all() for a, b in zip((*batch.inputs, *batch.targets), (*again.inputs, *again.targets), strict=True)
    )
    part = collate(np.array([7, 3]), Place(seed=1, step=99, epoch=0, index=5))
    for row, number in enumerate((7, 3)):  # wherever an example stands
        length = part.targets[0].shape[1]
        assert (part.targets[0][row] == batch.targets[0][number, :length]).all()
    assert not (all_of(collate, epoch=1).targets[0] == batch.targets[0]).all()
    assert not (all_of(collate, seed=2).targets[0] == batch.targets[0]).all()


def test_spans_are_neighbouring_words_spread_over_the_text() -> None:
    passages = Passages.of(numbered_documents(100, n_sentences=20), 120)
    batch = all_of(collator(passages, Masking(share=1 / 6, hidden=0.0, random=0.0, span=5), asks=("words",)))
    ids, asked = batch.inputs[0].numpy(), batch.targets[0].numpy() != NO_TARGET
    assert asked.sum() / (ids >= 10).sum() == pytest.approx(1 / 6, abs=0.01)
    assert (asked[:, 1:] & asked[:, :-1]).sum() > 0.5 * asked.sum()
    assert (ids != 4).all()


def test_the_text_before_a_passage_comes_with_it_and_is_of_the_same_document() -> None:
    documents = [[np.arange(100 * d + 10 * i, 100 * d + 10 * i + 6, dtype=np.int32) for i in range(9)] for d in (1, 2)]
    passages = Passages.of(documents, 12)
    collate = MaskedTexts(
        passages=passages, masking=Masking(hidden=0, random=0), asks=("words",), n_symbols=N_SYMBOLS, n_before=8,
        **SPECIAL,
    )  # fmt: skip
    before = all_of(collate).inputs[3].numpy()
    assert before.shape == (len(passages), 8)
    for row, index in zip(before, range(len(passages)), strict=True):
        text = np.concatenate(documents[passages.documents[index]])
        end = text.tolist().index(passages.sentences(index)[0][0])
        expected = text[max(0, end - 8) : end]
        assert row.tolist() == [0] * (8 - len(expected)) + expected.tolist()
    assert np.array_equal(collate(np.array([3]), Place(seed=9, epoch=4)).inputs[3].numpy(), before[3:4])


def test_spans_are_hidden_by_the_order_alone() -> None:
    """A sixth of the words is asked for, in spans of up to five, and all words are in the input."""
    masking = Masking(share=1 / 6, hidden=0, random=0, span=5)
    batch = all_of(collator(Passages.of(numbered_documents(40, 20), 120), masking, asks=("words",)))
    ids, _, draws = (each.numpy() for each in batch.inputs)
    words = batch.targets[0].numpy()
    asked = words != NO_TARGET
    assert np.array_equal(ids[asked], words[asked])
    assert 0.14 < asked.sum() / (ids >= 10).sum() < 0.19
    runs = [len(run) for row in asked for run in "".join(".x"[int(is_asked)] for is_asked in row).split(".") if run]
    assert {1, 2, 3, 4, 5} <= set(runs) and np.mean(np.array(runs) <= 5) > 0.9
    assert ((draws >= 0) == (asked | np.isin(ids, (2, 3)))).all()
