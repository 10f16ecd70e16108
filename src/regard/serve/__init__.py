"""The HTTP service: dynamic batching, bounded queues, LibreTranslate's API, model internals, and the page.

Names are imported on first use, so that importing this package does not load FastAPI.
"""

from typing import TYPE_CHECKING

from regard.lazy import lazy_names

if TYPE_CHECKING:
    from regard.serve.app import create_app as create_app
    from regard.serve.http.keys import Keys as Keys
    from regard.serve.http.keys import read_keys as read_keys
    from regard.serve.http.server import run as run
    from regard.serve.models import ServedModel as ServedModel
    from regard.serve.models import load_models as load_models
    from regard.serve.service import Service as Service
    from regard.serve.settings import Settings as Settings
else:
    _NAMES = {
        "app": ["create_app"],
        "http.keys": ["Keys", "read_keys"],
        "http.server": ["run"],
        "models": ["ServedModel", "load_models"],
        "service": ["Service"],
        "settings": ["Settings"],
    }
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
