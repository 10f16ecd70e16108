"""Recipe = data + text + model + training; the one place that wires the rooms."""

from regard.run.callbacks import Watcher
from regard.run.recipe import Raw, Recipe, merge, parse_setting, read_recipe
from regard.run.train import require_run_directory, train

__all__ = ["Raw", "Recipe", "Watcher", "merge", "parse_setting", "read_recipe", "require_run_directory", "train"]
