"""A small model with random weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.artifact import LoadedModel, save_model
from regard.engines.ctranslate2.convert import SUBDIRECTORY, convert
from regard.models import ModelSpec, Transformer, TransformerConfig, named_weights
from regard.text import Tokenizer, TokenizerPair, train_tokenizer
from regard.translator import Translator

TEXT = [
    "the animal did not cross the street because it was too tired .",
    "das Tier überquerte die Straße nicht , weil es zu müde war .",
    "동물은 너무 피곤해서 길을 건너지 않았다 .",
    "one two three four five six seven eight nine ten",
]
SHAPE: dict[str, Any] = {
    "d_model": 32, "d_ff": 64, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 2, "norm": "pre",
}  # fmt: skip


def write_model(
    directory: Path, *, seed: int = 1, max_length: int = 24, tags: Sequence[str] = (), **shape: Any
) -> Path:
    """Write a model directory with random weights, also converted for CTranslate2."""
    tokenizer = Tokenizer(train_tokenizer(TEXT * 5, size=400, tags=tags))
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    config = TransformerConfig(**(SHAPE | shape))
    torch.manual_seed(seed)
    model = Transformer(config, tokenizer.size, tokenizer.size).eval()
    facts = {"max_length": max_length, "alignment_head": {"layer": 1, "head": 1}}
    loaded = LoadedModel("transformer", config, model, tokenizers, facts)
    save_model(
        directory,
        spec=ModelSpec("translation", "transformer", config, tokenizers.sizes),
        weights=named_weights(model),
        assets=tokenizers.files(),
        facts=facts,
        card="nonsense",
        write_more=lambda aside: convert(loaded, aside / SUBDIRECTORY, "float32"),
    )
    return directory


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory for the whole session."""
    return write_model(tmp_path_factory.mktemp("nonsense") / "model")


@pytest.fixture(scope="session", params=["ctranslate2", "torch"])
def translator(request: pytest.FixtureRequest, model_path: Path) -> Translator:
    """A translator on each engine, in float32."""
    return Translator.load(model_path, engine=request.param, precision="float32", threads=1)
