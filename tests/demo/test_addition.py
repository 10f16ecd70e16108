"""The addition corpus: sums that are right, carries that run through, and parts that share nothing."""

from pathlib import Path
from random import Random
from typing import get_args

import pytest

from regard.demo.addition import Form, carry_through, make_corpus, random_sum, to_pair, write_corpus


def number(text: str) -> int:
    """The value of bits in the order in which they are written: the lowest first."""
    return sum(int(bit) << i for i, bit in enumerate(text.split(" ")))


def terms(source: str) -> tuple[str, str]:
    first, second = source.split(" + ")
    return first, second


def test_numbers_are_written_from_the_lowest_bit() -> None:
    assert to_pair([1, 1, 0], [1, 0, 0]) == ("1 1 0 + 1 0 0", "0 0 1 0")


def test_in_columns_the_bits_stand_together_with_a_column_for_the_last_carry() -> None:
    assert to_pair([1, 1], [1, 0], "addition-in-columns") == ("1+1 1+0 0+0", "0 0 1")
    pairs = [make_corpus(1, form, n_bits=6, n_train=90, n_valid=9, n_test=3)["test-40"][0] for form in get_args(Form)]
    first, second = terms(pairs[0][0])
    columns = " ".join(f"{a}+{b}" for a, b in zip(first.split(" "), second.split(" "), strict=True))
    assert pairs[1] == (f"{columns} 0+0", pairs[0][1])


def test_every_result_is_the_sum_with_one_bit_more() -> None:
    corpus = make_corpus(1, n_bits=12, n_train=600, n_valid=50, n_test=20)
    for name, pairs in corpus.items():
        for source, result in pairs:
            first, second = terms(source)
            assert number(first) + number(second) == number(result)
            assert len(first) == len(second) == len(result) - 2
        lengths = {(len(result) - 1) // 2 for _, result in pairs}
        assert lengths == set(range(1, 13)) if name == "train" else True
        assert lengths == {int(name.partition("-")[2])} if "-" in name else True


def test_a_carry_runs_from_the_lowest_bit_to_the_highest() -> None:
    for n_bits in (1, 2, 40):
        source, result = carry_through(n_bits, Random(3))
        first, second = (text.split(" ") for text in terms(source))
        assert first[0] == second[0] == "1"
        assert all(a != b for a, b in zip(first[1:], second[1:], strict=True))
        assert result.split(" ") == [*"0" * n_bits, "1"]


@pytest.mark.parametrize(("passing", "low", "high"), [(0.5, 0.4, 0.6), (0.9, 0.85, 0.95), (0.0, 0.0, 0.0)])
def test_random_sums_pass_carries_on_as_often_as_asked_for(passing: float, low: float, high: float) -> None:
    first, second = (text.split(" ") for text in terms(random_sum(2_000, Random(1), passing)[0]))
    assert low <= sum(a != b for a, b in zip(first, second, strict=True)) / 2_000 <= high


def test_training_and_validation_share_no_sum_and_the_corpus_depends_on_the_seed_only(tmp_path: Path) -> None:
    sizes = {"n_bits": 8, "n_train": 400, "n_valid": 40, "n_test": 5}
    corpus = make_corpus(7, **sizes)
    assert not set(corpus["train"]) & set(corpus["validation"])
    assert len(corpus["validation"]) == 40
    assert corpus == make_corpus(7, **sizes) != make_corpus(8, **sizes)
    write_corpus(tmp_path, corpus)
    for name, pairs in corpus.items():
        files = ((tmp_path / f"{name}.{suffix}").read_text().splitlines() for suffix in ("sum", "result"))
        assert list(zip(*files, strict=True)) == pairs
