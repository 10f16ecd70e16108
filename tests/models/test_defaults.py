"""Defaults of an architecture: larger models and batches for more text and time, lower rates for wider models."""

from itertools import product

import pytest

from regard.models import ARCHITECTURES, PRESETS, Defaults, Situation

SIZES = [2, 50, 3_000, 29_000, 99_999, 100_000, 900_000, 5_000_000, 40_000_000]
ORDER = list(PRESETS)
DEFAULTS = ARCHITECTURES["transformer"].defaults


def situation(n_examples: int = 10**6, n_steps: float | None = None, *, fine_tunes: bool = False) -> Situation:
    return Situation(n_examples, 30 * n_examples, n_steps, fine_tunes)


def preset(n_examples: int, n_steps: float | None) -> str:
    return str(DEFAULTS.model(PRESETS, situation(n_examples, n_steps))["preset"])


def test_model_size_grows_with_the_corpus() -> None:
    for n_steps in (None, 0.0, 3000.0, 1e6):
        values = [ORDER.index(preset(size, n_steps)) for size in SIZES]
        assert values == sorted(values)
    assert preset(2, None) == "tiny"
    assert preset(5_000_000, None) == "base"


def test_model_size_grows_with_the_budget() -> None:
    for size in SIZES:
        values = [ORDER.index(preset(size, steps)) for steps in (0.0, 100.0, 1e4, 1e6)]
        assert values == sorted(values)


@pytest.mark.parametrize("n_presets", [1, 2])
def test_architecture_with_few_presets_has_a_default_for_every_corpus(n_presets: int) -> None:
    few = {name: PRESETS[name] for name in ORDER[:n_presets]}
    for size, n_steps in product(SIZES, (None, 0.0, 1e6)):
        assert Defaults().model(few, situation(size, n_steps))["preset"] in few


def test_only_an_architecture_with_norms_has_a_default_for_them() -> None:
    assert DEFAULTS.model(PRESETS, situation())["norm"] == "pre"
    assert "norm" not in Defaults().model(PRESETS, situation())


def test_batch_size_grows_with_the_corpus_within_bounds() -> None:
    values = [DEFAULTS.training(PRESETS["tiny"], situation(size))["max_tokens"] for size in SIZES]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (256, 2048)


def test_wider_model_has_a_lower_learning_rate() -> None:
    rates = [DEFAULTS.training(PRESETS[name], situation())["rate"] for name in ORDER]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(0.005)


def test_fine_tuning_has_a_tenth_of_the_learning_rate() -> None:
    new, tuned = (DEFAULTS.training(PRESETS["small"], situation(fine_tunes=tunes))["rate"] for tunes in (False, True))
    assert tuned == pytest.approx(new / 10)


def test_dropout_grows_with_the_number_of_epochs() -> None:
    values = [
        DEFAULTS.regularisation(epochs, situation())["dropout"] for epochs in (0.1, 2.0, 4.0, 8.0, 16.0, 80.0, 1e4)
    ]
    assert values == [0.0, 0.0, 0.04, 0.1, 0.16, 0.3, 0.3]


def test_a_short_budget_is_for_the_small_model_of_images() -> None:
    vit = ARCHITECTURES["vit"]
    chosen = [vit.defaults.model(vit.presets, situation(60_000, steps))["preset"] for steps in (0, 2_000, 20_000, None)]
    assert chosen == ["tiny", "tiny", "small", "small"]
    assert [vit.defaults.epochs(situation(n)) for n in (60_000, 500, 50)] == [20, 200, 200]
