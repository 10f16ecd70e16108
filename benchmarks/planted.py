"""Does `regard check` find a slip, duplicates and lines of a test set far apart in a large corpus?

    python benchmarks/planted.py SOURCE,TARGET --pairs 20000000 --work DIR

The corpus is made of the lines of SOURCE and TARGET, each with a word of its own on either side, so that nothing is
repeated or shared by chance. Planted are: a target line that is missing behind line 6,000,000 of 20 million, and one
too many half a million lines later; pairs that occur again 12 million lines later; lines of a test set; and pairs of
two other corpora, which are given with --also.
"""

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

N_PLANTED = 50
_FACTOR = 2_654_435_761  # odd: different numbers stay different

Pair = tuple[str, str]


def pairs(lines: list[Pair], n: int) -> Iterator[Pair]:
    """Pairs without repetitions."""
    rng = random.Random(1)
    for number in range(n):
        source, target = rng.choice(lines)
        yield f"{source} a{number:x}", f"{target} b{number * _FACTOR % 2**32:x}"


class Places:
    """What is planted where; line numbers are counted from 1."""

    def __init__(self, n_pairs: int) -> None:
        self.slip, self.until = n_pairs * 3 // 10, n_pairs * 13 // 40
        self.repeated = [n_pairs // 5 + 1 + 7 * i for i in range(N_PLANTED)]
        self.distance = n_pairs * 3 // 5
        self.tested = [n_pairs * 7 // 8 + 11 * i for i in range(N_PLANTED)]
        self.shared = [n_pairs * 9 // 10 + 13 * i for i in range(N_PLANTED)]


def write_corpus(lines: list[Pair], n_pairs: int, places: Places, directory: Path) -> list[str]:
    """Writes all files; returns the arguments of `regard check`, run in this directory."""
    repeated = {number + places.distance: number for number in places.repeated}
    wanted = {*places.repeated, *places.tested, *places.shared}
    kept: dict[int, Pair] = {}
    with (directory / "a.source").open("w") as source, (directory / "a.target").open("w") as target:
        for number, given in enumerate(pairs(lines, n_pairs), start=1):
            pair = kept[repeated[number]] if number in repeated else given
            if number in wanted:
                kept[number] = pair
            source.write(f"{pair[0]}\n")
            if number != places.slip + 1:
                target.write(f"{pair[1]}\n")
            if number == places.until:
                target.write("Eine Zeile zu viel.\n")
    others = [kept[number] for number in places.shared]
    for name, chosen in (("b", others[::2]), ("c", others[1::2])):
        own = [(f"{a} other {name}", f"{b} andere {name}") for a, b in pairs(lines, 100_000)]
        (directory / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in [*own, *chosen]))
    (directory / "test").write_text("".join(f"{kept[number][0]}\n" for number in places.tested))
    return ["a.source", "a.target", "--against", "test", "--also", "b.tsv", "--also", "c.tsv"]


def slip_is_found(lines: list[int], message: str, places: Places) -> bool:
    """Whether both ends of the slip are named, to within a few lines."""
    until = re.search(r"until line (\d+)", message)
    ends = (lines[0], int(until[1]) if until else 0)
    return all(abs(a - b) <= 10 for a, b in zip(ends, (places.slip, places.until), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpus", metavar="SOURCE,TARGET", help="two files with parallel text")
    parser.add_argument("--pairs", type=int, default=20_000_000, metavar="N")
    parser.add_argument("--work", type=Path, metavar="DIR", help="directory for the corpus (default: a temporary one)")
    args = parser.parse_args()
    files = [Path(name) for name in args.corpus.split(",")]
    lines = list(zip(*(path.read_text().split("\n")[:-1] for path in files), strict=True))
    places = Places(args.pairs)
    with tempfile.TemporaryDirectory(dir=args.work) as directory:
        arguments = write_corpus(lines, args.pairs, places, Path(directory))
        environment = os.environ | {"TMPDIR": directory}  # where the hashes are sorted
        started_at = time.perf_counter()
        command = [sys.executable, "-m", "regard", "check", *arguments, "--json"]
        result = subprocess.run(command, stdout=subprocess.PIPE, check=False, cwd=directory, env=environment)
        seconds = time.perf_counter() - started_at
    findings = json.loads(result.stdout)["findings"]
    by_kind = {
        kind: [item for item in findings if item["kind"] == kind] for kind in {item["kind"] for item in findings}
    }
    slips = [(item["lines"], item["message"]) for item in by_kind.get("slip", [])]
    repeated = [(item["count"], item["lines"]) for item in by_kind.get("duplicate-pairs", [])]
    shared = [item["count"] for item in by_kind.get("in-other-corpus", [])]
    tested = [item["count"] for item in by_kind.get("leak", [])]
    first = [number + places.distance for number in places.repeated[:5]]
    is_close = [slip_is_found(*slip, places) for slip in slips] == [True]
    print("| planted | where | found |\n|---|---|---|")
    print(f"| a missing line | behind line {places.slip:,} until {places.until:,} | {slips} |")
    print(f"| {N_PLANTED} pairs again | {places.distance:,} lines later | {repeated} |")
    print(f"| {N_PLANTED // 2} pairs in each of two other corpora | from line {places.shared[0]:,} on | {shared} |")
    print(f"| {N_PLANTED} lines of a test set | from line {places.tested[0]:,} on | {tested} |")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\n{args.pairs:,} pairs in {seconds:.0f} s, at most {peak:,.0f} MB per process")
    found = is_close and repeated == [(N_PLANTED, first)] and shared == [N_PLANTED // 2] * 2
    sys.exit(not (found and tested == [N_PLANTED]))


if __name__ == "__main__":
    main()
