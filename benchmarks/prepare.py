"""Pairs per second and memory of checking a corpus, building its vocabulary and encoding it, of two checkouts in turn.

    git worktree add ../before eab48c1
    python benchmarks/prepare.py SOURCE,TARGET --pairs 1000000 5000000 --before ../before

The corpus is made of the lines of SOURCE and TARGET: each as it is, with a number behind, or two of them joined.
Memory is that of all processes together, measured every 50 ms; what they share counts several times.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

PREPARE = '''
import json, os, resource, sys, threading, time
from pathlib import Path
from regard.run import Recipe
from regard.tasks.translation.prepare import Corpora, data_values, examine_corpora, make_stores, make_tokenizers

def watch():
    """The memory of this process and of its children, which share some of it."""
    global peak
    me = os.getpid()
    while True:
        total = 0
        for pid in [me, *Path(f"/proc/{me}/task/{me}/children").read_text().split()]:
            try:
                total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
            except (OSError, IndexError):
                pass  # it has ended
        peak = max(peak, total)
        time.sleep(0.05)

peak = 0
threading.Thread(target=watch, daemon=True).start()
source, target, out = sys.argv[1:]
quiet = lambda stage, done, total: None
times = [time.perf_counter()]
recipe = Recipe.build({"data": {"train": [{"source": source, "target": target}]}})
n_pairs, _ = examine_corpora(recipe.data, quiet)
times.append(time.perf_counter())
data = recipe.raw()["data"] | data_values(recipe.data, n_pairs, 1)
recipe = Recipe.build({"data": data})
corpora = Corpora.of(recipe.data, 1)
tokenizers = make_tokenizers(Path(out) / "tokenizer", corpora, recipe.text, quiet)
times.append(time.perf_counter())
make_stores(Path(out), corpora, tokenizers, recipe.text.max_length, quiet)
times.append(time.perf_counter())
usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({
    "seconds": [b - a for a, b in zip(times, times[1:])],
    "cpu_seconds": sum(part.ru_utime + part.ru_stime for part in usage),
    "peak_mb": peak / 2**20,
}))
'''


def write_corpus(files: list[Path], n_pairs: int, directory: Path) -> list[Path]:
    """Writes a corpus of any size in the style of a small one, if it is not there."""
    if (directory / f"{n_pairs}.target").exists():
        return [directory / f"{n_pairs}.{side}" for side in ("source", "target")]
    lines = list(zip(*(path.read_text().split("\n")[:-1] for path in files), strict=True))
    rng = random.Random(1)
    paths = [directory / f"{n_pairs}.{side}" for side in ("source", "target")]
    outputs = [path.with_suffix(f"{path.suffix}.part").open("w") for path in paths]
    for _ in range(n_pairs):
        first, kind = rng.choice(lines), rng.random()
        other = ("", "") if kind < 0.1 else (str(rng.randrange(100_000)),) * 2 if kind < 0.5 else rng.choice(lines)
        for file, line, more in zip(outputs, first, other, strict=True):
            file.write(f"{line} {more}".strip() + "\n")
    for file, path in zip(outputs, paths, strict=True):
        file.close()
        Path(file.name).rename(path)
    return paths


def prepare(checkout: Path, paths: list[Path], directory: Path) -> dict[str, object]:
    """Prepares a corpus with the code of a checkout."""
    out = directory / "prepared"
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-c", PREPARE, *map(str, paths), str(out)]
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    shutil.rmtree(out)
    measured: dict[str, object] = json.loads(result.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpus", metavar="SOURCE,TARGET", help="two files with parallel text")
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000], metavar="N")
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout of Regard")
    parser.add_argument("--before-up-to", type=int, default=1_000_000, metavar="N", help="its largest corpus")
    parser.add_argument("--rounds", type=int, default=1, metavar="N")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keeps the corpora (default: a temporary directory)")
    args = parser.parse_args()
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    checkouts = {"now": ROOT} | ({"before": args.before} if args.before else {})
    files = [Path(name) for name in args.corpus.split(",")]
    print("| pairs | code | check | vocabulary | encoding | pairs/s | CPU s | peak MB |\n" + "|---" * 8 + "|")
    with tempfile.TemporaryDirectory() as directory:
        for n_pairs in args.pairs:
            paths = write_corpus(files, n_pairs, args.work or Path(directory))
            for _ in range(args.rounds):
                for name, checkout in checkouts.items():
                    if name == "before" and n_pairs > args.before_up_to:
                        continue
                    result = prepare(checkout, paths, Path(directory))
                    seconds: list[float] = result["seconds"]  # type: ignore[assignment]
                    stages = " | ".join(f"{part:.1f} s" for part in seconds)
                    speed = n_pairs / sum(seconds)
                    usage = f"{result['cpu_seconds']:.1f} | {result['peak_mb']:.0f}"
                    print(f"| {n_pairs:,} | {name} | {stages} | {speed:,.0f} | {usage} |", flush=True)
                    time.sleep(1)


if __name__ == "__main__":
    main()
