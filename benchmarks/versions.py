"""Two checkouts of Regard in alternation on one machine: did a change make training or translating slower?

    python benchmarks/versions.py --before DIR --after DIR --data DIR --model RUN [--pairs 7]

Each checkout has its own `.venv` (`make test` creates it) and runs its own `benchmarks/train_speed.py` and
`regard translate`; --data has train.en and train.de as Multi30k has them, and --model is a run that both can load.
Every measurement runs in a process of its own, before and after in turns. The figure is the median of the ratios
after/before (1.02 means 2% faster), with the smallest and the largest ratio: for seven pairs that is a 98% interval
of the median.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from train_speed import N_SYMBOLS, REGARD_ENVIRONMENT, SHAPES, read, write_batches

RESULTS = Path(__file__).parent / "results" / "versions.md"


def python_of(checkout: Path) -> str:
    return str(checkout / ".venv" / "bin" / "python")


def training_speed(checkout: Path, shape_file: Path, batches_file: Path, n_steps: int) -> float:
    """Target tokens per second of the checkout's training step."""
    script = checkout / "benchmarks" / "train_speed.py"
    command = [python_of(checkout), str(script), "--ours", str(shape_file), str(batches_file), str(n_steps)]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | REGARD_ENVIRONMENT)
    return float(json.loads(result.stdout.splitlines()[-1])["tokens_per_second"])


def translation_speed(checkout: Path, model: Path, source: Path, out: Path, *flags: str) -> float:
    """Lines per second of the whole command `regard translate`: start, read, translate, write."""
    command = [python_of(checkout), "-m", "regard", "translate", str(model), str(source), "--out", str(out), *flags]
    started_at = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return len(source.read_bytes().splitlines()) / (time.perf_counter() - started_at)


def start_up_speed(checkout: Path, *arguments: str) -> float:
    """Runs per second of a Python command: 1 / seconds, so that higher is better here too."""
    started_at = time.perf_counter()
    subprocess.run([python_of(checkout), *arguments], check=True, capture_output=True)
    return 1 / (time.perf_counter() - started_at)


def measurements(folder: Path, args: argparse.Namespace) -> dict[str, Callable[[Path], float]]:
    """By name, what measures one checkout once."""
    corpus, tokenizer = read(args.data)
    write_batches(corpus, tokenizer, folder, args.steps)
    lines = (args.data / "train.en").read_text().split("\n")
    many, few = folder / "many.txt", folder / "few.txt"
    many.write_text("".join(f"{line}\n" for line in lines[: args.lines]))
    few.write_text("".join(f"{line}\n" for line in lines[: args.lines // 10]))
    table: dict[str, Callable[[Path], float]] = {}
    for name, shape in SHAPES.items():
        shape_file = folder / f"{name}.json"
        shape_file.write_text(json.dumps(shape | {"n_symbols": N_SYMBOLS, "n_threads": args.threads}))
        table[f"training {name}, tokens/s"] = lambda checkout, shape_file=shape_file: training_speed(
            checkout, shape_file, folder / "batches.npz", args.steps
        )
    for name, source, flags in (
        ("translating, beam 4, lines/s", many, ("--beam", "4")),
        ("translating, beam 1, lines/s", many, ("--beam", "1")),
        ("translating, torch engine, lines/s", few, ("--engine", "torch")),
    ):
        table[name] = lambda checkout, source=source, flags=flags: translation_speed(
            checkout, args.model, source, folder / "out.txt", *flags
        )
    table["import regard, per second"] = lambda checkout: start_up_speed(checkout, "-c", "import regard")
    table["regard --help, per second"] = lambda checkout: start_up_speed(checkout, "-m", "regard", "--help")
    return table


def compare(name: str, measure: Callable[[Path], float], args: argparse.Namespace) -> str:
    """One row of the table: the checkouts in turns, after one unmeasured run of each."""
    for checkout in (args.before, args.after):
        measure(checkout)
    speeds = [(measure(args.before), measure(args.after)) for _ in range(args.pairs)]
    ratios = [after / before for before, after in speeds]
    before, after = (statistics.median(column) for column in zip(*speeds, strict=True))
    interval = f"{min(ratios):.3f} to {max(ratios):.3f}"
    row = f"| {name} | {before:,.1f} | {after:,.1f} | {statistics.median(ratios):.3f} | {interval} |"
    print(row, file=sys.stderr)
    return row


def commit_of(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, required=True, help="checkout of the older version")
    parser.add_argument("--after", type=Path, required=True, help="checkout of the newer version")
    parser.add_argument("--data", type=Path, required=True, help="folder with train.en and train.de")
    parser.add_argument("--model", type=Path, required=True, help="run or model directory that both versions can load")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20, help="training steps per measurement")
    parser.add_argument("--lines", type=int, default=10_000, help="lines to translate (torch: a tenth)")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    rows = ["| measurement | before | after | median ratio | interval |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        for title, measure in measurements(Path(name), args).items():
            rows.append(compare(title, measure, args))
    command = f"python benchmarks/versions.py --pairs {args.pairs} --steps {args.steps} --lines {args.lines}"
    heading = f"{date.today()}, {commit_of(args.before)} beside {commit_of(args.after)}: `{command}`"
    text = "\n".join(["# Two versions beside each other", "", heading, "", *rows, ""])
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
