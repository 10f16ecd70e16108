"""How many Neural GPUs learn to add: each seed is trained on sums of up to 20 bits, and tested on longer ones.

    python benchmarks/addition.py --seeds 3
    python benchmarks/addition.py --seeds 3 --corpus addition-in-columns

Prints the share of results with every bit right, for random sums and for carries that run through the whole number, and
writes results/NAME.md of the corpus. A seed counts as exact if every test sum of a length is right.
"""

import argparse
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import regard
from regard.artifact import describe
from regard.cli.display import TrainingDisplay
from regard.demo.addition import N_BITS, Form, addition_text
from regard.run import merge, parse_setting, read_recipe
from regard.tasks.predictors import load_predictor, task_of

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
TESTS = [f"{kind}-{n}" for n in (20, 40, 100) for kind in ("test", "carry")]


def train_and_test(form: Form, seed: int, settings: list[str], out: Path) -> list[float]:
    """The share of exact results on each test set."""
    text = addition_text(out, form)
    files = {
        part: [{"source": str(text / f"{name}.sum"), "target": str(text / f"{name}.result")}]
        for part, name in (("train", "train"), ("validation", "validation"))
    }
    recipe = read_recipe(ROOT / "recipes" / f"{form}.toml")
    given = merge({"data": files, "training": {"seed": seed}}, *map(parse_setting, settings))
    with TrainingDisplay(sys.stderr) as display:
        described = describe(regard.train(merge(recipe, given), out, callbacks=display))
    predictor = load_predictor(described)
    scores = []
    for name in TESTS:
        evaluation = task_of(described).evaluate(predictor, [text / f"{name}.sum", text / f"{name}.result"])
        scores.append(evaluation.metrics["exact"])
        print(f"seed {seed}  {name}: {scores[-1]:.1%} exact", file=sys.stderr, flush=True)
    predictor.close()
    return scores


def table(rows: dict[int, list[float]], command: str) -> str:
    exact = [sum(scores[i] == 1.0 for scores in rows.values()) for i in range(len(TESTS))]
    lines = [
        f"| seed | {' | '.join(TESTS)} |",
        f"|---|{'---|' * len(TESTS)}",
        *(f"| {seed} | {' | '.join(f'{score:.1%}' for score in scores)} |" for seed, scores in rows.items()),
        f"| *exact* | {' | '.join(f'{n} of {len(rows)}' for n in exact)} |",
    ]
    head = f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, trained on sums of up to {N_BITS} bits: `{command}`"
    return "\n".join([head, "", *lines]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="number of trainings (default 3)")
    parser.add_argument("--corpus", choices=get_args(Form), default="addition")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    rows: dict[int, list[float]] = {}
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory() as directory:
            run = Path(directory) / "run"
            rows[seed] = train_and_test(options.corpus, seed, options.settings, run)
        command = " ".join(["python", "benchmarks/addition.py", *sys.argv[1:]])
        file = RESULTS / f"{options.corpus}.md"
        file.write_text(table(rows, command), encoding="utf-8")  # after every seed: a training takes long
    print(table(rows, command))


if __name__ == "__main__":
    main()
