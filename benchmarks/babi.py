"""Memory networks on the 20 bAbI tasks with 1,000 questions each, one model per task and one for all, beside the
published errors.

    python benchmarks/babi.py --babi DIR --work runs/babi --seeds 10

Trains by the command line with its defaults, several seeds per task, and keeps the model with the fewest errors on the
training text. Each job trains its share of the tasks in one process. Writes results/babi.md. Runs are kept, and the
same command resumes; then the duration in the results is only that of the rest.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

RESULTS = Path(__file__).parent / "results" / "babi.md"
GOAL_MEAN, GOAL_EASY, EASY = 0.15, 0.01, (1, 12, 15, 20)  # test errors
HOPS_FOR = (1, 2, 3)  # tasks whose supporting facts are compared with the hops
# Test errors in %, with 3 hops, position encoding, linear start and random times: of Sukhbaatar et al. (2015, Table 1),
# and of the authors' program run again (vinhkhuc/MemN2N-babi-python, bechmarks/README.md), for each task and jointly.
PAPER = (
    0.0, 8.3, 40.3, 2.8, 13.1, 7.6, 17.3, 10.0, 13.2, 15.1, 0.9, 0.2, 0.4, 1.7, 0.0, 1.3, 51.0, 11.1, 82.8, 0.0,
)  # fmt: skip
AGAIN = (
    0.1, 8.2, 41.8, 4.4, 13.7, 7.9, 20.3, 11.7, 13.6, 9.7, 0.7, 0.0, 0.3, 0.9, 0.0, 0.4, 51.0, 10.5, 81.4, 0.0,
)  # fmt: skip
AGAIN_JOINT = (
    0.0, 13.1, 23.4, 5.9, 12.9, 3.7, 22.9, 9.1, 2.7, 7.2, 0.8, 0.1, 0.1, 4.2, 0.0, 1.2, 43.6, 10.5, 86.7, 0.0,
)  # fmt: skip


def file_of(folder: Path, task: int, part: str) -> Path:
    [file] = folder.glob(f"qa{task}_*_{part}.txt")
    return file


def train_command(folder: Path, tasks: list[int], out: Path, seeds: int, *more: str) -> list[str]:
    stories = [option for task in tasks for option in ("--stories", str(file_of(folder, task, "train")))]
    repeat = ["--seeds", str(seeds), "--best-by", "training-error"] if seeds > 1 else []
    return [sys.executable, "-m", "regard", "train", *stories, *repeat, *more, "--out", str(out)]


def run_all(commands: list[list[str]]) -> float:
    """Runs commands side by side, each with one thread; returns the seconds."""
    started_at, environment = perf_counter(), os.environ | {"OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for command in commands]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit("a training failed")
    return perf_counter() - started_at


def evaluate(model: Path, files: list[Path]) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "regard", "evaluate", str(model), *map(str, files), "--json"]
    results = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    files_of_result: list[dict[str, Any]] = results["files"]
    return files_of_result


def separate(given: argparse.Namespace) -> tuple[dict[int, dict[str, Any]], float]:
    """The result of each task, with a model of its own, and the seconds for all."""
    shares = [given.tasks[job :: given.jobs] for job in range(min(given.jobs, len(given.tasks)))]
    outs = [given.work / f"separate-{job + 1}-of-{len(shares)}" for job in range(len(shares))]
    commands = [
        train_command(given.babi, share, out, given.seeds, "--separately")
        for share, out in zip(shares, outs, strict=True)
    ]
    seconds = run_all(commands)
    results = {}
    for share, out in zip(shares, outs, strict=True):
        tests = [file_of(given.babi, task, "test") for task in share]
        results |= dict(zip(share, evaluate(out, tests), strict=True))
    return results, seconds


def joint(given: argparse.Namespace) -> tuple[dict[int, dict[str, Any]], float]:
    """The result of each task, with one model for all, and the seconds."""
    seconds = run_all([train_command(given.babi, given.tasks, given.work / "joint", given.joint_seeds)])
    results = evaluate(given.work / "joint", [file_of(given.babi, task, "test") for task in given.tasks])
    return dict(zip(given.tasks, results, strict=True)), seconds


def interval(result: dict[str, Any]) -> str:
    low, high = result["interval"]
    return f"{100 * low:.1f}–{100 * high:.1f}"


def error_table(alone: dict[int, dict[str, Any]], together: dict[int, dict[str, Any]]) -> list[str]:
    heads = ["task", "regard", "95% interval", "paper", "authors' program again"]
    heads += ["regard, jointly", "95% interval", "authors' program again, jointly"] if together else []
    rows, sums = [heads, ["---"] * len(heads)], [0.0] * len(heads)
    for task in sorted(alone):
        ours, all_of = alone[task], together.get(task)
        cells = [str(task), 100 * ours["error"], interval(ours), PAPER[task - 1], AGAIN[task - 1]]
        cells += [100 * all_of["error"], interval(all_of), AGAIN_JOINT[task - 1]] if all_of else []
        sums = [total + (cell if isinstance(cell, float) else 0) for total, cell in zip(sums, cells, strict=True)]
        rows.append([f"{cell:.1f}" if isinstance(cell, float) else cell for cell in cells])
    means = [f"**{total / len(alone):.1f}**" if total else "" for total in sums]
    rows.append(["**mean**", *means[1:]])
    return [f"| {' | '.join(row)} |" for row in rows]


def hop_table(alone: dict[int, dict[str, Any]]) -> list[str]:
    """The share of the weight of every hop on supporting facts."""
    results = {task: alone[task] for task in HOPS_FOR if task in alone}
    n_hops = max((len(result["support_shares"]) for result in results.values()), default=0)
    rows = [["task", *(f"hop {i + 1}" for i in range(n_hops)), "all sentences alike", "error"]]
    rows.append(["---"] * len(rows[0]))
    for task, result in results.items():
        shares = [f"{share:.1%}" for share in (*result["support_shares"], result["support_chance"], result["error"])]
        rows.append([str(task), *shares])
    return [f"| {' | '.join(row)} |" for row in rows]


def goals(alone: dict[int, dict[str, Any]]) -> str:
    mean = sum(result["error"] for result in alone.values()) / len(alone)
    easy = [task for task in EASY if task in alone and alone[task]["error"] > GOAL_EASY]
    parts = [f"Mean {mean:.1%}, goal at most {GOAL_MEAN:.1%}: {'reached' if mean <= GOAL_MEAN else 'missed'}"]
    tasks = ", ".join(map(str, EASY))
    parts.append(f"tasks {tasks}: goal at most {GOAL_EASY:.0%}, {f'missed by {easy}' if easy else 'reached'}")
    return "; ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--babi", type=Path, required=True, help="folder with qa1_…_train.txt and so on")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--joint-seeds", type=int, default=0, help="of one model for all tasks; 0: none")
    parser.add_argument("--tasks", type=int, nargs="+", default=list(range(1, 21)))
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with one thread")
    parser.add_argument("--note", default="", help="the condition of the machine, for the results")
    given = parser.parse_args()
    alone, seconds = separate(given)
    together, joint_seconds = joint(given) if given.joint_seeds else ({}, 0.0)
    minutes = f"{seconds / 60:.0f} minutes for one model per task"
    minutes += f", {joint_seconds / 60:.0f} for one of all, {given.joint_seeds} seeds" if together else ""
    more = f" --joint-seeds {given.joint_seeds}" if together else ""
    lines = [
        "# Memory networks on bAbI\n",
        f"{datetime.now(UTC):%Y-%m-%d}. Python {platform.python_version()}, PyTorch {version('torch')}, "
        f"{given.jobs} processes with one thread each; {minutes}. {given.note}".rstrip(),
        f"Written by: `python benchmarks/babi.py --babi DIR --work DIR --seeds {given.seeds}{more}`\n",
        f"Test error in %, with 1,000 training questions per task and 3 hops; of {given.seeds} seeds the one with the "
        f"lowest training error. {goals(alone)}.\n",
        *error_table(alone, together),
        "\nThe share of the weight of every hop on the supporting facts that the test files name, and what it would be "
        "if all sentences had the same weight:\n",
        *hop_table(alone),
    ]
    text = "\n".join(lines) + "\n"
    RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
