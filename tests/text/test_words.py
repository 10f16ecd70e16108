"""Sub-words to words, in scripts with and without spaces."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text import Tokenizer, train_tokenizer
from regard.text.words import group_words, word_numbers

ENGLISH, KOREAN, ARABIC = "the cat sleeps on the mat", "고양이가 매트 위에서 잔다", "القطة تنام على السجادة"
JAPANESE, CHINESE, THAI = "猫はマットの上で寝ています。", "猫在垫子上睡觉。", "แมวนอนบนเสื่อ"
LINES = [ENGLISH, KOREAN, ARABIC, JAPANESE, CHINESE, THAI]
TOKENIZER = Tokenizer(train_tokenizer(LINES * 3, size=380, tags=["de", "ko"]))


def words(ids: list[int], *, split_unspaced: bool = False) -> list[str]:
    groups = group_words(TOKENIZER, ids, split_unspaced=split_unspaced)
    return [TOKENIZER.decode([ids[i] for i in group]) for group in groups]


@pytest.mark.parametrize("line", [*LINES, "a 😀 in the mat", "Ünïcödé wörds 👩‍👩‍👧 x", "猫犬 and mat", "龘龘 x"])
def test_words_are_separated_by_spaces(line: str) -> None:
    assert words(TOKENIZER.encode(line)) == line.split()


@pytest.mark.parametrize("line", [JAPANESE, CHINESE, THAI, "猫犬 and mat", "龘龘"])
def test_unspaced_scripts_can_be_split_into_sub_words(line: str) -> None:
    split = words(TOKENIZER.encode(line), split_unspaced=True)
    assert len(split) > len(line.split())
    assert "".join(split) == line.replace(" ", "")
    assert all(split)


@pytest.mark.parametrize("line", [ENGLISH, KOREAN, ARABIC, "a 😀 x"])
def test_splitting_unspaced_scripts_leaves_spaced_scripts_alone(line: str) -> None:
    assert words(TOKENIZER.encode(line), split_unspaced=True) == line.split()


def test_special_symbols_are_groups_of_their_own_and_have_no_word_number() -> None:
    ids = [*TOKENIZER.encode("the cat", tag="de"), TOKENIZER.eos_id]
    assert group_words(TOKENIZER, ids)[0] == [0]
    assert group_words(TOKENIZER, ids)[-1] == [len(ids) - 1]
    numbers = word_numbers(TOKENIZER, ids)
    assert numbers[0] is None
    assert numbers[-1] is None
    assert set(numbers[1:-1]) == {0, 1}


def test_text_that_looks_like_a_tag_is_a_word() -> None:
    assert None not in word_numbers(TOKENIZER, TOKENIZER.encode(">>de<< the cat"))


@given(st.lists(st.sampled_from([0, 2, 3, *range(260, TOKENIZER.size)]), max_size=12))
@settings(max_examples=200, deadline=None)
def test_word_numbers_count_the_words_of_the_decoded_text(ids: list[int]) -> None:
    numbers = word_numbers(TOKENIZER, ids)
    for number, word in enumerate(TOKENIZER.decode(ids).split()):
        assert TOKENIZER.decode([i for i, n in zip(ids, numbers, strict=True) if n == number]) == word
    n_words = len(TOKENIZER.decode(ids).split())
    assert len(numbers) == len(ids)
    assert {n for n in numbers if n is not None} == set(range(n_words))
