"""What may not come next does not come."""

import pytest
import torch

from regard.decoding import alternatives
from regard.decoding.constraints import apply_constraints, no_repeat_ngram

from .toys import BEGIN, END, Toy, sources

BEAMS = pytest.mark.parametrize("beam", [1, 4])


@BEAMS
def test_no_translation_is_shorter_than_the_minimum(beam: int) -> None:
    for found in Toy(end_bonus=3.0).decode(sources(30), beam=beam, min_length=5):
        assert all(len(one.ids) >= 5 for one in found)


@BEAMS
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_run_of_symbols_comes_twice(beam: int, n: int) -> None:
    toy = Toy(n_symbols=5, end_bonus=-3.0)
    for found in toy.decode(sources(20), beam=beam, no_repeat_ngram=n, extra_length=20):
        for one in found:
            runs = [one.ids[i : i + n] for i in range(len(one.ids) - n + 1)]
            assert len(runs) == len(set(runs))


@BEAMS
def test_banned_symbols_never_come(beam: int) -> None:
    for found in Toy().decode(sources(20), beam=beam, banned=(2, 5)):
        assert not {2, 5} & set(found[0].ids)


@BEAMS
def test_where_nothing_may_follow_a_translation_ends(beam: int) -> None:
    found = Toy(n_symbols=4).decode(sources(5), beam=beam, banned=(1, 2, 3), min_length=3)
    assert [one[0].ids for one in found] == [()] * 5


@BEAMS
def test_a_prefix_may_hold_what_is_banned(beam: int) -> None:
    found = Toy().decode([[5, 6]], [[2, 2]], beam=beam, banned=(2,), no_repeat_ngram=1)
    assert found[0][0].ids[:2] == (2, 2)
    assert 2 not in found[0][0].ids[2:]


def test_a_constraint_leaves_the_models_answer_as_it_was() -> None:
    log_probs = torch.zeros(1, 4)
    history = torch.tensor([[1, 2, 1]])
    allowed = apply_constraints(log_probs, history, [no_repeat_ngram(2)], None, END)
    assert allowed.tolist() == [[0.0, 0.0, float("-inf"), 0.0]]
    assert log_probs.tolist() == [[0.0] * 4]


def test_alternatives_are_the_likeliest_symbols_after_a_prefix() -> None:
    toy, lines, prefixes = Toy(), sources(4), [[], [3, 4], [5], [2, 2, 2]]
    found = alternatives(toy.step, toy.start(lines), prefixes, 3, begin_id=BEGIN)
    for line, prefix, row in zip(lines, prefixes, found, strict=True):
        state = toy.start([line])
        for symbol in [BEGIN, *prefix]:
            log_probs, state = toy.step(torch.tensor([symbol]), state)
        values, symbols = log_probs[0].topk(3)
        assert [symbol for symbol, _ in row] == symbols.tolist()
        assert [value for _, value in row] == pytest.approx(values.tolist())
