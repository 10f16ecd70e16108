"""Sentences one after the other: the same as all at once."""

import tracemalloc
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.serve.api.streaming import iter_sentences
from regard.serve.http.problem import Problem
from regard.text.sentences import sentences


@given(st.lists(st.sampled_from(["a", "bc", ".", "!", " ", "  ", "\n", "\r\n", "。", "」", ")", '"'])).map("".join))
def test_windows_cut_as_the_whole_text_would(text: str) -> None:
    whole = sentences(text)
    longest = max(len(part.text) + len(part.gap) for part in whole)
    assert list(iter_sentences(text, max(1, longest))) == whole


def test_only_a_few_are_held_and_the_first_comes_at_once() -> None:
    text = "a. " * 300_000
    tracemalloc.start()
    assert len(list(islice(iter_sentences(text, 1_000), 32))) == 32
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_a_sentence_without_an_end_is_refused_without_being_searched_through() -> None:
    with pytest.raises(Problem, match="characters"):
        list(iter_sentences("One. " + "a" * 1_000, 100))
