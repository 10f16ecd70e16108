"""Translation quality for a time budget or a recipe: trains from the command line, adds a row to results/quality.md.

    python benchmarks/quality.py --data DIR --languages en de --budget 20m [--test test_2016_flickr]
    python benchmarks/quality.py --data DIR --languages en de --recipe recipes/multi30k-en-de.toml
    python benchmarks/quality.py --data DIR --languages en de --budget 10m --set model.norm=post
    python benchmarks/quality.py --data DIR --languages en de --run RUN      # a run that is trained already
    python benchmarks/quality.py --data DIR --languages en de --budget 20m --plan FILE

The last one measures the speed of the machine, while nothing else uses it, and writes a recipe with as many steps as
the budget has time for. Trained with --recipe, it gives the same quality on a busy machine, however long it takes.

DIR has train.LANGUAGE and val.LANGUAGE. Tune on val; use a test set only once per row.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import tomli_w

RESULTS = Path(__file__).parent / "results" / "quality.md"


@dataclass(frozen=True)
class Experiment:
    """A corpus, and how it is evaluated."""

    data: Path
    languages: Sequence[str]
    tokenize: str = "13a"
    test: str | None = None

    def row(self, run: Path, arguments: str) -> str:
        """One row of the table for a finished run."""
        recipe, plan, finished = read_run(run)
        cells = [
            str(date.today()),
            cpu(recipe["training"]["precision"]),
            f"{self.data.name} {self.languages[0]}→{self.languages[1]}",
            arguments,
            f"{finished['elapsed_seconds'] / 60:.1f}",
            f"{plan['preset']}, {plan['n_parameters'] / 1e6:.1f}M, vocabulary {plan['vocabulary']:,}",
            f"{finished['steps']:,}, {finished['steps'] / plan['steps_an_epoch']:.1f}",
            f"{recipe['model']['dropout']}",
            self.scores(run, "val"),
            f"{self.test}: {self.scores(run, self.test)}" if self.test else "",
        ]
        return "| " + " | ".join(cells) + " |"

    def scores(self, run: Path, name: str) -> str:
        """BLEU cased / lower-cased, and chrF++."""
        cased, lowered = (
            evaluate(self.data, self.languages, run, name, "--tokenize", self.tokenize, *more)
            for more in ([], ["--lowercase"])
        )
        return f"{cased['BLEU']:.1f} / {lowered['BLEU']:.1f}, chrF++ {cased['chrF++']:.1f}"


def train_command(
    data: Path, languages: Sequence[str], out: Path, settings: list[str], program: Sequence[str] = ("-m", "regard")
) -> list[str]:
    """The command as a user would type it."""
    command = [sys.executable, *program, "train", "--out", str(out)]
    for option, name in (("", "train"), ("valid-", "val")):
        for side, language in zip(("source", "target"), languages, strict=True):
            command += [f"--{option}{side}", str(data / f"{name}.{language}")]
    return command + [word for setting in settings for word in ("--set", setting)]


def write_plan(command: Sequence[str], run: Path, file: Path) -> None:
    """Begins a training with a budget, stops it once it has been planned, and writes its recipe with fixed steps."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not (run / "recipe.toml").exists() and process.poll() is None:
        time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    process.wait()
    recipe = tomllib.loads((run / "recipe.toml").read_text())
    del recipe["training"]["budget_seconds"]
    file.write_text(tomli_w.dumps(recipe), encoding="utf-8")
    print(f"{file}: {recipe['training']['steps']:,} steps")


def evaluate(data: Path, languages: Sequence[str], run: Path, name: str, *more: str) -> dict[str, float]:
    """The scores of a run on DIR/NAME, by measure."""
    source, target = (str(data / f"{name}.{language}") for language in languages)
    command = [sys.executable, "-m", "regard", "evaluate", str(run), "--source", source, "--reference", target]
    process = subprocess.run([*command, "--json", *more], check=True, stdout=subprocess.PIPE)
    return {score["name"]: score["value"] for score in json.loads(process.stdout)["scores"]}


def read_run(run: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The recipe of a run, and the events "plan" and "finished" of its journal."""
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    last = {event["event"]: event for event in events}
    return tomllib.loads((run / "recipe.toml").read_text()), last["plan"], last["finished"]


def cpu(precision: str) -> str:
    """The vector instructions that PyTorch uses, and bfloat16 if the training used it."""
    import torch

    capability = torch.backends.cpu.get_cpu_capability().replace("AVX512", "AVX-512")
    return capability if precision == "float32" else f"{capability}, {precision}"


def add_row(row: str) -> None:
    RESULTS.write_text(RESULTS.read_text(encoding="utf-8") + row + "\n", encoding="utf-8")
    print(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--budget")
    what.add_argument("--recipe", type=Path)
    what.add_argument("--run", type=Path)
    parser.add_argument(
        "--set", dest="settings", metavar="KEY=VALUE", action="append", default=[], help="a value of the recipe"
    )
    parser.add_argument("--test", help="name of a test set in DIR")
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--out", type=Path, help="keep the run here")
    parser.add_argument("--plan", type=Path, help="with --budget: only write its recipe here")
    args = parser.parse_args()
    experiment = Experiment(args.data, args.languages, args.tokenize, args.test)
    with tempfile.TemporaryDirectory() as temporary:
        run = args.run or args.out or Path(temporary) / "run"
        if not args.run:
            how = ["--budget", args.budget] if args.budget else ["--recipe", str(args.recipe)]
            command = train_command(args.data, args.languages, run, args.settings) + how
            if args.plan:
                write_plan(command, run, args.plan)
                return
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # progress is on stderr
        add_row(experiment.row(run, arguments_of(args, run)))


def arguments_of(args: argparse.Namespace, run: Path) -> str:
    """The arguments that make this run differ from the default."""
    recipe, _, _ = read_run(run)
    seconds = recipe["training"].get("budget_seconds")
    if args.recipe:
        how = f"--recipe {args.recipe.name}"
    else:
        how = f"--budget {seconds / 60:.0f}m" if seconds else "run"
    return "`" + " ".join([how, *(f"--set {setting}" for setting in args.settings)]) + "`"


if __name__ == "__main__":
    main()
