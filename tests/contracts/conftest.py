"""Every architecture in ARCHITECTURES, in sizes that a test can train. A new architecture adds an entry to CONFIGS."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from regard.models import ARCHITECTURES, ModelSpec
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

VOCAB, PAD_ID = 19, 0
_TRANSFORMER = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0}
_RECURRENT = {"d_model": 32, "dropout": 0.0}
_NEURAL_GPU = {"d_model": 24, "n_layers": 1, "dropout": 0.0}

# architecture → configs of translators to test
CONFIGS: dict[str, list[dict[str, Any]]] = {
    "transformer": [
        _TRANSFORMER,
        _TRANSFORMER | {"norm": "pre", "activation": "swiglu", "tie": "none"},
        _TRANSFORMER | {"positions": "learned", "max_positions": 64, "attention": "additive", "tie": "target"},
        _TRANSFORMER | {"activation": "silu", "output_bias": True},
    ],
    "rnn": [
        _RECURRENT | {"attention": "none", "bidirectional": False},
        _RECURRENT | {"attention": "dot"},
    ],
    "lstm": [
        _RECURRENT | {"attention": "none"},
        _RECURRENT | {"attention": "additive", "n_layers": 2},
        _RECURRENT | {"attention": "general", "input_feeding": True, "tie": "none"},
    ],
    "gru": [
        _RECURRENT | {"attention": "additive", "bidirectional": False},
        _RECURRENT | {"attention": "dot", "input_feeding": True, "n_layers": 2},
        _RECURRENT | {"attention": "general", "tie": "target"},
    ],
    "convs2s": [
        {"d_model": 32, "n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.0},
        {"d_model": 32, "n_encoder_layers": 1, "n_decoder_layers": 1, "kernel": 4, "dropout": 0.0, "tie": "none"},
    ],
    "bytenet": [
        {"d_model": 32, "dropout": 0.0, "n_sets": 1, "n_dilations": 3},
        {"d_model": 32, "dropout": 0.0, "n_dilations": 1, "kernel": 4, "unfold_ratio": 1.0, "tie": "none"},
    ],
    "neural-gpu": [  # only the extended form: the plain one ignores the target (tests/models/test_neural_gpu.py)
        _NEURAL_GPU,
        _NEURAL_GPU | {"n_rows": 2, "n_sets": 2, "tie": "none"},
    ],
}
_ENCODER = {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0}

# architecture → configs of classifiers to test
CLASSIFIERS: dict[str, list[dict[str, Any]]] = {
    "encoder": [
        _ENCODER,
        _ENCODER | {"norm": "post", "positions": "learned", "max_positions": 64, "pooling": "first"},
        _ENCODER | {"positions": "none", "pooling": "max", "activation": "gelu"},
    ],
    "bert": [_ENCODER, _ENCODER | {"next_sentence": False, "d_embedding": 16}],
    "electra": [_ENCODER | {"d_embedding": 16}],
    "xlnet": [_ENCODER],
    "rnn": [_RECURRENT | {"attention": "none", "bidirectional": False}],
    "lstm": [_RECURRENT | {"attention": "additive", "n_layers": 2}, _RECURRENT | {"attention": "none"}],
    "gru": [_RECURRENT | {"attention": "additive"}],
}
_LANGUAGE = {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0}
_READER = _RECURRENT | {"attention": "none", "bidirectional": False, "reverse": False}

# architecture → configs of language models to test
LANGUAGE_MODELS: dict[str, list[dict[str, Any]]] = {
    "language": [
        _LANGUAGE,
        _LANGUAGE | {"norm": "post", "positions": "learned", "activation": "gelu", "tie": False},
        _LANGUAGE | {"pattern": "strided", "stride": 3},
        _LANGUAGE | {"pattern": "fixed", "stride": 4, "summary": 2},
    ],
    "transformer-xl": [
        _LANGUAGE | {"memory": 5},
        _LANGUAGE | {"memory": 20, "norm": "post", "activation": "swiglu", "tie": False},
    ],
    "rnn": [_READER],
    "lstm": [_READER | {"n_layers": 2}, _READER | {"tie": "none"}],
    "gru": [_READER],
}

# architecture → configs of encoders that are pre-trained
PRETRAINED: dict[str, list[dict[str, Any]]] = {
    "bert": [_ENCODER, _ENCODER | {"next_sentence": False, "d_embedding": 16}],
    "electra": [_ENCODER, _ENCODER | {"d_embedding": 16, "generator": 0.25}],
    "xlnet": [_ENCODER | {"memory": 5}, _ENCODER | {"memory": 0}],
}

# architecture → configs of classifiers of images
IMAGE_CLASSIFIERS: dict[str, list[dict[str, Any]]] = {
    "vit": [_ENCODER, _ENCODER | {"n_layers": 1, "patch": 6, "activation": "relu"}],
}
ModelMaker = Callable[..., nn.Module]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the fixture `entry` runs once per config of each architecture."""
    if "entry" in metafunc.fixturenames:
        of_module = {
            "test_every_classifier": CLASSIFIERS,
            "test_every_image_classifier": IMAGE_CLASSIFIERS,
            "test_every_language_model": LANGUAGE_MODELS,
            "test_every_pretrained_encoder": PRETRAINED,
        }
        configs = of_module.get(metafunc.module.__name__.rpartition(".")[2], CONFIGS)
        entries = [(name, config) for name in ARCHITECTURES for config in configs.get(name, [])]
        ids = [f"{name}-{number}" for name in ARCHITECTURES for number in range(len(configs.get(name, [])))]
        metafunc.parametrize("entry", entries, ids=ids)


@pytest.fixture
def make_model(entry: tuple[str, dict[str, Any]]) -> ModelMaker:
    """Builds the model of the entry, with a seed and changes to its config."""
    config_type = ARCHITECTURES[entry[0]].config

    def make(seed: int = 1, n_symbols: int = VOCAB, **changes: Any) -> nn.Module:
        torch.manual_seed(seed)
        sizes = {"n_src_symbols": n_symbols, "n_tgt_symbols": n_symbols, "pad_id": PAD_ID}
        return ModelSpec("translation", entry[0], config_type(**(entry[1] | changes)), sizes).build()

    return make


@pytest.fixture(scope="session")
def tokenizers() -> TokenizerPair:
    """A vocabulary of 300 sub-words."""
    lines = ["the animal did not cross the street", "das Tier ging nicht über die Straße", "it was too tired"]
    tokenizer = Tokenizer(train_tokenizer(lines * 5, size=300))
    return TokenizerPair(tokenizer, tokenizer)
