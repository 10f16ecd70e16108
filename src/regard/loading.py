"""Loads the model of a run; while it has none, its newest checkpoint."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from regard.tasks import load as load_finished

if TYPE_CHECKING:
    from regard.tasks import Predictor


def load(path: str | Path) -> Predictor:
    """Load the model of a run or of a model directory: for a translator, a `Translator`.

    A run that has not finished gives its newest checkpoint, with a warning.
    """
    directory, notice = find_model(Path(path))
    if notice is not None:
        warnings.warn(notice, stacklevel=2)
    return load_finished(directory)


def find_model(path: Path) -> tuple[Path, str | None]:
    """The path itself, or a model directory with the newest checkpoint of a run without a model, and what to say."""
    has_model = any((directory / "config.json").exists() for directory in (path, path / "model"))
    if has_model or not (path / "recipe.toml").exists():
        return path, None
    from regard.run.unfinished import newest_model

    newest = newest_model(path)
    if newest is None:
        return path, None
    directory, step = newest
    return directory, f"{path} has not finished training: this is its checkpoint after step {step:,}"
