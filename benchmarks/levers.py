"""What each lever of a training does: the same text and about the same work, one value changed at a time.

    python benchmarks/levers.py --data DIR --languages en de [--only "batch 1,024" …] [--work 600]

Two runs at a time, a thread each: their steps are counted, not timed, so a neighbour changes nothing but the minutes.
A lever whose steps cost more, or less, than those of the values that a budget chooses takes as many fewer, or more.
Everything is judged on the validation set. Rows are added to results/levers.md as they come.
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

from quality import evaluated, story, train_command

PAGE = Path(__file__).parent / "results" / "levers.md"
SOAP = str(Path(__file__).parent / "soap.py")
HEADING = """# What each lever does

By `python benchmarks/levers.py`: one thread a run, one value changed at a time. Loss and BLEU (cased, beam 4) on the
whole validation set; losses only compare where the vocabulary is the same. Seconds a step are the median of the run,
and as noisy as the machine. What is not set is as a budget chose it then: dropout, the share of the steps over which
the rate falls, and the precision.

| date | text | lever | settings | dropout, fall, precision | steps, passes | s/step | loss, train/val | BLEU, chrF++ |
|---|---|---|---|---|---|---|---|---|
"""


class Lever(NamedTuple):
    """What is changed, and how many steps of it cost as much as one of the usual ones."""

    settings: list[str]
    steps: float = 1.0
    warmup: float | None = None  # share of the steps; unset: as a budget chooses it
    program: tuple[str, ...] = ("-m", "regard")

    def of(self, work: int) -> list[str]:
        """Every setting of a run of so much work."""
        steps = round(work * self.steps)
        warmup = [] if self.warmup is None else [f"training.warmup={max(1, round(self.warmup * steps))}"]
        return [f"training.steps={steps}", *warmup, *self.settings]


LEVERS = {
    "none, seed 1": Lever([]),
    "none, seed 2": Lever(["training.seed=2"]),
    **{
        f"Adam, rate {rate}": Lever(["training.optimizer=adam", f"training.rate={rate}"], 1.1)
        for rate in (0.0015, 0.003, 0.006)
    },
    **{
        f"SOAP, rate {rate}": Lever(["training.optimizer=muon", f"training.rate={rate}"], 0.9, program=(SOAP,))
        for rate in (0.003, 0.006, 0.012)
    },
    "rate 0.0025": Lever(["training.rate=0.0025"]),
    "rate 0.01": Lever(["training.rate=0.01"]),
    "batch 1,024": Lever(["training.max_tokens=1024", "training.rate=0.0035"], 1.85),
    "batch 4,096": Lever(["training.max_tokens=4096", "training.rate=0.007"], 0.52),
    "post-norm": Lever(["model.norm=post"]),
    "post-norm, rate 0.0025": Lever(["model.norm=post", "training.rate=0.0025"]),
    "post-norm, warm-up over 20%": Lever(["model.norm=post"], warmup=0.2),
    "warm-up over 1%": Lever([], warmup=0.01),
    "warm-up over 20%": Lever([], warmup=0.2),
    "deep encoder, shallow decoder (6+2)": Lever(["model.n_encoder_layers=6", "model.n_decoder_layers=2"], 1.05),
    "shallow and wide (2+2, d_model 192, d_ff 768)": Lever(
        ["model.n_encoder_layers=2", "model.n_decoder_layers=2", "model.d_model=192", "model.d_ff=768"], 0.9
    ),
    "tiny (4+4, d_model 128)": Lever(["model.preset=tiny"]),
    "small (3+3, d_model 256)": Lever(["model.preset=small", "training.rate=0.0025"], 0.45),
    **{
        f"small, {precision}": Lever(
            ["model.preset=small", "training.rate=0.0025", f"training.precision={precision}"], 0.45
        )
        for precision in ("float32", "bfloat16")
    },
    "small, dropout 0.1": Lever(["model.preset=small", "training.rate=0.0025", "model.dropout=0.1"], 0.45),
    "d_ff 512": Lever(["model.d_ff=512"], 0.9),
    "8 heads": Lever(["model.n_heads=8"], 0.93),
    "vocabulary 12,000": Lever(["text.vocabulary=12000"], 0.85),
    "BPE-dropout 0.1": Lever(["text.sampling=0.1"], 0.9),
    "dropout 0": Lever(["model.dropout=0.0"], 1.1),
    **{f"dropout {p}": Lever([f"model.dropout={p}"]) for p in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)},
    "R-Drop 1": Lever(["training.r_drop=1"], 0.55),
    "R-Drop 0.3": Lever(["training.r_drop=0.3"], 0.55),
    "smoothing 0.05": Lever(["training.smoothing=0.05"]),
    **{precision: Lever([f"training.precision={precision}"]) for precision in ("float32", "bfloat16")},
    "rate falls over all of it": Lever(["training.cooldown=1.0"]),
    **{f"rate falls over the last {n}%": Lever([f"training.cooldown={n / 100}"]) for n in (30, 60)},
    "constant rate": Lever(["training.schedule=constant"]),
    "constant rate, last 5 checkpoints averaged": Lever(["training.schedule=constant", "training.average=5"]),
    "EMA 0.99": Lever(["training.ema=0.99"]),
    "constant rate, EMA 0.99": Lever(["training.schedule=constant", "training.ema=0.99"]),
    "GELU": Lever(["model.activation=gelu"], 0.97),
}


def row_of(args: argparse.Namespace, name: str) -> str:
    """Train with one lever, and say what came of it."""
    lever = LEVERS[name]
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        command = train_command(args.data, args.languages, run, lever.of(args.work), lever.program)
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
        found = evaluated(args.data, args.languages, run, "val")
        events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
        recipe, plan, _ = story(run)
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
        " ".join(f"`{one}`" for one in lever.of(args.work)[1:]),
        f"{recipe['model']['dropout']}, {fall}, {recipe['training']['precision']}",
        f"{len(steps):,}, {len(steps) / plan['steps_an_epoch']:.1f}",
        f"{seconds:.2f}",
        f"{training:.3f} / {validation:.3f}",
        f"{found['BLEU']:.1f}, {found['chrF++']:.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


def rows(args: argparse.Namespace) -> Iterator[str]:
    """As they come, two at a time."""
    with ThreadPoolExecutor(args.at_once) as pool:
        for done in as_completed([pool.submit(row_of, args, name) for name in args.only]):
            yield done.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, required=True)
    parser.add_argument("--work", type=int, default=600, help="steps, of the usual cost")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=list(LEVERS), choices=list(LEVERS), metavar="NAME")
    args = parser.parse_args()
    PAGE.parent.mkdir(exist_ok=True)
    if not PAGE.exists():
        PAGE.write_text(HEADING)
    for row in rows(args):
        with PAGE.open("a") as page:
            page.write(row + "\n")
        print(row, flush=True)


if __name__ == "__main__":
    main()
