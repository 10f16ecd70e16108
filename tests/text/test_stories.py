"""Files of stories in bAbI's format."""

from pathlib import Path

import pytest

from regard.errors import DataError
from regard.text.stories import parse_stories, read_stories, split_words

TWO_STORIES = [
    "1 Mary moved to the bathroom.",
    "2 Where is Mary? \tbathroom\t1",
    "3 John went to the Hall.",
    "4 Where is John?\tHall\t3 1",
    "",
    "1 Zoe is here.",
    "2 Is Zoe here?\tyes\t1",
]


def test_a_question_has_the_sentences_before_it_but_no_earlier_question() -> None:
    first, second, third = parse_stories(TWO_STORIES, "f")
    assert first.story == ("Mary moved to the bathroom.",)
    assert (first.text, first.answer, first.supporting) == ("Where is Mary?", "bathroom", (0,))
    assert second.story == ("Mary moved to the bathroom.", "John went to the Hall.")
    assert (second.answer, second.supporting) == ("hall", (1, 0))
    assert (third.story, third.number) == (("Zoe is here.",), 1)


def test_supporting_facts_are_optional() -> None:
    [question] = parse_stories(["1 A cat sat.", "2 Who sat?\tcat"], "f")
    assert question.supporting == ()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["Mary moved."], "f:1: no number"),
        ([f"{'1' * 5000} Mary moved."], "f:1: no number"),
        (["1 A cat sat.", f"2 Who?\tcat\t{'1' * 5000}"], "f:2: '111"),
        (["2 Mary moved."], "f:1: line 2 after line 0"),
        (["1 Mary moved.", "1 Zoe sat.", "2 Who sat?\tZoe\t1", "2 Zoe ran."], "f:4: line 2 after line 2"),
        (["1 Who sat?\t"], "f:1: a question without an answer"),
        (["1 ???\tyes"], "f:1: a question without words"),
        (["1 A cat sat.", "2 Who?\tcat\t2"], "f:2: '2' is not the number of an earlier sentence"),
        (["1 A cat sat.", "2 Who?\tcat\tone"], "f:2: 'one' is not"),
    ],
)
def test_errors_name_the_line(lines: list[str], message: str) -> None:
    with pytest.raises(DataError) as error:
        list(parse_stories(lines, "f"))
    assert message in error.value.message


def test_a_file_without_questions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 Mary moved.\n")
    with pytest.raises(DataError, match="no question"):
        read_stories(tmp_path / "a.txt")


def test_words_are_lower_case_without_punctuation() -> None:
    assert split_words("Mary's cat, “Tom”, isn't well-fed: 3 km!") == [
        "mary's",
        "cat",
        "tom",
        "isn't",
        "well-fed",
        "3",
        "km",
    ]
    assert split_words("메리는 부엌에 갔다.") == ["메리는", "부엌에", "갔다"]
