"""Peak memory of a training for a small and a large corpus, with the same model.

    python benchmarks/memory.py [--pairs 50000 5000000] [--steps 60]

The text is generated. `regard train` runs in its own process, including checks, vocabulary and token store. Of its two
processes the larger one counts: the second one only receives half of every batch.
"""

import argparse
import platform
import random
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import torch

HERE = Path(__file__).parent
LIMIT_MIB = 1.5 * 1024
SETTINGS = ["model.preset=tiny", "model.norm=pre", "training.max_tokens=4096", "training.rate=0.003"]


def write_pairs(folder: Path, n_pairs: int) -> tuple[Path, Path]:
    """Sentences of 30,000 random words, and the same sentences with every word reversed."""
    rng = random.Random(1)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(30_000)]
    spelled = [word[::-1] for word in words]
    numbers = range(len(words))
    weights = [1 / (rank + 5) for rank in numbers]
    source, target = folder / f"{n_pairs}.src", folder / f"{n_pairs}.tgt"
    with source.open("w") as source_file, target.open("w") as target_file:
        for start in range(0, n_pairs, 10_000):
            n = min(10_000, n_pairs - start)
            lengths = [rng.randint(4, 24) for _ in range(n)]
            drawn = iter(rng.choices(numbers, weights, k=sum(lengths)))
            for length in lengths:
                sentence = [next(drawn) for _ in range(length)]
                source_file.write(" ".join(words[i] for i in sentence) + "\n")
                target_file.write(" ".join(spelled[i] for i in sentence) + "\n")
    return source, target


def measure(folder: Path, n_pairs: int, steps: int) -> tuple[float, float]:
    """(peak MiB, seconds) of one training."""
    source, target = write_pairs(folder, n_pairs)
    settings = [
        *SETTINGS,
        f"training.steps={steps}",
        f"training.save_every={steps}",
        f"training.validate_every={steps}",
    ]
    out = folder / f"run-{n_pairs}"
    train = [
        sys.executable,
        "-m",
        "regard",
        "train",
        "--source",
        str(source),
        "--target",
        str(target),
        "--out",
        str(out),
    ]
    for setting in settings:
        train += ["--set", setting]
    watch = (
        "import resource, subprocess, sys;"
        "subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    started_at = time.perf_counter()
    process = subprocess.run([sys.executable, "-c", watch, *train], check=True, capture_output=True, text=True)
    unit = 1024 if sys.platform.startswith("linux") else 1024**2
    return int(process.stdout) / unit, time.perf_counter() - started_at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, nargs=2, default=[50_000, 5_000_000])
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    rows = ["| pairs | peak memory | whole run |", "|---|---|---|"]
    peaks = []
    with tempfile.TemporaryDirectory() as name:
        for n_pairs in args.pairs:
            peak, seconds = measure(Path(name), n_pairs, args.steps)
            peaks.append(peak)
            rows.append(f"| {n_pairs:,} | {peak:,.0f} MiB | {seconds:,.0f} s |")
            print(rows[-1], file=sys.stderr)
    more = peaks[1] - peaks[0]
    verdict = f"{more:+,.0f} MiB for {args.pairs[1] // args.pairs[0]} times the text (limit: {LIMIT_MIB:,.0f} MiB)"
    command = f"python benchmarks/memory.py --pairs {args.pairs[0]} {args.pairs[1]} --steps {args.steps}"
    head = f"{date.today()}, {platform.machine()}, torch {torch.__version__}: `{command}`"
    text = "\n".join(["# Memory of training", "", head, "", *rows, "", verdict, ""])
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "memory.md").write_text(text)
    print(text)
    sys.exit(more > LIMIT_MIB)


if __name__ == "__main__":
    main()
