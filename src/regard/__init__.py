"""Regard trains a translator on two text files.

Public names are imported on first use, so that `import regard` does not load torch.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name → its module
_MODULES = {
    "Lens": "lens",
    "Recipe": "run",
    "RegardError": "errors",
    "Tokenizer": "text",
    "Translation": "translator",
    "Translator": "translator",
    "UserError": "errors",
    "load": "tasks",
    "load_model": "artifact",
    "train": "run",
}

__all__ = [
    "Lens",
    "Recipe",
    "RegardError",
    "Tokenizer",
    "Translation",
    "Translator",
    "UserError",
    "load",
    "load_model",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(import_module(f"regard.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
