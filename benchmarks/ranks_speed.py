"""Training speed on one machine: `--processes 2` beside the two-process mode, and the cost of `training.exact`.

    python benchmarks/ranks_speed.py --data DIR [--pairs 5] [--steps 20]

--data has train.en and train.de as Multi30k has them. All ways get the same examples in each step, with two threads in
all; each measurement runs in a process of its own, the ways in turns. The figures are medians, and medians of the
ratios within a turn with the smallest and the largest. Writes results/ranks_speed.md.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import NO_TARGET, Batch, Cursor, Place, prefetch
from regard.models import ARCHITECTURES, ModelSpec
from regard.training import (
    Training,
    TrainingConfig,
    Workers,
    fast_matmul,
    has_fast_bfloat16,
    keep_freed_memory,
    open_workers,
)
from regard.training.loop import train_step
from regard.training.optimizers import set_rate
from train_speed import N_SYMBOLS, REGARD_ENVIRONMENT, SHAPES, read, write_batches

RESULTS = Path(__file__).parent / "results" / "ranks_speed.md"
WARM_UP = 3
# way → the training section, and the number of processes
WAYS: dict[str, tuple[dict[str, Any], int]] = {
    "two-process mode": ({}, 1),
    "--processes 2": ({"processes": 2}, 2),
    "--processes 2, exact": ({"exact": True, "accumulate": 2}, 2),
}
RATIOS = (
    ("`--processes 2` / two-process mode", "--processes 2", "two-process mode", "≥ 0.93"),
    ("`training.exact` / `--processes 2`", "--processes 2, exact", "--processes 2", "≥ 0.85"),
)


def updates(batches_file: Path, n_steps: int, n_parts: int) -> Iterator[tuple[list[Batch], Cursor]]:
    """The batches, each cut into so many parts of every n-th example."""
    arrays = np.load(batches_file)
    n_batches = len(arrays.files) // 3
    for step in range(n_steps):
        src, tgt_in, out = (torch.from_numpy(arrays[f"{name}{step % n_batches}"]) for name in ("src", "in", "out"))
        targets, parts = out.masked_fill(out == 0, NO_TARGET), []
        for part in range(n_parts):
            rows = slice(part, None, n_parts)
            n = int((out[rows] != 0).sum())
            place = Place(seed=1, step=step, part=part)
            parts.append(Batch((src[rows], tgt_in[rows]), (targets[rows],), (n,), place, np.arange(len(src[rows]))))
        yield parts, Cursor()


def measure(shape: dict[str, Any], batches_file: Path, way: str, n_steps: int, workers: Workers) -> dict[str, float]:
    """Target tokens per second."""
    values, n_processes = WAYS[way]
    shape = dict(shape)
    config = TrainingConfig(clip=1.0, optimizer="muon", precision=shape.pop("precision"), **values)
    sizes = {"n_src_symbols": N_SYMBOLS, "n_tgt_symbols": N_SYMBOLS, "pad_id": 0}
    spec = ModelSpec("translation", shape.pop("architecture"), ARCHITECTURES["transformer"].config(**shape), sizes)
    torch.manual_seed(1)
    training = Training(
        config=config, spec=spec, model=spec.build(), loader=None, validate=None, measures=(), checkpoints=None,
        device=torch.device("cpu"), identity={}, workers=workers,
    )  # fmt: skip
    set_rate(training.optimizer, 1e-4)
    n_tokens, started_at = 0, 0.0
    with closing(training), workers.job(training):
        stream = prefetch(workers.deal(updates(batches_file, WARM_UP + n_steps, n_processes)))
        for step, (update, _) in enumerate(stream):
            if step == WARM_UP:
                started_at = time.perf_counter()
            update = [replace(batch, place=replace(batch.place, step=step)) for batch in update]
            train_step(training, update, step)
            n_tokens += sum(batch.n_targets[0] for batch in update) if step >= WARM_UP else 0
        seconds = time.perf_counter() - started_at
    return {"tokens_per_second": n_tokens / seconds}


def child(shape_file: Path, batches_file: Path, way: str, n_steps: int) -> None:
    """One measurement, whose last line of output is JSON."""
    keep_freed_memory()
    torch.set_num_threads(2)
    with fast_matmul(), open_workers(WAYS[way][1], "cpu") as workers:
        result = measure(json.loads(shape_file.read_text()), batches_file, way, n_steps, workers)
        print(json.dumps(result), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pairs", type=int, default=5, help="measurements of every way")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        shape_file, batches_file, way, n_steps = args.child
        child(Path(shape_file), Path(batches_file), way, int(n_steps))
        return
    precision = "bfloat16" if has_fast_bfloat16(torch.device("cpu")) else "float32"
    lines = [
        "# Several processes on one machine",
        "",
        f"{date.today()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}, "
        f"{precision}, Muon: `python benchmarks/ranks_speed.py --pairs {args.pairs} --steps {args.steps}`.",
        "Target tokens per second, two threads in all; ratios are medians of those within a turn (smallest–largest).",
        "",
        "| | TINY | SMALL | goal |",
        "|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_batches(*read(args.data), folder, args.steps)
        speeds = {shape: measure_in_turns(folder, shape, precision, args) for shape in ("TINY", "SMALL")}
    for way in WAYS:
        cells = [f"{statistics.median(speeds[shape][way]):,.0f}" for shape in speeds]
        lines.append(f"| {way} | {' | '.join(cells)} | |")
    for title, above, below, goal in RATIOS:
        cells = []
        for by_way in speeds.values():
            ratios = [a / b for a, b in zip(by_way[above], by_way[below], strict=True)]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})")
        lines.append(f"| {title} | {' | '.join(cells)} | {goal} |")
    RESULTS.write_text("\n".join(lines) + "\n")
    print(RESULTS.read_text())


def measure_in_turns(folder: Path, name: str, precision: str, args: argparse.Namespace) -> dict[str, list[float]]:
    shape_file = folder / f"{name}.json"
    shape_file.write_text(json.dumps(SHAPES[name] | {"precision": precision}))
    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(args.pairs):
        for way, values in speeds.items():
            files = [str(shape_file), str(folder / "batches.npz")]
            command = [sys.executable, __file__, "--child", *files, way, str(args.steps)]
            environment = os.environ | REGARD_ENVIRONMENT
            process = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            if process.returncode:
                sys.exit(process.stderr)
            values.append(json.loads(process.stdout.splitlines()[-1])["tokens_per_second"])
            print(f"{name}, {way}: {values[-1]:,.0f} tokens/s", file=sys.stderr)
    return speeds


if __name__ == "__main__":
    main()
