"""What a budget, or a recipe, buys: trains through the command line, and adds a row to results/quality.md.

    python benchmarks/quality.py --data DIR --languages en de --budget 20m [--test test_2016_flickr]
    python benchmarks/quality.py --data DIR --languages en de --recipe recipes/multi30k-en-de.toml
    python benchmarks/quality.py --data DIR --languages en de --budget 10m --set model.norm=post
    python benchmarks/quality.py --data DIR --languages en de --run RUN      # one that is trained already

DIR has train.LANGUAGE and val.LANGUAGE. Tune on val; look at a test set once a row.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "results" / "quality.md"
HEADING = """# What a time buys

By `python benchmarks/quality.py`, on two cores. sacreBLEU of raw text: BLEU cased / lower-cased, and chrF++; beam 4,
and the length penalty that the training chose. Minutes by the clock, of the whole command: vocabulary and validations
included.

| date | text | what | minutes | model | steps, passes | dropout | validation | test |
|---|---|---|---|---|---|---|---|---|
"""


def train_command(
    data: Path, languages: list[str], out: Path, settings: list[str], program: Sequence[str] = ("-m", "regard")
) -> list[str]:
    """As a person would type it."""
    command = [sys.executable, *program, "train", "--out", str(out)]
    for option, name in (("", "train"), ("valid-", "val")):
        for side, language in zip(("source", "target"), languages, strict=True):
            command += [f"--{option}{side}", str(data / f"{name}.{language}")]
    return command + [word for one in settings for word in ("--set", one)]


def evaluated(data: Path, languages: list[str], run: Path, name: str, *more: str) -> dict[str, float]:
    """The scores of a run on DIR/NAME, by their names."""
    source, target = (str(data / f"{name}.{language}") for language in languages)
    command = [sys.executable, "-m", "regard", "evaluate", str(run), "--source", source, "--reference", target]
    done = subprocess.run([*command, "--json", *more], check=True, stdout=subprocess.PIPE)
    return {one["name"]: one["value"] for one in json.loads(done.stdout)["scores"]}


def scores(args: argparse.Namespace, run: Path, name: str) -> str:
    """BLEU cased / lower-cased, and chrF++."""
    cased, lowered = (
        evaluated(args.data, args.languages, run, name, "--tokenize", args.tokenize, *more)
        for more in ([], ["--lowercase"])
    )
    return f"{cased['BLEU']:.1f} / {lowered['BLEU']:.1f}, chrF++ {cased['chrF++']:.1f}"


def story(run: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The recipe, the plan and the end, as the run tells them."""
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    found = {event["event"]: event for event in events}
    return tomllib.loads((run / "recipe.toml").read_text()), found["plan"], found["finished"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--budget")
    what.add_argument("--recipe", type=Path)
    what.add_argument("--run", type=Path)
    parser.add_argument(
        "--set", dest="settings", metavar="KEY=VALUE", action="append", default=[], help="a value of it"
    )
    parser.add_argument("--test", help="name of a test set in DIR")
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--out", type=Path, help="where to keep the run")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = args.run or args.out or Path(scratch) / "run"
        if not args.run:
            how = ["--budget", args.budget] if args.budget else ["--recipe", str(args.recipe)]
            command = train_command(args.data, args.languages, run, args.settings) + how
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # progress goes to the terminal
        row = row_of(args, run)
    PAGE.parent.mkdir(exist_ok=True)
    before = PAGE.read_text() if PAGE.exists() else HEADING
    PAGE.write_text(before + row + "\n")
    print(row)


def row_of(args: argparse.Namespace, run: Path) -> str:
    """One line of the table."""
    recipe, plan, finished = story(run)
    seconds = recipe["training"].get("budget_seconds")
    asked = f"--recipe {args.recipe.name}" if args.recipe else f"--budget {seconds / 60:.0f}m" if seconds else "run"
    asked = "`" + " ".join([asked, *(f"--set {one}" for one in args.settings)]) + "`"
    model = f"{plan['preset']}, {plan['n_parameters'] / 1e6:.1f}M, vocabulary {plan['vocabulary']:,}"
    length = f"{finished['steps']:,}, {finished['steps'] / plan['steps_an_epoch']:.1f}"
    test = f"{args.test}: {scores(args, run, args.test)}" if args.test else ""
    cells = [
        str(date.today()),
        f"{args.data.name} {args.languages[0]}→{args.languages[1]}",
        asked,
        f"{finished['elapsed_seconds'] / 60:.1f}",
        model,
        length,
        f"{recipe['model']['dropout']}",
        scores(args, run, "val"),
        test,
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
