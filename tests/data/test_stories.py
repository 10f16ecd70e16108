"""Batches of stories with questions."""

import numpy as np
import pytest

from regard.data import NIL, Place, Stories, StoryCollator

# two questions about one story, one about another, and one without any story
STORIES = [[[1, 2], [3]], [[1, 2], [3], [4, 5, 6]], [[7]], []]
N_SYMBOLS = 10


def collator(memory: int = 5, time_noise: float = 0.0, stories: list[list[list[int]]] = STORIES) -> StoryCollator:
    questions = [[8, i + 1] for i in range(len(stories))]
    encoded = Stories.of(stories, questions, [1] * len(stories), width=3)
    return StoryCollator(stories=encoded, n_symbols=N_SYMBOLS, memory=memory, time_noise=time_noise)


def test_sentences_are_in_order_with_their_age_at_the_end() -> None:
    question, sentences = collator()(np.array([1, 2]), Place()).inputs
    assert sentences[0].tolist() == [[1, 2, 0, 12], [3, 0, 0, 11], [4, 5, 6, 10]]
    assert sentences[1].tolist() == [[7, 0, 0, 10], [NIL] * 4, [NIL] * 4]
    assert question.tolist() == [[8, 2, 0, NIL], [8, 3, 0, NIL]]


def test_questions_about_one_story_share_its_sentences() -> None:
    assert len(collator().stories.sentences) == 3 + 1 + 1  # the last one is empty


def test_a_full_memory_keeps_the_last_sentences() -> None:
    _, sentences = collator(memory=2)(np.array([1]), Place()).inputs
    assert sentences[0].tolist() == [[3, 0, 0, 11], [4, 5, 6, 10]]


def test_a_question_without_a_story_has_one_blank_sentence() -> None:
    _, sentences = collator()(np.array([3]), Place()).inputs
    assert sentences.tolist() == [[[NIL] * 4]]


def test_long_sentences_are_cut() -> None:
    stories = Stories.of([[[1, 2, 3, 4]]], [[5, 6, 7, 8]], [1], width=3)
    assert stories.sentences[0].tolist() == [1, 2, 3] and stories.questions[0].tolist() == [5, 6, 7]


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_noise_leaves_out_times_but_keeps_their_order(noise: float) -> None:
    stories = [[[1]] * n for n in (1, 20, 7)]
    collate, largest = collator(memory=40, time_noise=noise, stories=stories), np.zeros(3, dtype=int)
    for step in range(200):
        _, sentences = collate(np.array([0, 1, 2]), Place(step=step, index=step)).inputs
        for row, n in enumerate((1, 20, 7)):
            ages = sentences[row, :n, -1].numpy() - N_SYMBOLS
            assert (np.diff(ages) < 0).all() and ages.min() >= 0
            assert (sentences[row, n:] == NIL).all()
            largest[row] = max(largest[row], ages.max())
    assert largest.tolist() == [n - 1 + int(np.ceil(n * noise)) for n in (1, 20, 7)]


def test_noisy_times_are_capped_by_the_memory() -> None:
    collate = collator(memory=20, time_noise=1.0, stories=[[[1]] * 20])
    ages = [collate(np.array([0]), Place(index=i)).inputs[1][0, :, -1].max().item() for i in range(50)]
    assert max(ages) == N_SYMBOLS + 19


def test_noise_is_a_function_of_the_place() -> None:
    collate, indices = collator(memory=30, time_noise=1.0, stories=[[[1]] * 20]), np.array([0])
    first, again, other = (collate(indices, Place(seed=1, epoch=e)).inputs[1] for e in (0, 0, 1))
    assert first.equal(again) and not first.equal(other)
