"""Tasks, one folder or file each: what a model is trained for. CONTRIBUTING.md lists the steps to add another.

Names are imported on first use: `load` loads no torch for a translator that runs on CTranslate2.
"""

from typing import TYPE_CHECKING

from regard.lazy import lazy_names

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
else:
    _NAMES = {
        "predictors": ["load", "load_predictor"],
        "registry": ["TASKS"],
        "task": ["Data", "Evaluation", "Examined", "Inherited", "OnProgress", "Prediction", "Predictor", "Raw", "Task"],
    }
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
