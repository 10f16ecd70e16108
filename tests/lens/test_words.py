"""Pieces and words, in scripts with spaces and without."""

import pytest

from regard.lens.words import side_of
from regard.text import Tokenizer, train_tokenizer

MANY = [
    "the cat sleeps on the mat",
    "고양이가 매트 위에서 잔다",
    "القطة تنام على السجادة",
    "猫はマットの上で寝ています。",
    "แมวนอนบนเสื่อ",
]


@pytest.fixture(scope="module")
def many() -> Tokenizer:
    return Tokenizer(train_tokenizer(MANY * 3, size=360))


@pytest.mark.parametrize("text", [MANY[0], MANY[1], MANY[2], "a 😀 in the mat", "Ünïcödé wörds 👩‍👩‍👧 x"])
def test_words_are_what_stands_between_spaces(many: Tokenizer, text: str) -> None:
    side = side_of(many, [*many.encode(text), many.eos_id])
    assert side.labels("words") == [*text.split(), "</s>"]
    assert side.text == text


@pytest.mark.parametrize("text", [MANY[3], MANY[4]])
def test_scripts_without_spaces_are_split_into_sub_words(many: Tokenizer, text: str) -> None:
    words = side_of(many, many.encode(text)).labels("words")
    assert len(words) > 1
    assert "".join(words) == text


def test_every_piece_belongs_to_one_word_in_order(many: Tokenizer) -> None:
    for text in MANY:
        side = side_of(many, [many.bos_id, *many.encode(text), many.eos_id])
        assert [i for word in side.words for i in word.pieces] == list(range(len(side.pieces)))
        assert all(i in side.words[piece.word].pieces for i, piece in enumerate(side.pieces))
        members = side.members()
        assert members.shape == (len(side.words), len(side.pieces))
        assert (members.sum(0) == 1).all()


def test_a_symbol_that_looks_special_in_the_text_is_not(many: Tokenizer) -> None:
    side = side_of(many, [*many.encode("</s> <s>"), many.eos_id])
    assert side.labels("words") == ["</s>", "<s>", "</s>"]
    assert [word.special for word in side.words] == [False, False, True]
