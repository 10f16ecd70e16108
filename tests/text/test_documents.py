"""Running text as documents of sentences."""

from regard.text.documents import split_documents

LINES = ["= Cats =", "", "Cats sleep . They purr .", "= = Food = =", "Fish .", "", "= Dogs =", "Dogs bark .", ""]


def test_blank_lines_separate_documents_and_lines_are_split_into_sentences() -> None:
    documents = list(split_documents(LINES))
    assert documents[1] == ["Cats sleep .", "They purr .", "= = Food = =", "Fish ."]
    assert len(documents) == 3


def test_a_pattern_begins_documents_and_blank_lines_mean_nothing() -> None:
    """With or without the spaces that WikiText has around its titles, and that normalised lines have not."""
    for pattern in ("^ = [^=]+ = $", "^= [^=]+ =$"):
        first, second = split_documents(LINES, pattern)
        assert first == ["= Cats =", "Cats sleep .", "They purr .", "= = Food = =", "Fish ."]
        assert second == ["= Dogs =", "Dogs bark ."]


def test_text_before_the_first_title_is_a_document_and_no_text_is_none() -> None:
    assert next(iter(split_documents(["Before .", *LINES[-3:]], "^= [^=]+ =$"))) == ["Before ."]
    assert list(split_documents(["", ""])) == []
