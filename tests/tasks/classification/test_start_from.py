"""A classifier starts from a model of another task: its layers and vocabulary, but not what belongs to that task."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.artifact import load_model, save_model
from regard.errors import RecipeError
from regard.models import ARCHITECTURES, ModelSpec, named_weights
from regard.models.encoder import EncoderClassifier, EncoderConfig
from regard.run import Recipe, train
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

from ...labelled import labelled_texts, write_labelled

CONFIG = EncoderConfig(n_layers=1, d_model=16, d_ff=16, n_heads=2)


class WordPredictor(EncoderClassifier):
    """Has the layers of a classifier, and a head of its own."""

    def __init__(self, config: EncoderConfig, n_symbols: int, n_segments: int, pad_id: int) -> None:
        super().__init__(config, n_symbols, n_symbols, n_segments, pad_id)
        self.words_head = nn.Linear(config.d_model, n_symbols)


@pytest.fixture
def pretrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a model that predicts words."""
    encoder = ARCHITECTURES["encoder"]
    monkeypatch.setitem(
        ARCHITECTURES, "encoder", encoder._replace(models=encoder.models | {"pretraining": WordPredictor})
    )
    tokenizer = Tokenizer(train_tokenizer([text for _, text in labelled_texts(300, 1)], size=300))
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    torch.manual_seed(3)
    spec = ModelSpec("pretraining", "encoder", CONFIG, {"n_symbols": tokenizer.size, "n_segments": 2, "pad_id": 0})
    weights = named_weights(spec.build())
    save_model(tmp_path / "parent", spec=spec, weights=weights, assets=tokenizers.files(), facts={}, card="# Words\n")
    return tmp_path / "parent"


def tune(parent: Path, out: Path, **sections: Any) -> Path:
    data = {"train": [{"labels": str(write_labelled(out.with_suffix(".tsv"), 200))}]}
    training = {"steps": 4, "rate": 1e-9, "max_tokens": 256, "two_processes": "off"}
    raw = {"task": "classification", "start_from": str(parent), "data": data, "training": training}
    return train(raw | sections, out, fill_defaults=True)


def test_layers_and_vocabulary_are_the_parents(pretrained: Path, tmp_path: Path) -> None:
    model = load_model(tune(pretrained, tmp_path / "run"))
    parent = load_model(pretrained)
    assert model.tokenizers.source.to_bytes() == parent.tokenizers.source.to_bytes()
    assert model.model.output.weight.shape == (2, 16)  # new
    tuned, given = named_weights(model.model), named_weights(parent.model)
    assert not any(name.startswith("words_head") for name in tuned)
    for name in tuned.keys() - {"output.weight", "output.bias"}:
        torch.testing.assert_close(tuned[name], given[name], atol=1e-6, rtol=0)
    assert "segments.weight" in tuned  # the parent reads pairs; a single text is the first


def test_other_sizes_or_tasks_are_refused(pretrained: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"model\.d_model cannot be 32: it is 16 in the model to start from"):
        tune(pretrained, tmp_path / "run", model={"d_model": 32, "n_heads": 2})
    with pytest.raises(RecipeError, match=r"text\.vocabulary cannot be 280"):
        tune(pretrained, tmp_path / "run", text={"vocabulary": 280})
    golden = Path(__file__).parents[2] / "golden" / "model"
    with pytest.raises(RecipeError, match="is a model for translation, not for classification"):
        tune(golden, tmp_path / "run")


def test_lower_layers_learn_more_slowly(pretrained: Path, tmp_path: Path) -> None:
    tune(pretrained, tmp_path / "run")
    recipe = Recipe.build(tomllib.loads((tmp_path / "run" / "recipe.toml").read_text()))
    assert recipe.training.rate_factors == {"words": 0.64, "encoder.0": 0.8}
