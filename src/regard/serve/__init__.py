"""The HTTP service: dynamic batching, bounded queues, LibreTranslate's API, model internals, and the page.

Names are imported on first use, so that importing this package does not load FastAPI.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.serve.app import create_app as create_app
    from regard.serve.http.keys import Keys as Keys
    from regard.serve.http.keys import read_keys as read_keys
    from regard.serve.http.server import run as run
    from regard.serve.models import ServedModel as ServedModel
    from regard.serve.models import load_models as load_models
    from regard.serve.service import Service as Service
    from regard.serve.settings import Settings as Settings

_MODULES = {
    "Keys": "http.keys",
    "ServedModel": "models",
    "Service": "service",
    "Settings": "settings",
    "create_app": "app",
    "load_models": "models",
    "read_keys": "http.keys",
    "run": "http.server",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"regard.serve.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
