"""Tasks, one folder or file each: what a model is trained for. CONTRIBUTING.md lists the steps to add another."""

from regard.tasks.task import (
    Data,
    Evaluation,
    Examined,
    Inherited,
    OnProgress,
    Prediction,
    Predictor,
    Raw,
    Task,
)
from regard.tasks.translation.task import Translation

# To add a task, add a line; read when a recipe is validated or a model is loaded, not at import.
TASKS: dict[str, Task] = {"translation": Translation()}  # type: ignore[type-arg]

__all__ = [
    "TASKS",
    "Data",
    "Evaluation",
    "Examined",
    "Inherited",
    "OnProgress",
    "Prediction",
    "Predictor",
    "Raw",
    "Task",
]
