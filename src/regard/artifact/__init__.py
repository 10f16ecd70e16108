"""The model directory: the result of training, which can be copied anywhere.

    config.json         architecture, its configuration, the version of the format
    model.safetensors   the weights
    tokenizer.model     or source.model and target.model, if the sides have their own vocabularies
    ctranslate2/        the weights in the format of CTranslate2
    README.md           the model card
    manifest.json       size and SHA-256 of each file

A model directory may come from an untrusted source. Nothing in it is executed or unpickled, and inconsistent files are
refused before memory is allocated for them. Names are imported on first use: `describe` does not load torch.
"""

from typing import TYPE_CHECKING

from regard.lazy import lazy_names

if TYPE_CHECKING:
    from regard.artifact.directory import Description as Description
    from regard.artifact.directory import describe as describe
    from regard.artifact.directory import max_length as max_length
    from regard.artifact.directory import search_options as search_options
    from regard.artifact.model import LoadedModel as LoadedModel
    from regard.artifact.model import load_described as load_described
    from regard.artifact.model import load_model as load_model
    from regard.artifact.model import model_spec as model_spec
    from regard.artifact.model import save_model as save_model
else:
    _NAMES = {
        "directory": ["Description", "describe", "max_length", "search_options"],
        "model": ["LoadedModel", "load_described", "load_model", "model_spec", "save_model"],
    }
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
