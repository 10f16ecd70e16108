"""Recipe = data + text + model + training; the one place that wires the rooms."""

from regard.recipe.run import require_run_directory, train
from regard.recipe.schema import Raw, Recipe, merge, parse_setting, read_recipe
from regard.recipe.watch import Watcher

__all__ = ["Raw", "Recipe", "Watcher", "merge", "parse_setting", "read_recipe", "require_run_directory", "train"]
