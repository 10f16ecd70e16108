"""The tasks by name."""

from typing import Any

from regard.tasks.answering.task import Answering
from regard.tasks.classification.task import ClassificationTask
from regard.tasks.images.task import ImageTask
from regard.tasks.language.task import LanguageTask
from regard.tasks.pretraining.task import PretrainingTask
from regard.tasks.task import Task
from regard.tasks.translation.task import Translation

# To add a task, add a line; read when a recipe is validated or a model is loaded, not at import.
TASKS: dict[str, Task[Any]] = {
    "translation": Translation(),
    "classification": ClassificationTask(),
    "language": LanguageTask(),
    "pretraining": PretrainingTask(),
    "answering": Answering(),
    "images": ImageTask(),
}
