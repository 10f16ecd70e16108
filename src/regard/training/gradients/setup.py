"""Everything that another process needs to build the same model."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from regard.models import ARCHITECTURES, Model, ModelSpec
from regard.training.config import TrainingConfig
from regard.training.onednn import MATMUL


def setup_message(config: TrainingConfig, spec: ModelSpec, model: Model, n_threads: int) -> dict[str, Any]:
    """As JSON values."""
    return {
        "module": type(model).__module__,
        "task": spec.task,
        "architecture": spec.architecture,
        "model": spec.config.model_dump(mode="json"),
        "sizes": dict(spec.sizes),
        "training": config.model_dump(mode="json"),
        "n_threads": n_threads,
        "fp32_precision": MATMUL.fp32_precision,  # as set by fast_matmul
    }


def spec_of(setup: dict[str, Any]) -> ModelSpec:
    """The model of the other process. Importing the module that defines it also registers its architecture."""
    import_module(setup["module"])  # named by that process, never by a file
    config = ARCHITECTURES[setup["architecture"]].config.model_validate(setup["model"])
    return ModelSpec(setup["task"], setup["architecture"], config, setup["sizes"])
