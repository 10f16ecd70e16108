"""Translates a large file in parts, some of which are killed, and compares the result with that of one command.

    python benchmarks/bulk.py --lines 2000000 --parts 8 --kill 3 6 --work DIR

The model is tiny and learns to reverse the words of short lines, so that it takes minutes. Some lines are blank, and
some have characters at which other programs end a line.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
MODEL = ("n_encoder_layers=1", "n_decoder_layers=1", "d_model=32", "d_ff=64", "n_heads=2", "dropout=0.0")
REGARD = [sys.executable, "-m", "regard"]


def write_lines(path: Path, n: int, seed: int) -> None:
    """Short lines of words."""
    rng = random.Random(seed)
    with path.open("w") as file:
        for number in range(n):
            line = " ".join(rng.choices(WORDS, k=rng.randint(2, 5)))
            file.write("\n" if number % 31 == 7 else f"{line}\u2028one\n" if number % 97 == 5 else f"{line}\n")


def train(directory: Path) -> Path:
    """A model that reverses the words of a line."""
    write_lines(directory / "train.source", 4_000, 1)
    lines = (directory / "train.source").read_text().replace("\u2028", " ").split("\n")[:-1]
    (directory / "train.source").write_text("".join(f"{line}\n" for line in lines))
    (directory / "train.target").write_text("".join(f"{' '.join(reversed(line.split()))}\n" for line in lines))
    settings = [*(f"model.{setting}" for setting in MODEL), "training.steps=300", "text.vocabulary=300"]
    options = [option for setting in settings for option in ("--set", setting)]
    files = ["--source", str(directory / "train.source"), "--target", str(directory / "train.target")]
    subprocess.run([*REGARD, "train", *files, "--out", str(directory / "run"), *options], check=True)
    return directory / "run"


def translate(run: Path, source: Path, out: Path, *options: str) -> list[str]:
    fixed = ["--beam", "1", "--precision", "float32"]
    return [*REGARD, "translate", str(run), str(source), "--out", str(out), *fixed, *options]


def kill_when_it_has_written(command: list[str], out: Path, part: str, n_bytes: int) -> int:
    """Kills a command as soon as it has written so many bytes, and returns how many it has written."""
    process = subprocess.Popen(command)
    while process.poll() is None:
        sizes = [path.stat().st_size for path in out.parent.glob(f".{out.name}.part-{part}*") if path.suffix != ".json"]
        if sum(sizes) > n_bytes:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return sum(sizes)
        time.sleep(0.05)
    raise SystemExit(f"part {part} ended before it could be killed")


def n_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lines", type=int, default=2_000_000, metavar="N")
    parser.add_argument("--parts", type=int, default=8, metavar="N")
    parser.add_argument(
        "--kill", type=int, nargs="*", default=[3, 6], metavar="PART", help="parts that are killed once"
    )
    parser.add_argument("--ray", action="store_true", help="translate the parts on a local Ray cluster, too")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where files are written (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.work) as name:
        directory = Path(name)
        run = train(directory)
        source, whole, out = (directory / name for name in ("source", "whole", "out"))
        write_lines(source, args.lines, 2)
        started_at = time.perf_counter()
        subprocess.run(translate(run, source, whole), check=True)
        seconds = [time.perf_counter() - started_at]
        started_at, killed, quarter = time.perf_counter(), [], source.stat().st_size // args.parts // 4
        for part in range(1, args.parts + 1):
            command = translate(run, source, out, "--part", f"{part}/{args.parts}", "--resume")
            if part in args.kill:
                killed.append(kill_when_it_has_written(command, out, f"{part}-of-{args.parts}", quarter))
            subprocess.run(command, check=True)
        subprocess.run(translate(run, source, out, "--join"), check=True)
        seconds.append(time.perf_counter() - started_at)
        results = [("one command", whole), (f"{args.parts} parts, {len(killed)} killed", out)]
        if args.ray:
            started_at = time.perf_counter()
            on_ray = directory / "ray"
            subprocess.run(translate(run, source, on_ray, "--ray", "local", "--parts", str(args.parts)), check=True)
            seconds.append(time.perf_counter() - started_at)
            results.append((f"{args.parts} parts on Ray", on_ray))
        print("| how | lines in | lines out | equal to one command | lines/s |\n|---|---|---|---|---|")
        for (how, path), needed in zip(results, seconds, strict=True):
            equal = path.read_bytes() == whole.read_bytes()
            counts = f"{n_lines(source):,} | {n_lines(path):,}"
            print(f"| {how} | {counts} | {'yes' if equal else 'no'} | {args.lines / needed:,.0f} |", flush=True)
        left = sorted(path.name for path in directory.iterdir() if ".part-" in path.name)
        print(f"\nkilled after {', '.join(f'{size:,}' for size in killed)} bytes; left behind: {left or 'nothing'}")
        sys.exit(any(path.read_bytes() != whole.read_bytes() for _, path in results))


if __name__ == "__main__":
    main()
