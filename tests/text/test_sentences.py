from hypothesis import given
from hypothesis import strategies as st

from regard.text.sentences import Part, split_long


def n_characters(text: str) -> int:
    return len(text)


def test_a_text_that_fits_is_not_split() -> None:
    assert split_long("One. Two. Three.", 100, n_characters) == [Part("One. Two. Three.", "")]


def test_a_long_text_is_split_into_sentences() -> None:
    parts = split_long('He said: "Go." We went! Where? 東京へ行った。寒かった。', 16, n_characters)
    assert [part.text for part in parts] == ['He said: "Go."', "We went!", "Where?", "東京へ行った。", "寒かった。"]
    assert [part.gap for part in parts] == [" ", " ", " ", "", ""]


def test_a_long_sentence_is_split_at_clauses_before_words() -> None:
    parts = split_long("first clause, second clause, and a third one here", 30, n_characters)
    assert [part.text for part in parts] == ["first clause, second clause,", "and a third one here"]


def test_a_long_word_is_split_anywhere() -> None:
    parts = split_long("x" * 1000, 40, n_characters)
    assert "".join(part.text for part in parts) == "x" * 1000
    assert max(len(part.text) for part in parts) <= 40


@given(st.text(alphabet=st.sampled_from("ab .,;!?。、\"”'"), max_size=300), st.integers(4, 60))
def test_parts_fit_and_add_up_to_the_text(text: str, limit: int) -> None:
    parts = split_long(text, limit, n_characters)
    assert "".join(part.text + part.gap for part in parts) == text
    assert all(len(part.text) <= limit for part in parts)
