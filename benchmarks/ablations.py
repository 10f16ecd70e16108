"""Ablations: train on the same text for about the same time, with one value changed per run.

    python benchmarks/ablations.py --data DIR --languages en de [--only "batch 1,024" …] [--work 600]

Two runs at a time, one thread each. The number of steps is fixed in advance, so other load on the machine does not
change the results. A change that makes a step slower gets correspondingly fewer steps. Scores are on the validation
set. Each finished run adds a row to results/ablations.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from pathlib import Path
from typing import NamedTuple

from quality import evaluate, read_run, train_command

RESULTS = Path(__file__).parent / "results" / "ablations.md"
SOAP = str(Path(__file__).parent / "soap.py")


class Change(NamedTuple):
    """What is changed, and how many steps take as long as one step without the change."""

    settings: list[str]
    steps: float = 1.0
    warmup: float | None = None  # share of the steps; default: that of a budget
    program: tuple[str, ...] = ("-m", "regard")

    def all_settings(self, work: int) -> list[str]:
        """Every setting of a run that takes as long as `work` unchanged steps."""
        steps = round(work * self.steps)
        warmup = [] if self.warmup is None else [f"training.warmup={max(1, round(self.warmup * steps))}"]
        return [f"training.steps={steps}", *warmup, *self.settings]


CHANGES = {
    "none, seed 1": Change([]),
    "none, seed 2": Change(["training.seed=2"]),
    **{
        f"Adam, rate {rate}": Change(["training.optimizer=adam", f"training.rate={rate}"], 1.1)
        for rate in (0.0015, 0.003, 0.006)
    },
    **{
        f"SOAP, rate {rate}": Change(["training.optimizer=muon", f"training.rate={rate}"], 0.9, program=(SOAP,))
        for rate in (0.003, 0.006, 0.012)
    },
    "rate 0.0025": Change(["training.rate=0.0025"]),
    "rate 0.01": Change(["training.rate=0.01"]),
    "batch 1,024": Change(["training.max_tokens=1024", "training.rate=0.0035"], 1.85),
    "batch 4,096": Change(["training.max_tokens=4096", "training.rate=0.007"], 0.52),
    "post-norm": Change(["model.norm=post"]),
    "post-norm, rate 0.0025": Change(["model.norm=post", "training.rate=0.0025"]),
    "post-norm, warm-up over 20%": Change(["model.norm=post"], warmup=0.2),
    "warm-up over 1%": Change([], warmup=0.01),
    "warm-up over 20%": Change([], warmup=0.2),
    "deep encoder, shallow decoder (6+2)": Change(["model.n_encoder_layers=6", "model.n_decoder_layers=2"], 1.05),
    "shallow and wide (2+2, d_model 192, d_ff 768)": Change(
        ["model.n_encoder_layers=2", "model.n_decoder_layers=2", "model.d_model=192", "model.d_ff=768"], 0.9
    ),
    "tiny (4+4, d_model 128)": Change(["model.preset=tiny"]),
    "small (3+3, d_model 256)": Change(["model.preset=small", "training.rate=0.0025"], 0.45),
    **{
        f"small, {precision}": Change(
            ["model.preset=small", "training.rate=0.0025", f"training.precision={precision}"], 0.45
        )
        for precision in ("float32", "bfloat16")
    },
    "small, dropout 0.1": Change(["model.preset=small", "training.rate=0.0025", "model.dropout=0.1"], 0.45),
    "d_ff 512": Change(["model.d_ff=512"], 0.9),
    "8 heads": Change(["model.n_heads=8"], 0.93),
    "vocabulary 12,000": Change(["text.vocabulary=12000"], 0.85),
    "BPE-dropout 0.1": Change(["text.sampling=0.1"], 0.9),
    "dropout 0": Change(["model.dropout=0.0"], 1.1),
    **{f"dropout {p}": Change([f"model.dropout={p}"]) for p in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)},
    "R-Drop 1": Change(["training.r_drop=1"], 0.55),
    "R-Drop 0.3": Change(["training.r_drop=0.3"], 0.55),
    "smoothing 0.05": Change(["training.smoothing=0.05"]),
    **{precision: Change([f"training.precision={precision}"]) for precision in ("float32", "bfloat16")},
    "rate falls over all of it": Change(["training.cooldown=1.0"]),
    **{f"rate falls over the last {n}%": Change([f"training.cooldown={n / 100}"]) for n in (30, 60)},
    "constant rate": Change(["training.schedule=constant"]),
    "constant rate, last 5 checkpoints averaged": Change(["training.schedule=constant", "training.average=5"]),
    "EMA 0.99": Change(["training.ema=0.99"]),
    "constant rate, EMA 0.99": Change(["training.schedule=constant", "training.ema=0.99"]),
    "GELU": Change(["model.activation=gelu"], 0.97),
    **{
        f"{cell}, {attention}, {optimizer}, rate {rate}": Change(
            [
                *(f"model.architecture={cell}", f"model.attention={attention}"),
                *(f"training.optimizer={optimizer}", f"training.rate={rate}"),
            ]
        )
        for cell, attention in (("gru", "additive"), ("lstm", "none"))
        for optimizer, rate in (("muon", 0.0017), ("muon", 0.0033), ("muon", 0.0066), ("adam", 0.001), ("adam", 0.003))
    },
    **{
        f"{architecture}, rate {rate}": Change(
            [f"model.architecture={architecture}", "model.preset=tiny", f"training.rate={rate}"]
        )
        for architecture in ("convs2s", "bytenet")
        for rate in (0.005, 0.01, 0.02)
    },
}


def row_of(args: argparse.Namespace, name: str) -> str:
    """Train with one change; a row of the table."""
    change = CHANGES[name]
    with tempfile.TemporaryDirectory() as temporary:
        run = Path(temporary) / "run"
        command = train_command(args.data, args.languages, run, change.all_settings(args.work), change.program)
        process = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        if process.returncode:
            raise SystemExit(f"{name}: {process.stderr.strip().splitlines()[-1]}")
        scores = evaluate(args.data, args.languages, run, "val")
        events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
        recipe, plan, _ = read_run(run)
    steps = [event for event in events if event["event"] == "step"]
    seconds = statistics.median(event["n_tokens"] / event["tokens_per_second"] for event in steps)
    training = statistics.mean(event["nll"] for event in steps[-len(steps) // 10 :])
    validation = next(event["loss"] for event in reversed(events) if event["event"] == "validation")
    schedule = recipe["training"]["schedule"]
    fall = f"{recipe['training']['cooldown']:.0%}" if schedule == "cooldown" else schedule
    cells = [
        str(date.today()),
        f"{args.data.name} {args.languages[0]}→{args.languages[1]}",
        name,
        " ".join(f"`{setting}`" for setting in change.all_settings(args.work)[1:]),
        f"{recipe['model']['dropout']}, {fall}, {recipe['training']['precision']}",
        f"{len(steps):,}, {len(steps) / plan['steps_an_epoch']:.1f}",
        f"{seconds:.2f}",
        f"{training:.3f} / {validation:.3f}",
        f"{scores['BLEU']:.1f}, {scores['chrF++']:.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


def rows(args: argparse.Namespace) -> Iterator[str]:
    """The rows, in the order in which the runs finish."""
    with ThreadPoolExecutor(args.at_once) as pool:
        for future in as_completed([pool.submit(row_of, args, name) for name in args.only]):
            yield future.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, required=True)
    parser.add_argument("--work", type=int, default=600, help="length of a run, in steps without a change")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=list(CHANGES), choices=list(CHANGES), metavar="NAME")
    args = parser.parse_args()
    for row in rows(args):
        with RESULTS.open("a") as results:
            results.write(row + "\n")
        print(row, flush=True)


if __name__ == "__main__":
    main()
