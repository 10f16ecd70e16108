"""Every fault of a training and of a stranger's model, made to happen; one table of what held.

    python benchmarks/faults.py              all of it, into results/faults.md
    python benchmarks/faults.py --quick      fewer times each, to see that it works
    python benchmarks/faults.py --only 3 6   some rows

Needs Linux, strace, and for rows 4, 5 and 13 the rights of root. A row is one function, in a module of faults/.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: the models are tiny, and children are forked

import torch

from faults import fuzz, runs, saves, signals, strangers
from faults.lab import Figure, Lab

RESULTS = Path(__file__).parent / "results" / "faults.md"
PARTS = ("regard", "torch", "safetensors", "sentencepiece", "pydantic")


@dataclass(frozen=True)
class Row:
    """One fault: what must hold, and what measures whether it does."""

    fault: str
    must_hold: str
    measure: Callable[[Lab], Figure]


ROWS = {
    1: Row("kill -9 at random steps, dropout on", "weights equal an uninterrupted run's", runs.killed_at_random_steps),
    3: Row("killed at every system call of a save", "old or new loads", saves.killed_at_every_call_of_a_save),
    4: Row("fsync fails; disk full in a save", "said in words, old one good, no debris", saves.the_disk_fails_a_save),
    5: Row("no room, or read-only, at the start", "refused before the first step", runs.no_room_at_the_start),
    6: Row("checkpoint cut, flipped, file missing or added", "detected, passed over", saves.a_damaged_checkpoint),
    7: Row("SIGTERM, Ctrl-C, once and twice", "saved within a step, 143/130, no orphan", signals.asked_to_stop),
    8: Row("text edited, recipe changed", "refused with the reason", runs.text_or_recipe_changed),
    9: Row("nothing to resume; finished; two trainers", "error; unchanged; refused", runs.resumed_rerun_and_doubled),
    10: Row("loss that is no number", "stops at that step, last good one kept", runs.loss_that_is_no_number),
    11: Row("rotation among another run's higher steps", "nothing lost", runs.rotation_among_stale_steps),
    12: Row("a pickle under every file name", "never executed", strangers.pickles_under_every_name),
    13: Row("../, links, FIFOs, devices", "refused in under 1 s", strangers.paths_and_special_files),
    14: Row("huge, unfitting and NaN models", "refused before memory", strangers.models_that_want_memory),
    15: Row("fuzzed config, weights' index, tokenizer", "a clean error or a clean load", fuzz.fuzzed_models),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer times each; writes no results")
    parser.add_argument("--only", nargs="+", type=int, choices=sorted(ROWS), metavar="ROW", help="these rows alone")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    started_at = time.perf_counter()
    lines, all_held = [], True
    with tempfile.TemporaryDirectory(prefix="regard-faults-") as folder:
        lab = Lab(Path(folder), asked.quick)
        for number in asked.only or ROWS:
            row = ROWS[number]
            figure, seconds = measured(row, lab)
            held = {True: "pass", False: "FAIL", None: "not run"}[figure.passed]
            lines.append(f"| {number} | {row.fault} | {row.must_hold} | {figure.text} | {held} |")
            all_held &= figure.passed is not False
            print(f"{lines[-1]}  ({seconds:.0f} s)", flush=True)
    if not asked.quick and asked.only is None:
        write_results(lines, time.perf_counter() - started_at)
    sys.exit(0 if all_held else 1)


def measured(row: Row, lab: Lab) -> tuple[Figure, float]:
    """A row's figure, and the time that it took. A measurement that breaks is one that failed."""
    started_at = time.perf_counter()
    try:
        figure = row.measure(lab)
    except Exception as error:
        figure = Figure(f"{type(error).__name__}: {error}".replace("\n", " ")[:300], False)
    return figure, time.perf_counter() - started_at


def write_results(lines: Iterable[str], seconds: float) -> None:
    """The table, with what it was made on and how to have it again."""
    parts = ", ".join(f"{name} {version(name)}" for name in PARTS)
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.release()}, {os.cpu_count()} cores"
    RESULTS.parent.mkdir(exist_ok=True)
    text = [
        "# Faults: what was made to happen, and what held",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {seconds / 60:.0f} minutes. {parts}. {machine}.",
        "Made by: `python benchmarks/faults.py`",
        "",
        "| # | fault | must hold | figure | |",
        "|---|---|---|---|---|",
        *lines,
    ]
    RESULTS.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
