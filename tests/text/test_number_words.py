import pytest

from regard.text.number_words import scale_of, word_values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("two hundred and five men", 205),
        ("Twenty-one dogs", 21),
        ("a hundred thousand", 100_000),
        ("the twelfth of May", 5),
        ("the eighth man", 8),
        ("zweihundertfünfundzwanzig Männer", 225),
        ("ein zweijähriges Kind", 2),
        ("am dritten Tag", 3),
        ("quatre-vingt-onze", 91),
        ("la troisième fois", 3),
        ("vingt et un", 21),
        ("이백오십 명", 250),
        ("스물세 마리", 23),
        ("개 두 마리", 2),
    ],
)
def test_number_words_and_months_have_values(text: str, value: int) -> None:
    assert value in word_values(text)


def test_neighbouring_numbers_are_not_added() -> None:
    assert word_values("zwei 12 und ein Hund") == {1, 2}
    assert 5 not in word_values("two or three")


def test_scales_of_written_numbers() -> None:
    assert (scale_of("Million"), scale_of("만"), scale_of("dogs")) == (1_000_000, 10_000, 1)
