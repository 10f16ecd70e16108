from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.sentences import Part, join_gap, sentences, split_lines, split_long

ALPHABET = st.sampled_from("abAB1 .,;!?。、\"”'»(\n")
# Files of texts, one per line, with " | " between sentences. They were written before the rules, to compare libraries;
# of each, so many are split exactly right. benchmarks/sentences.py compares with sentencex and ICU.
EXAMPLES = Path(__file__).parent / "sentences"
RIGHT = {"en": (31, 33), "de": (28, 30), "fr": (20, 21), "ko": (14, 16)}


def n_characters(text: str) -> int:
    return len(text)


def texts(text: str, language: str | None = None) -> list[str]:
    return [part.text for part in sentences(text, language)]


@pytest.mark.parametrize("language", RIGHT)
def test_abbreviations_numbers_and_speech_do_not_end_sentences(language: str) -> None:
    examples = (EXAMPLES / f"{language}.txt").read_text(encoding="utf-8").splitlines()
    expected = [line.split(" | ") for line in examples]
    n_right = sum(texts(" ".join(parts), language) == parts for parts in expected)
    assert (n_right, len(expected)) == RIGHT[language]


def test_gaps_keep_the_layout() -> None:
    text = "  One.  Two\n\n - three. Four\n"
    assert sentences(text) == [Part("One.", "  "), Part("Two", "\n\n - "[:3]), Part("- three.", " "), Part("Four", "")]
    assert split_lines(text) == [Part("One.  Two", "\n\n "), Part("- three. Four", "")]


def test_scripts_without_spaces() -> None:
    assert sentences("東京へ行った。寒かった。") == [Part("東京へ行った。", ""), Part("寒かった。", "")]


def test_text_without_capitals_is_split_too() -> None:
    assert texts("hello. how are you? fine, e.g. today.") == ["hello.", "how are you?", "fine, e.g. today."]
    assert texts("He said hello. and left.") == ["He said hello. and left."]


def test_ordinal_numbers_depend_on_the_language() -> None:
    assert texts("Es war am 3. Mai.", "de") == ["Es war am 3. Mai."]
    assert texts("We were 3. May was the fourth.", "en") == ["We were 3.", "May was the fourth."]


def test_joining_keeps_white_space_and_adds_it_where_the_other_script_needs_it() -> None:
    assert join_gap(Part("A.", "\n\t"), "B.") == "\n\t"
    assert join_gap(Part("寒い。", ""), "Cold.") == " "
    assert join_gap(Part("Cold.", " "), "寒い。") == ""
    assert join_gap(Part("A.", "\u2028"), "B.") == " "  # a reader of the output may take it for the end of a line


def test_a_sentence_that_fits_is_not_split() -> None:
    assert split_long(Part("One, two, three.", "\n"), 100, n_characters) == [Part("One, two, three.", "\n")]


def test_a_long_sentence_is_split_at_clauses_before_words() -> None:
    parts = split_long(Part("first clause, second clause, and a third one here", " "), 30, n_characters)
    assert parts == [Part("first clause, second clause,", " "), Part("and a third one here", " ")]


def test_a_long_word_is_split_anywhere() -> None:
    parts = split_long(Part("x" * 1000, ""), 40, n_characters)
    assert "".join(part.text for part in parts) == "x" * 1000
    assert max(len(part.text) for part in parts) <= 40


@given(st.text(alphabet=ALPHABET, max_size=300), st.integers(4, 60))
def test_parts_fit_and_add_up_to_the_text(text: str, limit: int) -> None:
    for parts in (sentences(text), split_lines(text)):
        assert "".join(part.text + part.gap for part in parts) == text.strip()
        assert all(part.text == part.text.strip() for part in parts)
        assert "\n" not in "".join(part.text for part in parts)
    fitting = [small for part in sentences(text) for small in split_long(part, limit, n_characters)]
    assert "".join(part.text + part.gap for part in fitting) == text.strip()
    assert all(len(part.text) <= limit for part in fitting)
