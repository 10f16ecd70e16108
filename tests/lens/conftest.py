"""Small models with random weights to inspect: their translations are nonsense, their numbers are real."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.artifact import LoadedModel
from regard.lens.lens import Lens
from regard.lens.look import Look
from regard.models import Transformer, TransformerConfig
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

TEXT = [
    "the animal did not cross the street because it was too tired .",
    "das Tier überquerte die Straße nicht , weil es zu müde war .",
    "동물은 너무 피곤해서 길을 건너지 않았다 .",
    "one two three four five six seven eight nine ten",
]
SENTENCE = "the animal did not cross the street because it was too tired ."
SMALL: dict[str, Any] = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 32, "d_ff": 48, "n_heads": 4}

LensMaker = Callable[..., Lens]


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """A joint vocabulary."""
    return Tokenizer(train_tokenizer(TEXT * 5, size=420))


@pytest.fixture(scope="session")
def make_lens(tokenizer: Tokenizer) -> LensMaker:
    """Makes a lens on a random model. Biases and norms are random too, so that a test would notice a missing one.

    Such a model hardly ever produces the end token; `ends` raises its logit.
    """
    untagged = tokenizer

    def make(
        seed: int = 1,
        ends: float = 0.0,
        facts: dict[str, Any] | None = None,
        tags: tuple[str, ...] = (),
        **changes: Any,
    ) -> Lens:
        config = TransformerConfig(**(SMALL | changes))
        tokenizer = Tokenizer(train_tokenizer(TEXT * 5, size=420, tags=tags)) if tags else untagged
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = Transformer(config, tokenizer.size, tokenizer.size).eval()
            for name, parameter in model.named_parameters():
                if "norm" in name or name.endswith("bias"):
                    torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.3)
        with torch.no_grad():
            last = model.decoder_norm if config.norm == "pre" else model.decoder[-1].residuals[-1].norm
            model.output_weight[tokenizer.eos_id] += ends * last.bias
        facts = {"max_length": 40, "alignment_head": {"layer": 1, "head": 2}} if facts is None else facts
        return Lens(LoadedModel("transformer", config, model, TokenizerPair(tokenizer, tokenizer), facts), "nonsense")

    return make


@pytest.fixture(scope="session")
def lens(make_lens: LensMaker) -> Lens:
    return make_lens()


@pytest.fixture(scope="session")
def look(lens: Lens) -> Look:
    """One sentence with a given translation; some words have several pieces."""
    return lens.look(SENTENCE, "das Tier überquerte die Straße nicht")
