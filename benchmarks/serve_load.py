"""The service beside the Translator that it serves, and every fault that its clients can make.

    python benchmarks/serve_load.py --model RUN --source FILE            all of it, into results/serve_load.md
    python benchmarks/serve_load.py --model RUN --source FILE --quick    a little of each, to see that it works
    python benchmarks/serve_load.py --model RUN --source FILE --only 24  one row

The load comes from this process, over loopback, and takes its share of the same cores. A row is one function.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from regard.text import read_lines
from serving import failing, hostile, leaving, overload, page, throughput
from serving.lab import Figure, Lab

RESULTS = Path(__file__).parent / "results" / "serve_load.md"
PARTS = ("regard", "ctranslate2", "fastapi", "uvicorn", "h11")
MOST_SENTENCES = 20_000


@dataclass(frozen=True)
class Row:
    """What is done, what must hold, and what measures whether it does."""

    what: str
    must_hold: str
    measure: Callable[[Lab], Figure]


ROWS = {
    "1": Row(
        "32 clients, one sentence a request",
        "sentences/s ≥ 0.9 of the Translator's own",
        partial(throughput.against_the_translator, texts_a_request=1),
    ),
    "16": Row(
        "32 clients, 16 sentences a request",
        "sentences/s ≥ 0.9 of the Translator's own",
        partial(throughput.against_the_translator, texts_a_request=16),
    ),
    "look": Row("a look inside a sentence of 20 words", "under 300 ms", page.looks),
    "paint": Row("the page in a fresh browser", "first paint under 1 s", page.first_paint),
    "24": Row("10× overload, open loop", "only 200 and 429; goodput ≥ 90%; memory flat", overload.ten_times_too_much),
    "25": Row("SIGTERM under load", "none lost, 503 for new ones, readiness first", leaving.told_to_stop),
    "26": Row("500 clients leave mid-request", "their work is dropped before the next batch", leaving.clients_leave),
    "27": Row("slow heads and bodies, 1 GB, 1 MB head", "others are served; 408/413/431", hostile.slow_and_huge),
    "28": Row("fuzzed from the schema; surrogates, NaN, depth", "no 5xx", hostile.fuzzed),
    "29": Row("the engine thread dies, or blocks", "liveness fails, waiters get 503", failing.the_engine_fails),
    "30": Row("no key; text and keys in logs", "401 except liveness; found nowhere", failing.without_a_key),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, required=True, metavar="RUN")
    parser.add_argument("--source", type=Path, required=True, metavar="FILE", help="sentences to translate")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="of a long measurement")
    parser.add_argument("--quick", action="store_true", help="a little of each; writes no results")
    parser.add_argument("--only", nargs="+", choices=list(ROWS), metavar="ROW", help="these rows alone")
    asked = parser.parse_args()
    sentences = [line for line in read_lines(asked.source) if line.strip()][:MOST_SENTENCES]
    lab = Lab(asked.model, sentences, 4.0 if asked.quick else asked.seconds, asked.quick)
    lines, all_held = [], True
    for name in asked.only or ROWS:
        row = ROWS[name]
        figure, seconds = measured(row, lab)
        label = f"throughput, {name}" if name in ("1", "16") else name
        lines.append(
            f"| {label} | {row.what} | {row.must_hold} | {figure.text} | {'pass' if figure.passed else 'FAIL'} |"
        )
        all_held &= figure.passed
        print(f"{lines[-1]}  ({seconds:.0f} s)", flush=True)
    if not asked.quick and asked.only is None:
        write_results(lines, asked)
    sys.exit(0 if all_held else 1)


def measured(row: Row, lab: Lab) -> tuple[Figure, float]:
    """A row's figure, and the time that it took. A measurement that breaks is one that failed."""
    started_at = time.perf_counter()
    try:
        figure = row.measure(lab)
    except Exception as error:
        figure = Figure(f"{type(error).__name__}: {error}".replace("\n", " ")[:300], False)
    return figure, time.perf_counter() - started_at


def write_results(lines: list[str], asked: argparse.Namespace) -> None:
    """The table, with what it was made on and how to have it again."""
    parts = ", ".join(f"{name} {version(name)}" for name in PARTS)
    machine = f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores, load from the same"
    command = f"python benchmarks/serve_load.py --model {asked.model.name} --source {asked.source.name}"
    text = [
        "# The service under load",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}. {parts}. {machine}.",
        f"Made by: `{command} --seconds {asked.seconds:g}`",
        "",
        "| # | what is done | must hold | figure | |",
        "|---|---|---|---|---|",
        *lines,
    ]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
