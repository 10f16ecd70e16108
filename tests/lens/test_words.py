"""Sub-words and words, in scripts with and without spaces."""

import pytest

from regard.lens.words import TokenizedText
from regard.text import Tokenizer, train_tokenizer

SENTENCES = [
    "the cat sleeps on the mat",
    "고양이가 매트 위에서 잔다",
    "القطة تنام على السجادة",
    "猫はマットの上で寝ています。",
    "แมวนอนบนเสื่อ",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(train_tokenizer(SENTENCES * 3, size=360))


@pytest.mark.parametrize(
    "text", [SENTENCES[0], SENTENCES[1], SENTENCES[2], "a 😀 in the mat", "Ünïcödé wörds 👩‍👩‍👧 x"]
)
def test_words_are_separated_by_spaces(tokenizer: Tokenizer, text: str) -> None:
    tokenized = TokenizedText.of(tokenizer, [*tokenizer.encode(text), tokenizer.eos_id])
    assert tokenized.labels("words") == [*text.split(), "</s>"]
    assert tokenized.text == text


@pytest.mark.parametrize("text", [SENTENCES[3], SENTENCES[4]])
def test_scripts_without_spaces_are_split_into_sub_words(tokenizer: Tokenizer, text: str) -> None:
    words = TokenizedText.of(tokenizer, tokenizer.encode(text)).labels("words")
    assert len(words) > 1
    assert "".join(words) == text


def test_every_piece_belongs_to_exactly_one_word_in_order(tokenizer: Tokenizer) -> None:
    for text in SENTENCES:
        tokenized = TokenizedText.of(tokenizer, [tokenizer.bos_id, *tokenizer.encode(text), tokenizer.eos_id])
        assert [i for word in tokenized.words for i in word.pieces] == list(range(len(tokenized.pieces)))
        assert all(i in tokenized.words[piece.word].pieces for i, piece in enumerate(tokenized.pieces))
        membership = tokenized.membership()
        assert membership.shape == (len(tokenized.words), len(tokenized.pieces))
        assert (membership.sum(0) == 1).all()


def test_text_that_looks_like_a_special_token_is_not_special(tokenizer: Tokenizer) -> None:
    tokenized = TokenizedText.of(tokenizer, [*tokenizer.encode("</s> <s>"), tokenizer.eos_id])
    assert tokenized.labels("words") == ["</s>", "<s>", "</s>"]
    assert [word.special for word in tokenized.words] == [False, False, True]
