"""Recipes and runs: the package that connects data, text, model and training."""

from regard.run.callbacks import Callbacks
from regard.run.recipe import Recipe, merge, parse_setting, read_recipe
from regard.run.train import require_run_directory, train
from regard.tasks import Raw
from regard.training import follow_torchrun, open_workers

__all__ = [
    "Callbacks",
    "Raw",
    "Recipe",
    "follow_torchrun",
    "merge",
    "open_workers",
    "parse_setting",
    "read_recipe",
    "require_run_directory",
    "train",
]
