"""Splitting a text into sentences lazily gives the same sentences."""

import tracemalloc
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.serve.api.streaming import iter_sentences
from regard.serve.http.problem import Problem
from regard.text.sentences import sentences


@given(st.lists(st.sampled_from(["a", "bc", ".", "!", " ", "  ", "\n", "\r\n", "。", "」", ")", '"'])).map("".join))
def test_windows_are_split_like_the_whole_text(text: str) -> None:
    whole = sentences(text)
    longest = max(len(part.text) + len(part.gap) for part in whole)
    assert list(iter_sentences(text, max(1, longest))) == whole


def test_first_sentences_of_a_long_text_need_little_memory() -> None:
    text = "a. " * 300_000
    tracemalloc.start()
    try:
        assert len(list(islice(iter_sentences(text, 1_000), 32))) == 32
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_sentence_that_is_too_long_is_refused() -> None:
    with pytest.raises(Problem, match="more than 100 characters"):
        list(iter_sentences("One. " + "a" * 1_000, 100))
