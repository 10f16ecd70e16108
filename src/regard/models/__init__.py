"""One file an architecture. CONTRIBUTING.md says what else to add with one."""

from regard.models.base import (
    Memory,
    State,
    TranslationModel,
    load_weights,
    named_weights,
    require_matching_tensor,
    require_matching_tensors,
    require_matching_weights,
    write_tensors,
)
from regard.models.transformer import PRESETS, Transformer, TransformerConfig

# architecture → (the model, its configuration)
MODELS = {"transformer": (Transformer, TransformerConfig)}

__all__ = [
    "MODELS",
    "PRESETS",
    "Memory",
    "State",
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
