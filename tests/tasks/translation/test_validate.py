"""The measures of a translation model on validation data."""

from math import exp
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.data import Batch, collate_pairs
from regard.models import Transformer, TransformerConfig
from regard.tasks.translation.task import Translation
from regard.training import TrainingConfig
from regard.training.validation import score_terms

CPU = torch.device("cpu")
PAIRS = [([4, 5, 6], [7, 8]), ([9], [10, 4, 5, 6, 7]), ([5, 5, 5, 5, 8], [9])]


def make_model() -> Transformer:
    torch.manual_seed(1)
    return Transformer(
        TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=16, n_heads=2), 11, 11
    )


def make_batches(max_tokens: int = 100) -> list[Batch]:
    return [collate_pairs(pairs, pad_id=0, bos_id=2, eos_id=3) for pairs in (PAIRS[:1], PAIRS[1:])]


def measured(model: Transformer) -> dict[str, float]:
    """Without translations."""
    data: Any = SimpleNamespace(validation_batches=make_batches)
    return dict(Translation().validate(model, data, TrainingConfig(translated=0), CPU).metrics)


def test_perplexity_is_the_exponential_of_the_loss() -> None:
    model = make_model()
    metrics, tokens = measured(model), score_terms(model, make_batches(), CPU)["tokens"]
    assert metrics == {"loss": tokens.loss, "perplexity": exp(tokens.loss), "accuracy": tokens.accuracy}


def test_uniform_model_has_the_perplexity_of_the_vocabulary_size() -> None:
    model = make_model()
    torch.nn.init.zeros_(model.output_weight)
    assert measured(model)["perplexity"] == pytest.approx(11)


def test_diverged_model_has_a_finite_perplexity() -> None:
    model = make_model()
    with torch.no_grad():
        model.output_weight.mul_(1e6)
    metrics = measured(model)
    assert metrics["loss"] > 1e4
    assert metrics["perplexity"] == exp(700)
