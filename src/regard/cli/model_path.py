"""The model that a command uses: that of a run, or while it has none, its newest checkpoint."""

import sys
from pathlib import Path


def model_path(path: Path) -> Path:
    """The path itself, or a model directory with the newest checkpoint of a run without a model; says so on stderr."""
    has_model = any((directory / "config.json").exists() for directory in (path, path / "model"))
    if has_model or not (path / "recipe.toml").exists():
        return path
    from regard.run.unfinished import newest_model

    newest = newest_model(path)
    if newest is None:
        return path
    directory, step = newest
    sys.stderr.write(f"{path} has not finished training: this is its checkpoint after step {step:,}\n")
    return directory
