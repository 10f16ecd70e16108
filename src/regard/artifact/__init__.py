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

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_MODULES = {
    "Description": "directory",
    "LoadedModel": "model",
    "describe": "directory",
    "load_described": "model",
    "load_model": "model",
    "max_length": "directory",
    "model_spec": "model",
    "save_model": "model",
    "search_options": "directory",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"regard.artifact.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
