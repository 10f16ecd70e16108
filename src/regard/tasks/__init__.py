"""Tasks, one folder or file each: what a model is trained for. CONTRIBUTING.md lists the steps to add another.

Names are imported on first use: `load` loads no torch for a translator that runs on CTranslate2.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.tasks.predictors import load as load
    from regard.tasks.predictors import load_predictor as load_predictor
    from regard.tasks.registry import TASKS as TASKS
    from regard.tasks.task import Data as Data
    from regard.tasks.task import Evaluation as Evaluation
    from regard.tasks.task import Examined as Examined
    from regard.tasks.task import Inherited as Inherited
    from regard.tasks.task import OnProgress as OnProgress
    from regard.tasks.task import Prediction as Prediction
    from regard.tasks.task import Predictor as Predictor
    from regard.tasks.task import Raw as Raw
    from regard.tasks.task import Task as Task

_MODULES = {
    "TASKS": "registry",
    "load": "predictors",
    "load_predictor": "predictors",
    **dict.fromkeys(
        ("Data", "Evaluation", "Examined", "Inherited", "OnProgress", "Prediction", "Predictor", "Raw", "Task"), "task"
    ),
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"regard.tasks.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
