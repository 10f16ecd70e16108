"""The model that a command uses: that of a run, or while it has none, its newest checkpoint."""

import sys
from pathlib import Path


def model_path(path: Path) -> Path:
    """The path itself, or a model directory with the newest checkpoint of a run without a model; says so on stderr."""
    from regard.loading import find_model

    directory, notice = find_model(path)
    if notice is not None:
        sys.stderr.write(f"{notice}\n")
    return directory
