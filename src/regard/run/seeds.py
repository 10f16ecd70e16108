"""The same recipe with several seeds: a run each, in `seed-1`, `seed-2` …, and what they have in common."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns
from statistics import mean, stdev
from typing import Any, NamedTuple

from regard.artifact import describe
from regard.durable import commit_directory, make_directory, write_file
from regard.durable.manifest import MANIFEST_NAME
from regard.errors import RecipeError, RunError
from regard.evaluate.significance import Interval, mean_interval
from regard.metrics import Measure, read_measures
from regard.run.recipe import Recipe, merge
from regard.tasks import Raw

SUMMARY_FILE, MODELS_FILE = "seeds.json", "models.json"


class Spread(NamedTuple):
    """A measure over several runs."""

    measure: Measure
    values: list[float]

    @property
    def interval(self) -> Interval:
        """95%, of the mean, by Student's t."""
        return mean_interval(self.values)

    def to_dict(self) -> dict[str, Any]:
        spread = {"mean": mean(self.values), "standard_deviation": stdev(self.values), "values": self.values}
        return spread | {"interval": [self.interval.low, self.interval.high]}

    def row(self) -> tuple[str, ...]:
        """For a table: label, mean, standard deviation, interval of the mean, lowest and highest."""
        show = self.measure.format
        interval = f"{show(self.interval.low)} – {show(self.interval.high)}"
        ends = f"{show(min(self.values))} – {show(max(self.values))}"
        return (self.measure.label, show(mean(self.values)), show(stdev(self.values)), interval, ends)


HEADER = ("measure", "mean", "deviation", "95% interval of the mean", "lowest – highest")


def seed_runs(recipe: Raw, out: Path, n: int) -> list[tuple[Path, Raw]]:
    """The run directory and the recipe of each seed, from that of the recipe on. A budget is for all of them."""
    if (out / "recipe.toml").exists():
        raise RunError(f"{out} is a run with one seed", hint="choose another directory for several")
    training = recipe.get("training", {})
    first, budget = training.get("seed", 1), training.get("budget_seconds")
    share = {} if budget is None else {"budget_seconds": budget / n}
    seeds = range(first, first + n)
    return [(out / f"seed-{seed}", merge(recipe, {"training": share | {"seed": seed}})) for seed in seeds]


def find_measure(recipe: Raw, name: str) -> Measure:
    """The measure of the recipe's task with this name; raises RecipeError if there is none."""
    measures = Recipe.build(recipe).measures
    for measure in measures:
        if measure.name == name.replace("-", "_"):
            return measure
    known = ", ".join(measure.name.replace("_", "-") for measure in measures)
    raise RecipeError(f"--best-by: there is no measure {name!r}", hint=f"use one of: {known}")


def finished_seeds(out: Path) -> list[Path]:
    """The runs that `write_summary` has written down; empty if `out` is no directory of seeds."""
    return _listed_runs(out / SUMMARY_FILE)


def _listed_runs(file: Path) -> list[Path]:
    try:
        names = json.loads(file.read_text(encoding="utf-8"))["runs"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [file.parent / str(name) for name in names]


def write_models(out: Path, runs: Sequence[Path]) -> None:
    """Writes down that `out` has a model for each of several files."""
    make_directory(out)
    write_file(out / MODELS_FILE, (json.dumps({"runs": [run.name for run in runs]}) + "\n").encode())


def separate_models(out: Path) -> list[Path]:
    """The runs that `write_models` has written down."""
    return _listed_runs(out / MODELS_FILE)


def keep_best(out: Path, runs: Sequence[Path], measure: Measure) -> Path:
    """Copies the best model to `out`, so that the directory can be used like a run; of equal ones, that with less loss.

    Returns its run.
    """

    def badness(run: Path) -> tuple[float, float]:
        facts = describe(run).facts
        value = float(facts[measure.name])
        return (-value if measure.higher_is_better else value), float(facts["loss"])

    best = min(runs, key=badness)
    source = describe(best).directory

    def write(temporary: Path) -> None:  # with a new manifest
        copytree(source, temporary, ignore=ignore_patterns(MANIFEST_NAME), dirs_exist_ok=True)

    commit_directory(out / "model", write)
    return best


def write_summary(out: Path, runs: Sequence[Path]) -> list[Spread]:
    """The measures of the models on their validation sets; also written to `seeds.json`."""
    facts = [describe(run).facts for run in runs]
    measures = [measure for measure in read_measures(*facts) if all(measure.name in each for each in facts)]
    spreads = [Spread(measure, [float(each[measure.name]) for each in facts]) for measure in measures]
    summary = {"runs": [run.name for run in runs], "validation": {s.measure.name: s.to_dict() for s in spreads}}
    make_directory(out)
    write_file(out / SUMMARY_FILE, (json.dumps(summary, indent=1) + "\n").encode())
    return spreads
