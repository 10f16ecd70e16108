"""Small Transformers with random weights, and batches of ids with padding."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.models import Transformer, TransformerConfig

VOCAB, PAD_ID = 23, 0
SMALL: dict[str, Any] = {"n_encoder_layers": 2, "n_decoder_layers": 3, "d_model": 16, "d_ff": 24, "n_heads": 4}
ModelMaker = Callable[..., Transformer]


@pytest.fixture
def make_model() -> ModelMaker:
    """Builds a model in eval mode. Biases and norms are random too, so that they matter in tests."""

    def make(seed: int = 1, **changes: Any) -> Transformer:
        torch.manual_seed(seed)
        model = Transformer(TransformerConfig(**(SMALL | changes)), VOCAB, VOCAB, PAD_ID)
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.3)
        return model.eval()

    return make


@pytest.fixture
def src() -> Tensor:
    """(3, 7): 7, 4 and 6 tokens, then padding."""
    return padded(7, [7, 4, 6], seed=1)


@pytest.fixture
def tgt() -> Tensor:
    """(3, 6): 6, 3 and 5 tokens, then padding."""
    return padded(6, [6, 3, 5], seed=2)


def padded(width: int, lengths: list[int], seed: int) -> Tensor:
    """(B, width): random ids, then padding."""
    ids = torch.randint(1, VOCAB, (len(lengths), width), generator=torch.Generator().manual_seed(seed))
    for row, length in enumerate(lengths):
        ids[row, length:] = PAD_ID
    return ids
