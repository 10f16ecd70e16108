"""The whole demo: training time, and accuracy on sentences it has not seen.

python benchmarks/demo.py [--repeats 3]
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
GOALS = {"seconds": 75.0, "exact": 0.99, "pronouns": 0.99, "exact, new nouns": 0.97, "pronouns, new nouns": 0.97}


def demo(out: Path) -> dict[str, float]:
    """The figures of one run from the command line."""
    command = [sys.executable, "-m", "regard", "demo", "--no-serve", "--again", "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    report: dict[str, Any] = json.loads((out / "demo.json").read_text())
    events = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    finished = next(event for event in events if event["event"] == "finished")
    return {
        "seconds": finished["elapsed_seconds"],
        "exact": report["test"]["exact"],
        "pronouns": report["test"]["pronouns"],
        "exact, new nouns": report["unseen"]["exact"],
        "pronouns, new nouns": report["unseen"]["pronouns"],
        "best head on the right noun": report["head"]["right"],
        "best head on the other noun": report["head"]["wrong"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        runs = [demo(Path(directory) / f"demo-{number}") for number in range(args.repeats)]
    medians = {name: median(run[name] for run in runs) for name in runs[0]}
    passed = {
        name: medians[name] <= limit if name == "seconds" else medians[name] >= limit for name, limit in GOALS.items()
    }
    rows = [f"| {name} | {_format(name, value)} | {_goal(name)} |" for name, value in medians.items()]
    text = "\n".join([
        "# The demo",
        "",
        f"{date.today()}, {platform.machine()}: `python benchmarks/demo.py --repeats {args.repeats}`",
        "",
        "| figure | median | goal |",
        "|---|---|---|",
        *rows,
        "",
    ])  # fmt: skip
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "demo.md").write_text(text)
    print(text)
    sys.exit(not all(passed.values()))


def _format(name: str, value: float) -> str:
    return f"{value:.0f} s" if name == "seconds" else f"{value:.1%}"


def _goal(name: str) -> str:
    if name not in GOALS:
        return ""
    return f"≤ {GOALS[name]:.0f} s" if name == "seconds" else f"≥ {GOALS[name]:.0%}"


if __name__ == "__main__":
    main()
