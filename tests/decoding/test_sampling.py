"""Sampling: random, and yet a function of the seed and the sentence."""

import pytest
import torch

from regard.decoding import Sampling
from regard.decoding.greedy import draw
from regard.errors import RecipeError

from .toys import Toy, sources


def test_the_same_seed_draws_the_same_and_another_seed_another() -> None:
    toy, lines = Toy(end_bonus=0.5), sources(20)
    one, again, other = (toy.decode(lines, sampling=Sampling(seed=seed)) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_alone_equals_in_a_batch() -> None:
    toy, lines = Toy(end_bonus=0.5), sources(20)
    together = toy.decode(lines, sampling=Sampling(temperature=1.3), n_best=3)
    assert together == [toy.decode([line], sampling=Sampling(temperature=1.3), n_best=3)[0] for line in lines]


@pytest.mark.parametrize("temperature", [0.0, 1e-4])
def test_the_coldest_sampling_is_greedy(temperature: float) -> None:
    toy, lines = Toy(end_bonus=0.5), sources(20)
    assert toy.decode(lines, sampling=Sampling(temperature=temperature)) == toy.decode(lines, beam=1)


def test_the_single_top_symbol_is_greedy() -> None:
    toy, lines = Toy(end_bonus=0.5), sources(20)
    greedy = toy.decode(lines, beam=1)
    assert toy.decode(lines, sampling=Sampling(top_k=1)) == greedy
    assert toy.decode(lines, sampling=Sampling(top_p=1e-6)) == greedy


def test_several_draws_differ_and_come_best_first() -> None:
    for found in Toy(end_bonus=0.0).decode(sources(20), sampling=Sampling(), n_best=5):
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert len({one.ids for one in found}) > 1


def test_symbols_are_drawn_as_often_as_they_are_likely() -> None:
    probs = torch.tensor([0.1, 0.5, 0.15, 0.25])
    uniform = (torch.arange(1000) + 0.5) / 1000
    log_probs = probs.log().expand(1000, 4)

    def shares(sampling: Sampling) -> list[float]:
        return (draw(log_probs, uniform, sampling).bincount(minlength=4) / 1000).tolist()

    assert shares(Sampling()) == pytest.approx(probs.tolist(), abs=2e-3)
    assert shares(Sampling(top_k=2)) == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=2e-3)
    assert shares(Sampling(top_p=0.7)) == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=2e-3)
    squared = probs**2 / (probs**2).sum()
    assert shares(Sampling(temperature=0.5)) == pytest.approx(squared.tolist(), abs=2e-3)


def test_what_may_not_come_is_not_drawn() -> None:
    for found in Toy().decode(sources(20), sampling=Sampling(temperature=3.0), banned=(2, 5), min_length=4):
        assert not {2, 5} & set(found[0].ids)
        assert len(found[0].ids) >= 4


@pytest.mark.parametrize("wrong", [{"temperature": -1.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_sampling_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(RecipeError):
        Toy().decode([[5]], sampling=Sampling(**wrong))  # type: ignore[arg-type]
