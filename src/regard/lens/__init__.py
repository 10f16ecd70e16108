"""Looks inside a model: text → trace → attention weights, pictures, JSON and HTML.

Names are imported on first use, because interventions, plots and HTML need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.lens.heads import HeadsTable as HeadsTable
    from regard.lens.interventions import Head as Head
    from regard.lens.interventions import Interventions as Interventions
    from regard.lens.lens import Lens as Lens
    from regard.lens.look import Look as Look

_MODULES = {
    "Head": "interventions",
    "HeadsTable": "heads",
    "Interventions": "interventions",
    "Lens": "lens",
    "Look": "look",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"regard.lens.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
