"""Sampling: random, but a function of the seed and the source."""

import pytest
import torch

from regard.decoding import Sampling
from regard.decoding.greedy import draw_tokens
from regard.errors import RecipeError

from .toys import Toy, make_sources


def test_samples_are_equal_for_the_same_seed_and_differ_for_another() -> None:
    toy, sources = Toy(end_bonus=0.5), make_sources(20)
    first, again, other_seed = (toy.decode(sources, sampling=Sampling(seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other_seed


def test_alone_equals_in_a_batch() -> None:
    toy, sources = Toy(end_bonus=0.5), make_sources(20)
    together = toy.decode(sources, sampling=Sampling(temperature=1.3), n_best=3)
    assert together == [toy.decode([source], sampling=Sampling(temperature=1.3), n_best=3)[0] for source in sources]


@pytest.mark.parametrize("temperature", [0.0, 1e-4])
def test_sampling_at_temperature_zero_is_greedy(temperature: float) -> None:
    toy, sources = Toy(end_bonus=0.5), make_sources(20)
    assert toy.decode(sources, sampling=Sampling(temperature=temperature)) == toy.decode(sources, beam=1)


def test_sampling_from_the_single_best_token_is_greedy() -> None:
    toy, sources = Toy(end_bonus=0.5), make_sources(20)
    greedy = toy.decode(sources, beam=1)
    assert toy.decode(sources, sampling=Sampling(top_k=1)) == greedy
    assert toy.decode(sources, sampling=Sampling(top_p=1e-6)) == greedy


def test_several_samples_differ_and_are_sorted_best_first() -> None:
    for samples in Toy(end_bonus=0.0).decode(make_sources(20), sampling=Sampling(), n_best=5):
        scores = [sample.score for sample in samples]
        assert scores == sorted(scores, reverse=True)
        assert len({sample.ids for sample in samples}) > 1


def test_tokens_are_drawn_with_their_probabilities() -> None:
    probs = torch.tensor([0.1, 0.5, 0.15, 0.25])
    uniform = (torch.arange(1000) + 0.5) / 1000
    log_probs = probs.log().expand(1000, 4)

    def frequencies(sampling: Sampling) -> list[float]:
        return (draw_tokens(log_probs, uniform, sampling).bincount(minlength=4) / 1000).tolist()

    assert frequencies(Sampling()) == pytest.approx(probs.tolist(), abs=2e-3)
    assert frequencies(Sampling(top_k=2)) == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=2e-3)
    assert frequencies(Sampling(top_p=0.7)) == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=2e-3)
    squared = probs**2 / (probs**2).sum()
    assert frequencies(Sampling(temperature=0.5)) == pytest.approx(squared.tolist(), abs=2e-3)


def test_forbidden_tokens_are_not_drawn() -> None:
    for (sample,) in Toy().decode(make_sources(20), sampling=Sampling(temperature=3.0), banned=(2, 5), min_length=4):
        assert not {2, 5} & set(sample.ids)
        assert len(sample.ids) >= 4


@pytest.mark.parametrize("options", [{"temperature": -1.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_invalid_sampling_raises_recipe_error(options: dict[str, float]) -> None:
    with pytest.raises(RecipeError):
        Toy().decode([[5]], sampling=Sampling(**options))  # type: ignore[arg-type]
