"""How well mispaired lines are found: a share of the target lines of a good corpus is permuted.

    python benchmarks/mispaired.py multi30k/train.en,multi30k/train.de tatoeba/train.en,tatoeba/train.de

Writes results/mispaired.md. The time is that of fitting the word models and judging every pair, in one process.
"""

import argparse
import os
import platform
import random
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from regard.text.corpus import Corpus
from regard.text.doctor.mispaired import Pairing, PairSample

RESULTS = Path(__file__).parent / "results" / "mispaired.md"
SHARES = (0.0, 0.01, 0.05, 0.2, 0.5, 1.0)
GOAL_SHARE, MIN_FOUND, MAX_FALSE = 0.2, 0.9, 0.05


@dataclass(frozen=True)
class Result:
    """One corpus with a share of its lines permuted."""

    corpus: str
    pairs: str
    share: float
    found: float  # of the permuted lines
    false: float  # of the others
    verdict: str
    seconds: float

    @property
    def missed(self) -> bool:
        """Whether the goal was missed."""
        if self.share == 1.0:
            return self.verdict != "error"
        return self.share == GOAL_SHARE and (self.found < MIN_FOUND or self.false > MAX_FALSE)

    def row(self) -> str:
        found = "" if self.share in (0.0, 1.0) else f"{self.found:.1%}"
        false = "" if self.share == 1.0 else f"{self.false:.2%}"
        cells = (self.corpus, self.pairs, f"{self.share:.0%}", found, false, self.verdict, f"{self.seconds:.1f}")
        return f"| {' | '.join(cells)} |{' goal missed' if self.missed else ''}"


def measure(name: str, which: str, pairs: list[tuple[str, str]], share: float) -> Result:
    """Permute a share of the target lines, and look for them."""
    source, target = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    moved = random.Random(1).sample(range(len(pairs)), round(share * len(pairs)))
    for here, there in zip(moved, moved[1:] + moved[:1], strict=True):
        target[here] = pairs[there][1]
    wrong = {i + 1 for i in moved if target[i] != pairs[i][1]}
    started_at = time.perf_counter()
    sample = PairSample()
    sample.add(zip(range(1, len(source) + 1), source, target, strict=True), len(source))
    pairing = Pairing(sample)
    seconds = time.perf_counter() - started_at
    lines = set(pairing.lines)
    reported = len(lines) / len(pairs)
    verdict = "error" if not pairing.related or reported >= 0.5 else "warning" if reported > 0.01 else "ready"
    found = len(lines & wrong) / max(1, len(wrong))
    false = len(lines - wrong) / max(1, len(pairs) - len(wrong))
    return Result(name, which, share, found, false, verdict, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpora", nargs="+", metavar="SOURCE,TARGET", help="two files with parallel text")
    parser.add_argument("--pairs", type=int, default=5_000, metavar="N", help="from each corpus (default: 5000)")
    args = parser.parse_args()
    results = []
    for files in args.corpora:
        source, target = map(Path, files.split(","))
        name = f"{source.parent.name} {source.suffix[1:]}–{target.suffix[1:]}"
        pairs = list(Corpus(source=source, target=target).pairs())
        parts = {"first": pairs[: args.pairs], "random": random.Random(1).sample(pairs, args.pairs)}
        for which, part in parts.items():
            for share in SHARES:
                results.append(measure(name, f"{which} {len(part):,}", part, share))
                print(results[-1].row(), flush=True)
    write_results(results)
    sys.exit(any(result.missed for result in results))


def write_results(results: Iterable[Result]) -> None:
    """Write the table, with versions and machine."""
    machine = f"Python {platform.python_version()}, NumPy {version('numpy')}, {os.cpu_count()} cores"
    text = [
        "# Mispaired lines",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}. {machine}. Written by: `python benchmarks/mispaired.py SOURCE,TARGET …`",
        "",
        f"Goal: with {GOAL_SHARE:.0%} permuted, {MIN_FOUND:.0%} found with at most {MAX_FALSE:.0%} false alarms;"
        " with 100%, an error.",
        "",
        "| corpus | pairs | permuted | found | false alarms | `regard check` | seconds |",
        "|---|---|---|---|---|---|---|",
        *(result.row() for result in results),
    ]
    RESULTS.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
