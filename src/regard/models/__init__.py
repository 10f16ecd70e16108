"""Model architectures, one file each. CONTRIBUTING.md lists the steps to add another."""

from regard.models.architecture import ARCHITECTURES, Architecture, ModelSpec, Sizes
from regard.models.base import Model, ModelConfig, Term, TranslationModel
from regard.models.defaults import Defaults, Situation
from regard.models.sites import attention_sites, model_sites
from regard.models.transformer import PRESETS, Transformer, TransformerConfig
from regard.models.weights import (
    load_weights,
    named_weights,
    require_matching_tensor,
    require_matching_tensors,
    require_matching_weights,
    write_tensors,
)

__all__ = [
    "ARCHITECTURES",
    "PRESETS",
    "Architecture",
    "Defaults",
    "Model",
    "ModelConfig",
    "ModelSpec",
    "Situation",
    "Sizes",
    "Term",
    "Transformer",
    "TransformerConfig",
    "TranslationModel",
    "attention_sites",
    "load_weights",
    "model_sites",
    "named_weights",
    "require_matching_tensor",
    "require_matching_tensors",
    "require_matching_weights",
    "write_tensors",
]
