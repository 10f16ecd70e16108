"""What `regard plan` predicts, beside what the training then takes: time, peak memory and disk of six runs.

    python benchmarks/plan.py --multi30k DIR --tatoeba DIR --out DIR [--minutes 3.5] [--only NAME] [--table]

Each training is planned, and then done, in the same hour; nothing else should run. Its number of steps is chosen from
the plan, so that it takes --minutes. Results are kept in --out: the same command goes on where it was stopped. Writes
results/plan.md.

DIR has train.en and train.de (--multi30k), and train.en and train.de of another corpus (--tatoeba).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "plan.md"
# name, corpus, preset, max_tokens
RUNS = [
    ("tiny, 1,024", "multi30k", "tiny", 1024),
    ("tiny, 2,048", "multi30k", "tiny", 2048),
    ("small, 2,048", "multi30k", "small", 2048),
    ("tiny, 2,048 (Tatoeba)", "tatoeba", "tiny", 2048),
    ("small, 1,024 (Tatoeba)", "tatoeba", "small", 1024),
    ("small, 2,048 (Tatoeba)", "tatoeba", "small", 2048),
]
REGARD = [sys.executable, "-m", "regard"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--multi30k", type=Path, required=True)
    parser.add_argument("--tatoeba", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=3.5)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--table", action="store_true", help="write the table of the runs that are in --out")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, corpus, preset, max_tokens in RUNS:
        if args.only and name not in args.only:
            continue
        result = args.out / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.json"
        if not result.exists():
            if args.table:
                continue
            directory = getattr(args, corpus)
            values = measure(directory, preset, max_tokens, 60 * args.minutes, result.with_suffix(""))
            result.write_text(json.dumps(values, indent=1) + "\n")
        rows.append((name, json.loads(result.read_text())))
        print(row(*rows[-1]), flush=True)
    if not args.only:
        RESULTS.write_text(report(rows))
        print(f"wrote {RESULTS}")


def measure(directory: Path, preset: str, max_tokens: int, seconds: float, out: Path) -> dict[str, Any]:
    """The plan of a training of about this time, and what it really took."""
    given = ["--source", str(directory / "train.en"), "--target", str(directory / "train.de")]
    given += ["--set", f"model.preset={preset}", "--set", f"training.max_tokens={max_tokens}"]
    first = plan([*given, "--set", "training.steps=1000"])
    per_step = first["step_seconds"][0]
    others = first["total_seconds"][0] - first["seconds"]["training"][0]
    steps = max(20, round((seconds - others) / per_step))
    given += ["--set", f"training.steps={steps}"]
    started_at = time.perf_counter()
    planned = plan(given)
    plan_seconds = time.perf_counter() - started_at
    shutil.rmtree(out, ignore_errors=True)
    started_at, started_on = time.perf_counter(), time.time()
    process = subprocess.Popen([*REGARD, "train", *given, "--out", str(out)], stderr=subprocess.DEVNULL)
    memory = disk = 0
    while process.poll() is None:
        memory = max(memory, sum(map(proportional_bytes, with_children(process.pid))))
        disk = max(disk, directory_bytes(out))
        time.sleep(0.5)
    taken = time.perf_counter() - started_at
    if process.returncode:
        sys.exit(f"the training of {out} ended with exit code {process.returncode}")
    return {
        "steps": steps,
        "plan_seconds": plan_seconds,
        "seconds": [planned["total_seconds"][0], taken],
        "memory": [planned["memory_total"], memory],
        "disk": [planned["disk_total"], disk],
        "parts": [
            {name: seconds[0] for name, seconds in planned["seconds"].items()},
            parts(out / "journal.jsonl", started_on),
        ],
        "flops": planned["flops"]["with_padding"],
    }


def parts(journal: Path, started_on: float) -> dict[str, float]:
    """Where the time of a training went, by its events."""
    result = dict.fromkeys(("training", "preparation", "validations", "checkpoints", "final model"), 0.0)
    before = started_on
    for line in journal.read_text().splitlines():
        event = json.loads(line)
        at = datetime.fromisoformat(event["at"]).timestamp()
        seconds = at - before
        kind = {"validation": "validations", "save": "checkpoints", "finished": "final model"}.get(event["event"])
        if event["event"] == "step":
            of_step = min(seconds, event["n_tokens"] / event["tokens_per_second"])
            result["training"] += of_step
            result["preparation"] += seconds - of_step
        else:
            result[kind or "preparation"] += seconds
        before = at
    return result


def plan(given: list[str]) -> dict[str, Any]:
    command = [*REGARD, "plan", *given, "--json"]
    values: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return values


def with_children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return [pid]
    return [pid, *(each for child in children for each in with_children(child))]


def proportional_bytes(pid: int) -> int:
    """Memory of a process; what several share counts once."""
    try:
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:  # it has ended
        return 0
    return 1024 * int(found.group(1)) if found else 0


def directory_bytes(path: Path) -> int:
    total = 0
    for folder, _, files in os.walk(path):
        for file in files:
            try:
                total += (Path(folder) / file).stat().st_size
            except OSError:  # renamed in the meantime
                continue
    return total


def machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    name = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text() if cpuinfo.exists() else "", re.MULTILINE)
    return f"{os.cpu_count()} cores{f', {name.group(1)}' if name else ''}"


HEADER = (
    "| training | steps | time, planned | taken | | memory, planned | taken | | disk, at most | taken | | plan took |"
)


def row(name: str, values: dict[str, Any]) -> str:
    cells = [name, f"{values['steps']:,}"]
    for key, unit, form in (("seconds", 1, "{:.0f} s"), ("memory", 1e6, "{:.0f} MB"), ("disk", 1e6, "{:.0f} MB")):
        planned, taken = values[key]
        cells += [form.format(planned / unit), form.format(taken / unit), f"{planned / taken - 1:+.0%}"]
    return "| " + " | ".join([*cells, f"{values['plan_seconds']:.0f} s"]) + " |"


PARTS = ("preparation", "training", "validations", "checkpoints", "final model")
PARTS_HEADER = f"| training | {' | '.join(PARTS)} |"


def parts_row(name: str, values: dict[str, Any]) -> str:
    planned, taken = values["parts"]
    cells = [f"{planned[part]:.1f} / {taken[part]:.1f}" for part in PARTS]
    return f"| {name} | {' | '.join(cells)} |"


def report(rows: list[tuple[str, dict[str, Any]]]) -> str:
    worst = {key: max(abs(v[key][0] / v[key][1] - 1) for _, v in rows) for key in ("seconds", "memory")}
    lines = [
        "# `regard plan` beside what trainings took",
        "",
        "By `benchmarks/plan.py`: each training is planned and then done. Memory is that of all processes together at "
        "its peak (Pss), disk that of the run directory at its largest.",
        "",
        f"Machine: {machine()}",
        "",
        HEADER,
        "|" + "---|" * (HEADER.count("|") - 1),
        *(row(*entry) for entry in rows),
        "",
        "Seconds, planned / taken, of every part:",
        "",
        PARTS_HEADER,
        "|" + "---|" * (PARTS_HEADER.count("|") - 1),
        *(parts_row(*entry) for entry in rows),
        "",
        f"{len(rows)} of {len(RUNS)} trainings. Largest differences: time {worst['seconds']:.0%}, "
        f"memory {worst['memory']:.0%}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
