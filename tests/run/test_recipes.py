"""Every shipped recipe is valid; those of the paper have its values, and train."""

import tomllib
from pathlib import Path

import pytest

from regard.run import Callbacks, Recipe, merge, train

from ..digits import write_digits

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
WMT = [path for path in RECIPES if path.stem.startswith("wmt14")]
# only sizes that need a larger machine are reduced
NARROW = {
    "text": {"vocabulary": 290},
    "model": {"d_model": 32, "d_ff": 64, "n_heads": 4},
    "training": {"steps": 20, "max_tokens": 200, "save_every": 10, "validate_every": 20, "translated": 2},
}


def name(path: Path) -> str:
    return path.stem


def build(path: Path) -> Recipe:
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    files = {"classification": {"labels": "train.tsv"}, "images": {"images": "mnist.npz"}} | dict.fromkeys(
        ("pretraining", "answering", "language"), "x.txt"
    )
    train = files.get(raw.get("task", ""), {"source": "train.en", "target": "train.de"})
    return Recipe.build(merge({"data": {"train": [train]}}, raw))


@pytest.mark.parametrize("path", RECIPES, ids=name)
def test_recipe_is_valid_and_short(path: Path) -> None:
    build(path)
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40


def test_there_are_recipes_for_two_cores() -> None:
    names = {path.stem for path in RECIPES} - {path.stem for path in WMT}
    assert names >= {"en-ko", "multi30k-en-de", "multi30k-en-fr", "tatoeba-en-de"}


def test_there_are_recipes_for_the_paper() -> None:
    assert [path.stem for path in WMT] == ["wmt14-en-de-base", "wmt14-en-de-big", "wmt14-en-fr-big"]


@pytest.mark.parametrize(
    ("stem", "shape", "dropout", "steps", "average", "vocabulary"),
    [
        ("wmt14-en-de-base", (6, 512, 2048, 8), 0.1, 100_000, 5, 37_000),
        ("wmt14-en-de-big", (6, 1024, 4096, 16), 0.3, 300_000, 20, 37_000),
        ("wmt14-en-fr-big", (6, 1024, 4096, 16), 0.1, 300_000, 20, 32_000),
    ],
)
def test_paper_recipes_have_the_values_of_the_paper(
    stem: str, shape: tuple[int, ...], dropout: float, steps: int, average: int, vocabulary: int
) -> None:
    recipe = build(next(path for path in WMT if path.stem == stem))
    model, training = recipe.model, recipe.training
    assert (model.n_encoder_layers, model.d_model, model.d_ff, model.n_heads) == shape
    assert model.n_decoder_layers == model.n_encoder_layers and model.norm == "post" and model.tie == "all"
    assert (model.dropout, training.steps, training.average, recipe.text.vocabulary) == (
        dropout, steps, average, vocabulary,
    )  # fmt: skip
    assert (training.beta1, training.beta2, training.epsilon) == (0.9, 0.98, 1e-9)
    assert (training.schedule, training.warmup, training.rate, training.smoothing) == ("noam", 4000, None, 0.1)
    assert training.max_tokens == 25_000


class Losses(Callbacks):
    """Records the loss of every step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_event(self, event: str, **fields: float) -> None:
        if event == "step":
            self.losses.append(fields["loss"])


@pytest.mark.parametrize("path", WMT, ids=name)
def test_paper_recipes_train_for_twenty_steps(path: Path, tmp_path: Path) -> None:
    source, target = write_digits(tmp_path, 300, seed=1)
    raw = merge(
        tomllib.loads(path.read_text(encoding="utf-8")),
        {"data": {"train": [{"source": str(source), "target": str(target)}]}},
        NARROW,
    )
    recorded = Losses()
    train(raw, tmp_path / "run", callbacks=recorded)
    # the learning rate is still tiny at the start of the warm-up, so the loss hardly changes
    assert len(recorded.losses) == 20 and all(0 < loss < 10 for loss in recorded.losses)
