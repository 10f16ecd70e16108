"""Model directories of other tasks: with any sizes, with or without a vocabulary."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.artifact import describe, load_model, save_model
from regard.data import Batch
from regard.errors import ArtifactError
from regard.lens import Lens
from regard.models import (
    ARCHITECTURES,
    Architecture,
    Model,
    ModelConfig,
    ModelSpec,
    Term,
    TransformerConfig,
    named_weights,
)
from regard.nn import Trace
from regard.text import Tokenizer, TokenizerPair, train_tokenizer
from regard.translator import Translator


class Config(ModelConfig, frozen=True, extra="forbid"):
    d: int = 3

    @property
    def width(self) -> int:
        return self.d

    def describe(self) -> str:
        return f"one layer of {self.d}"


class Classifier(Model):
    """Has sizes that no tokenizer has."""

    def __init__(self, config: Config, n_classes: int = 2) -> None:
        super().__init__()
        self.config: Config = config
        self.out = nn.Linear(config.d, n_classes)
        self.pairs = nn.Parameter(torch.zeros(n_classes, n_classes, n_classes))

    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        return (Term("class", batch.inputs[0], self.out.weight, self.out.bias, batch.targets[0]),)


@pytest.fixture(autouse=True)
def architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Architecture({"sorting": Classifier}, Config, {"tiny": Config()})
    monkeypatch.setitem(ARCHITECTURES, "classifier", entry)


def save(path: Path, sizes: dict[str, int], assets: dict[str, bytes] | None = None) -> Path:
    """The weights are those of 2 classes."""
    spec = ModelSpec("sorting", "classifier", Config(), sizes)
    weights = named_weights(Classifier(Config(), 2))
    save_model(path, spec=spec, weights=weights, assets=assets or {}, facts={}, card="")
    return path


def vocabulary() -> TokenizerPair:
    tokenizer = Tokenizer(train_tokenizer(["one two three"] * 5, size=280))
    return TokenizerPair(tokenizer, tokenizer)


@pytest.mark.parametrize("sizes", [{"n_classes": 2}, {}])
def test_model_without_text_has_the_sizes_of_its_configuration(tmp_path: Path, sizes: dict[str, int]) -> None:
    loaded = load_model(save(tmp_path / "model", sizes))
    assert (loaded.task, loaded.config, loaded.model.out.out_features) == ("sorting", Config(), 2)
    assert describe(tmp_path / "model").sizes == sizes
    assert not describe(tmp_path / "model").has_tokenizers


def test_model_that_reads_text_needs_no_sizes_of_the_vocabulary(tmp_path: Path) -> None:
    tokenizers = vocabulary()
    loaded = load_model(save(tmp_path / "model", {"n_classes": 2}, assets=tokenizers.files()))
    assert loaded.tokenizers.source.to_bytes() == tokenizers.source.to_bytes()
    assert describe(tmp_path / "model").sizes == {"n_classes": 2}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("n_classes", [3, 10**6, 2**31 - 1])
def test_sizes_of_other_weights_are_refused_before_memory_is_allocated(
    tmp_path: Path, n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "model", {"n_classes": n_classes})
    build = nn.Linear.__init__

    def without_memory(*args: Any, **kwargs: Any) -> None:
        assert torch.empty(0).device.type == "meta"
        build(*args, **kwargs)

    monkeypatch.setattr(nn.Linear, "__init__", without_memory)
    with pytest.raises(ArtifactError) as error:
        load_model(path)
    assert "\n" not in str(error.value)
    assert error.value.message.startswith(str(path))


def test_asset_is_read_within_its_limit(tmp_path: Path) -> None:
    described = describe(save(tmp_path / "model", {}, assets={"labels.json": b"[1]"}))
    assert described.read_asset("labels.json", 100) == b"[1]"
    with pytest.raises(ArtifactError, match=r"labels\.json"):
        described.read_asset("labels.json", 2)
    for name in ("classes.json", "../model/labels.json", "manifest.json"):
        with pytest.raises(ArtifactError, match="is missing; hint: copy"):
            described.read_asset(name, 100)


@pytest.mark.parametrize("load", [load_model, Translator.load, Lens.load])
def test_translator_without_a_vocabulary_is_refused(tmp_path: Path, load: Any) -> None:
    config = TransformerConfig(d_model=16, d_ff=16, n_heads=2, n_encoder_layers=1, n_decoder_layers=1)
    spec = ModelSpec("translation", "transformer", config, vocabulary().sizes)
    save_model(tmp_path / "m", spec=spec, weights=named_weights(spec.build()), assets={}, facts={}, card="")
    with pytest.raises(ArtifactError, match=r"tokenizer\.model is missing"):
        load(tmp_path / "m")
