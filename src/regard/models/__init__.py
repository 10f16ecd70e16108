"""Model architectures, one file each. CONTRIBUTING.md lists the steps to add another."""

from regard.models.base import (
    TranslationModel,
    load_weights,
    named_weights,
    require_matching_tensor,
    require_matching_tensors,
    require_matching_weights,
    write_tensors,
)
from regard.models.transformer import PRESETS, Transformer, TransformerConfig

# name of the architecture → (model class, config class)
MODELS = {"transformer": (Transformer, TransformerConfig)}

__all__ = [
    "MODELS",
    "PRESETS",
    "Transformer",
    "TransformerConfig",
    "TranslationModel",
    "load_weights",
    "named_weights",
    "require_matching_tensor",
    "require_matching_tensors",
    "require_matching_weights",
    "write_tensors",
]
