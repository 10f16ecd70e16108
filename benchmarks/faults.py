"""Fault injection for training and for untrusted model directories; one table of results.

    python benchmarks/faults.py              everything, into results/faults.md
    python benchmarks/faults.py --quick      fewer repetitions, to see that it works
    python benchmarks/faults.py --only 3 6   some rows
    python benchmarks/faults.py --only 2 --share 1/4   a quarter of the repetitions of row 2, which takes 20 minutes

Needs Linux, strace, root for rows 4, 5, 13 and 43, and iproute2 for row 43. Each row is one function in faults/.
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

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: the models are tiny, and processes are forked

import torch

from faults import every_model, fuzz, inputs, ranks, runs, saves, signals, untrusted_models
from faults.harness import Figure, Harness

RESULTS = Path(__file__).parent / "results" / "faults.md"
PACKAGES = ("regard", "torch", "safetensors", "sentencepiece", "pydantic")


@dataclass(frozen=True)
class Row:
    """One fault, what must hold, and the function that measures it."""

    fault: str
    must_hold: str
    measure: Callable[[Harness], Figure]


ROWS = {
    1: Row("kill -9 at random steps, dropout on", "weights equal an uninterrupted run's", runs.killed_at_random_steps),
    2: Row(
        "kill -9 of any rank, 3 and 4 ranks", "equal after a restart, others end in 10 s, named", ranks.killed_ranks
    ),
    3: Row("killed at every system call of a save", "old or new loads", saves.killed_at_every_system_call),
    4: Row(
        "fsync fails; disk full in a save", "clear error, old one intact, no leftovers", saves.disk_fails_during_save
    ),
    5: Row("full or read-only disk at the start", "refused before the first step", runs.no_space_at_start),
    6: Row("checkpoint cut, flipped, file missing or added", "detected and skipped", saves.damaged_checkpoint),
    7: Row(
        "SIGTERM, Ctrl-C, once and twice", "saved within a step, exit 143/130, no orphan process", signals.stop_signals
    ),
    8: Row("text edited, recipe changed", "refused with the reason", runs.text_or_recipe_changed),
    9: Row(
        "nothing to resume; finished; two trainers", "error; unchanged; refused", runs.resume_rerun_and_second_trainer
    ),
    10: Row("loss becomes NaN or infinite", "stops at that step, last good one kept", runs.loss_not_finite),
    11: Row("checkpoint rotation beside another run's higher steps", "nothing lost", runs.rotation_among_stale_steps),
    12: Row("a pickle under every file name", "never executed", untrusted_models.pickles_under_every_name),
    13: Row("../, links, FIFOs, devices", "refused in under 1 s", untrusted_models.paths_and_special_files),
    14: Row(
        "huge, mismatched and NaN models",
        "refused without using memory",
        untrusted_models.models_that_need_too_much_memory,
    ),
    15: Row("fuzzed config, safetensors header, tokenizer", "a clean error or a working model", fuzz.fuzzed_models),
    33: Row("two commands write one output", "one is refused, the file is one's own", inputs.two_commands_one_output),
    34: Row("pipes and devices as text", "refused in words", inputs.text_that_is_no_file),
    35: Row("text changed while it is prepared", "noticed before the first step", inputs.text_changed_while_prepared),
    36: Row("sizes that cannot fit into memory", "refused before memory is taken", inputs.sizes_that_cannot_fit),
    42: Row("another number of ranks, training.exact", "equal to the bit", ranks.exact_ranks),
    43: Row("two hosts: delay, loss, cable cut", "finishes, or ends with the rank's name", ranks.cut_off_ranks),
    44: Row(
        "every architecture and task, 2 ranks", "equal to 1 rank with 2 batches", every_model.every_model_on_two_ranks
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; writes no results")
    parser.add_argument("--only", nargs="+", type=int, choices=sorted(ROWS), metavar="ROW", help="only these rows")
    parser.add_argument("--share", default="1/1", metavar="I/N", help="a part of the repetitions of row 2")
    args = parser.parse_args()
    part, n_parts = map(int, args.share.split("/"))
    torch.set_num_threads(1)
    started_at = time.perf_counter()
    lines, all_passed = [], True
    with tempfile.TemporaryDirectory(prefix="regard-faults-") as folder:
        harness = Harness(Path(folder), args.quick, (part, n_parts))
        for number in args.only or ROWS:
            row = ROWS[number]
            figure, seconds = measure(row, harness)
            verdict = {True: "pass", False: "FAIL", None: "not run"}[figure.passed]
            lines.append(f"| {number} | {row.fault} | {row.must_hold} | {figure.text} | {verdict} |")
            all_passed &= figure.passed is not False
            print(f"{lines[-1]}  ({seconds:.0f} s)", flush=True)
    if not args.quick and args.only is None:
        write_results(lines, time.perf_counter() - started_at)
    sys.exit(0 if all_passed else 1)


def measure(row: Row, harness: Harness) -> tuple[Figure, float]:
    """A row's figure, and the time it took. A measurement that raises has failed."""
    started_at = time.perf_counter()
    try:
        figure = row.measure(harness)
    except Exception as error:
        figure = Figure(f"{type(error).__name__}: {error}".replace("\n", " ")[:300], False)
    return figure, time.perf_counter() - started_at


def write_results(lines: Iterable[str], seconds: float) -> None:
    """Write the table, with versions, machine and command."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.release()}, {os.cpu_count()} cores"
    RESULTS.parent.mkdir(exist_ok=True)
    text = [
        "# Fault injection",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {seconds / 60:.0f} minutes. {versions}. {machine}.",
        "Written by: `python benchmarks/faults.py`",
        "",
        "| # | fault | must hold | figure | |",
        "|---|---|---|---|---|",
        *lines,
    ]
    RESULTS.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
