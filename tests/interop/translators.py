"""Small translators of ours with random weights, as model directories."""

from pathlib import Path
from typing import Any

import torch

from regard.artifact import save_model
from regard.demo.street.corpus import generate
from regard.models import ModelSpec, TransformerConfig, named_weights
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

PAIRS = generate(600, seed=4)
LANGUAGES = {"source": "en", "targets": ["de"]}
SIZES: dict[str, Any] = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 32, "d_ff": 48, "n_heads": 4}


def make_tokenizers(joint: bool = True, **options: Any) -> TokenizerPair:
    sources, targets = [pair.source for pair in PAIRS], [pair.target for pair in PAIRS]
    if joint:
        tokenizer = Tokenizer(train_tokenizer(sources + targets, size=400, **options))
        return TokenizerPair(tokenizer, tokenizer)
    return TokenizerPair(Tokenizer(train_tokenizer(sources, size=380)), Tokenizer(train_tokenizer(targets, size=400)))


def write_translator(
    directory: Path, tokenizers: TokenizerPair, facts: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """A model in which every tensor matters."""
    config = TransformerConfig(**(SIZES | {"norm": "pre", "output_bias": True} | changes))
    spec = ModelSpec("translation", "transformer", config, tokenizers.sizes)
    torch.manual_seed(7)
    model = spec.build()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.5 if "embedding" in name else 0.2
            parameter.add_(scale * torch.randn_like(parameter))
        if model.bias is not None:
            model.bias[:3] = -1e4  # padding, unknown and begin are never produced, as after a training
            model.bias[3] += 2.0  # translations end
    save_model(
        directory,
        spec=spec,
        weights=named_weights(model),
        assets=tokenizers.files(),
        facts={"languages": LANGUAGES, "max_length": 100} if facts is None else facts,
        card="# A translator\n\n- data: licence CC0\n\n`config.json` has the architecture\n\n    regard translate x\n",
    )
    return directory
