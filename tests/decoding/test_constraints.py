"""Forbidden tokens never occur, and forced ones do."""

import pytest
import torch

from regard.decoding import DecodingOptions
from regard.decoding.constraints import apply_constraints

from .toys import END, Toy, make_sources

BEAMS = pytest.mark.parametrize("beam", [1, 4])


@BEAMS
def test_no_translation_is_shorter_than_the_minimum(beam: int) -> None:
    for hypotheses in Toy(end_bonus=3.0).decode(make_sources(30), beam=beam, min_length=5):
        assert all(len(hypothesis.ids) >= 5 for hypothesis in hypotheses)


@BEAMS
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_occurs_twice(beam: int, n: int) -> None:
    toy = Toy(vocab_size=5, end_bonus=-3.0)
    for hypotheses in toy.decode(make_sources(20), beam=beam, no_repeat_ngram=n, extra_length=20):
        for hypothesis in hypotheses:
            ngrams = [hypothesis.ids[i : i + n] for i in range(len(hypothesis.ids) - n + 1)]
            assert len(ngrams) == len(set(ngrams))


@BEAMS
def test_banned_tokens_never_occur(beam: int) -> None:
    for (hypothesis,) in Toy().decode(make_sources(20), beam=beam, banned=(2, 5)):
        assert not {2, 5} & set(hypothesis.ids)


@BEAMS
def test_a_translation_ends_if_all_tokens_are_forbidden(beam: int) -> None:
    n_best_lists = Toy(vocab_size=4).decode(make_sources(5), beam=beam, banned=(1, 2, 3), min_length=3)
    assert [hypothesis.ids for (hypothesis,) in n_best_lists] == [()] * 5


@BEAMS
def test_a_prefix_may_contain_banned_tokens(beam: int) -> None:
    ((hypothesis,),) = Toy().decode([[5, 6]], [[2, 2]], beam=beam, banned=(2,), no_repeat_ngram=1)
    assert hypothesis.ids[:2] == (2, 2)
    assert 2 not in hypothesis.ids[2:]


def test_constraints_do_not_change_the_given_log_probs() -> None:
    log_probs = torch.zeros(1, 4)
    history = torch.tensor([[1, 2, 1]])
    allowed = apply_constraints(log_probs, history, DecodingOptions(no_repeat_ngram=2), None, END)
    assert allowed.tolist() == [[0.0, 0.0, float("-inf"), 0.0]]
    assert log_probs.tolist() == [[0.0] * 4]
