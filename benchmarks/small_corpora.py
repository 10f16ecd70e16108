"""What a general model is worth to somebody with a small corpus: fine-tuning it, beside training from nothing.

    python benchmarks/small_corpora.py --general DIR --own DIR --languages en de --work runs/small
    python benchmarks/small_corpora.py … --pairs 1000 2000 --general-settings training.steps=4000 \\
        --settings training.steps=1500            # a fixed number of steps, which a busy machine does not change

DIR has train.LANGUAGE and val.LANGUAGE; that of --own also has the test set. The general model is trained for
--general-budget on --general, exported to Hugging Face, and imported again, as a stranger's model would be. Then for
each number of pairs of --own: from nothing for --budget, and fine-tuned for the same time. Everything is scored on the
same test set, with the significance of the difference by paired randomisation. Writes results/small_corpora.md.

Runs are kept in --work, and the same command resumes: a killed run goes on, a finished one is not repeated.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from quality import cpu, read_run, train_command

RESULTS = Path(__file__).parent / "results" / "small_corpora.md"
PAIRS = (1_000, 2_000, 5_000, 10_000, 29_000)


class Row(NamedTuple):
    """Test BLEU by one number of pairs."""

    pairs: int
    nothing: float
    tuned: float
    p: float  # of the difference between both
    p_general: float  # of the difference between the fine-tuned and the general model


def regard(*arguments: str | Path) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train(command: Sequence[str], run: Path) -> Path:
    """The finished run; progress is on stderr."""
    if not (run / "model" / "config.json").exists():
        print(f"training {run.name}", file=sys.stderr)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return run


def how_long(budget: str, settings: Sequence[str]) -> list[str]:
    """A budget, unless the settings fix the number of steps."""
    fixed = any(setting.startswith("training.steps=") for setting in settings)
    return [word for setting in settings for word in ("--set", setting)] + ([] if fixed else ["--budget", budget])


def general_model(args: argparse.Namespace) -> Path:
    """Trained, exported, and imported again."""
    run, exported, imported = (args.work / name for name in ("general", "general-huggingface", "general-imported"))
    command = train_command(args.general, args.languages, run, [])
    train([*command, *how_long(args.general_budget, args.general_settings)], run)
    if not exported.exists():
        regard("export", run, "--to", "huggingface", "--out", exported)
    if not imported.exists():
        regard("import", exported, "--out", imported)
    return imported


def first_pairs(args: argparse.Namespace, n: int) -> Path:
    """A directory with the first n training pairs, and links to the validation text."""
    directory: Path = args.work / f"text-{n}"
    directory.mkdir(exist_ok=True)
    for language in args.languages:
        with (args.own / f"train.{language}").open(encoding="utf-8", newline="\n") as file:
            (directory / f"train.{language}").write_text("".join(islice(file, n)), encoding="utf-8", newline="\n")
        (directory / f"val.{language}").write_bytes((args.own / f"val.{language}").read_bytes())
    return directory


def bleu(args: argparse.Namespace, before: Path, after: Path) -> dict[str, Any]:
    """BLEU of both on the test set, and p."""
    source, target = (args.own / f"{args.test}.{language}" for language in args.languages)
    report = json.loads(regard("compare", before, after, "--source", source, "--reference", target, "--json"))
    (change,) = (change for change in report["changes"] if change["name"] == "BLEU")
    return dict(change)


def measure(args: argparse.Namespace, general: Path, n: int) -> Row:
    """One row; its result is kept beside the runs."""
    kept = args.work / f"row-{n}.json"
    if kept.exists():
        return Row(**json.loads(kept.read_text()))
    text, time = first_pairs(args, n), how_long(args.budget, args.settings)
    nothing, tuned = args.work / f"nothing-{n}", args.work / f"tuned-{n}"
    train([*train_command(text, args.languages, nothing, []), *time], nothing)
    keep = ["--keep", str(args.keep)] if args.keep else []
    train([*train_command(text, args.languages, tuned, []), "--from", str(general), *keep, *time], tuned)
    change, forgotten = bleu(args, nothing, tuned), bleu(args, general, tuned)
    row = Row(n, change["a"], change["b"], change["p_randomization"], forgotten["p_randomization"])
    kept.write_text(json.dumps(row._asdict()))
    return row


def write_results(args: argparse.Namespace, general: Path, rows: Sequence[Row]) -> None:
    """The table so far."""
    unchanged = bleu(args, general, args.work / f"tuned-{rows[0].pairs}")["a"]
    recipe, _, finished = read_run(args.work / "general")
    table = "".join(
        f"| {row.pairs:,} | {row.nothing:.1f} | {row.tuned:.1f} | {row.tuned - row.nothing:+.1f} | {row.p:.4f} "
        f"| {row.tuned - unchanged:+.1f} | {row.p_general:.4f} |\n"
        for row in rows
    )
    arguments = " ".join(Path(word).name for word in sys.argv[1:])
    RESULTS.write_text(
        f"""# Small corpora: from nothing, and fine-tuned

{date.today()}, {cpu(recipe["training"]["precision"])}: `python benchmarks/small_corpora.py {arguments}`

General model: {args.general.name}, {finished["steps"]:,} steps in {finished["elapsed_seconds"] / 60:.0f} minutes,
exported to Hugging Face and imported again. Without fine-tuning it has {unchanged:.1f} BLEU on {args.test} of
{args.own.name}.

| pairs | from nothing | fine-tuned | difference | p | over the general model | p |
|---|---|---|---|---|---|---|
{table}""",
        encoding="utf-8",
    )
    print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--general", type=Path, required=True, help="text of the general model")
    parser.add_argument("--own", type=Path, required=True, help="text of the small corpus")
    parser.add_argument("--languages", nargs=2, required=True)
    parser.add_argument("--work", type=Path, required=True, help="runs are kept here")
    parser.add_argument("--pairs", type=int, nargs="+", default=PAIRS)
    parser.add_argument("--general-budget", default="20m")
    parser.add_argument("--budget", default="10m", help="of every other training")
    parser.add_argument("--general-settings", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--settings", nargs="*", default=[], metavar="KEY=VALUE", help="of every other training")
    parser.add_argument("--keep", type=Path, help="general text that is mixed in while fine-tuning")
    parser.add_argument("--test", default="test_2016_flickr")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    general = general_model(args)
    rows: list[Row] = []
    for n in args.pairs:
        rows.append(measure(args, general, n))
        write_results(args, general, rows)


if __name__ == "__main__":
    main()
