"""Loads a model of any task, to predict with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from regard.artifact import Description, describe
from regard.errors import ArtifactError
from regard.translator import Translator

if TYPE_CHECKING:
    from regard.tasks.task import Predictor, Task

# predictors that may need no torch, while every Task does
_LIGHT: Mapping[str, Callable[[Description], Predictor]] = {Translator.task: Translator.load}


def load(path: str | Path) -> Predictor:
    """Load the model of a run or of a model directory: for a translator, a `Translator`."""
    return load_predictor(describe(path))


def load_predictor(described: Description) -> Predictor:
    """Load a model directory that has just been verified."""
    light = _LIGHT.get(described.task)
    return task_of(described).predictor(described) if light is None else light(described)


def task_of(described: Description) -> Task:  # type: ignore[type-arg]
    """The task of a model; raises ArtifactError if this version does not have it."""
    from regard.tasks.registry import TASKS

    if described.task not in TASKS:
        raise ArtifactError(
            f"{described.directory}: unknown task {described.task!r}",
            hint=f"this version of regard has: {', '.join(TASKS)}",
        )
    return TASKS[described.task]
