"""A Vision Transformer on MNIST: its quality for a budget, and its training speed beside Hugging Face's.

    python benchmarks/images.py quality --images mnist.npz --budget 3m --out runs/mnist-3m
    python benchmarks/images.py plan --images mnist.npz --budget 20m --out FILE       # the same with fixed steps
    python benchmarks/images.py speed --images mnist.npz

The speed is in images per second: forward, backward and optimizer, on all cores, for the same shape, batch and dropout.
The programs run in alternation, each in its own environment; the ratio is that of the medians. Theirs is a plain loop
with AdamW over a batch in memory; ours has Muon, and loads, moves and normalises images. With `--precision bfloat16`,
both use it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import closing
from pathlib import Path

from environment import peer_python

SHAPE = {"n_layers": 6, "d_model": 96, "d_ff": 192, "n_heads": 4, "dropout": 0.0}
PATCH, SIDE, BATCH = 4, 28, 128
WARMUP = 3
REGARD_ENVIRONMENT = {  # as cli/__init__.py sets it
    "GOMP_SPINCOUNT": "20000", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"
}  # fmt: skip


def regard(*arguments: object) -> str:
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure_quality(images: Path, out: Path, given: list[str]) -> str:
    """Trains, and measures the model on the test part of the file: a row of the table."""
    started_at = time.perf_counter()
    regard("train", "--images", images, "--out", out, *given)
    seconds = time.perf_counter() - started_at
    result = json.loads(regard("evaluate", out, images, "--json"))
    recipe = tomllib.loads((out / "recipe.toml").read_text())
    accuracy, (low, high) = result["metrics"]["accuracy"], result["intervals"]["accuracy"]
    model, training = recipe["model"], recipe["training"]
    size = f"{model['preset']}, {model['n_layers']} × {model['d_model']}"
    return (
        f"| `{' '.join(given)}` | {size} | {training['steps']:,} × {training['max_tokens']} | {seconds / 60:.1f} "
        f"| {accuracy:.2%} ({low:.2%} – {high:.2%}) | {result['metrics']['macro_f1']:.2%} |"
    )


def write_plan(images: Path, budget: str, file: Path) -> None:
    """Begins a training with a budget, stops it once it is planned, and writes its recipe with fixed steps."""
    import tomli_w

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [
            sys.executable,
            "-m",
            "regard",
            "train",
            "--images",
            str(images),
            "--budget",
            budget,
            "--out",
            str(run),
        ]
        with subprocess.Popen(command) as process:
            while not (run / "recipe.toml").exists():
                time.sleep(0.2)
                assert process.poll() is None
            process.kill()
        recipe = tomllib.loads((run / "recipe.toml").read_text())
        del recipe["training"]["budget_seconds"]
        file.write_text(tomli_w.dumps(recipe))


def ours(images: Path, precision: str, seconds: float) -> float:
    """Images per second of training steps."""
    import torch

    from regard.data import Cursor, prefetch
    from regard.run import Callbacks, Recipe
    from regard.run.build import build_training, prepare_run
    from regard.training import Workers, fast_matmul, keep_freed_memory
    from regard.training.loop import train_step

    keep_freed_memory()

    raw = {
        "task": "images",
        "data": {"train": [{"images": str(images)}]},
        "model": {"architecture": "vit", "patch": PATCH} | SHAPE,
        "training": {"max_tokens": BATCH, "optimizer": "muon", "precision": precision},
    }
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare_run(Recipe.build(raw), None, Path(folder), Callbacks())
        with (
            fast_matmul(),  # as `regard train` does
            closing(build_training(prepared, Path(folder), torch.device("cpu"), Workers())) as training,
            closing(prefetch(training.loader.updates(Cursor()))) as updates,
        ):
            for step in range(1, WARMUP + 1):
                train_step(training, next(updates)[0], step)
            n_steps, started_at = 0, time.perf_counter()
            while n_steps < 5 or time.perf_counter() - started_at < seconds:
                n_steps += 1
                train_step(training, next(updates)[0], WARMUP + n_steps)
            return BATCH * n_steps / (time.perf_counter() - started_at)


def theirs(precision: str, seconds: float) -> float:
    """The same for ViTForImageClassification of Hugging Face transformers."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(1)
    config = ViTConfig(
        hidden_size=SHAPE["d_model"], num_hidden_layers=SHAPE["n_layers"], num_attention_heads=SHAPE["n_heads"],
        intermediate_size=SHAPE["d_ff"], image_size=SIDE, patch_size=PATCH, num_channels=1, num_labels=10,
    )  # fmt: skip
    model = ViTForImageClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    pixels, labels = torch.randn(BATCH, 1, SIDE, SIDE), torch.randint(10, (BATCH,))
    n_steps, started_at = -WARMUP, time.perf_counter()
    while n_steps < 5 or time.perf_counter() - started_at < seconds:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = model(pixels, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        n_steps += 1
        if n_steps == 0:
            started_at = time.perf_counter()
    return BATCH * n_steps / (time.perf_counter() - started_at)


def measure_speed(images: Path, precision: str, rounds: int, seconds: float) -> str:
    """A row of the table."""
    speeds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for name, measured in speeds.items():
            python = sys.executable if name == "ours" else peer_python("huggingface")
            command = [str(python), __file__, "loop", "--loop", name, "--images", str(images)]
            command += ["--precision", precision, "--seconds", str(seconds)]
            env = os.environ | (REGARD_ENVIRONMENT if name == "ours" else {})
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout
            measured.append(float(printed))
    first, second = (statistics.median(measured) for measured in speeds.values())
    return f"| {precision} | {first:,.0f} | {second:,.0f} | {first / second:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("quality", "plan", "speed", "loop"))
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--budget")
    parser.add_argument("--recipe", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--loop", choices=("ours", "theirs"))
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    if args.what == "loop":
        speed = (
            ours(args.images, args.precision, args.seconds)
            if args.loop == "ours"
            else theirs(args.precision, args.seconds)
        )
        print(speed)
    elif args.what == "speed":
        print(measure_speed(args.images, args.precision, args.rounds, args.seconds))
    elif args.what == "plan":
        write_plan(args.images, args.budget, args.out)
    else:
        given = ["--recipe", str(args.recipe)] if args.recipe else ["--budget", args.budget]
        print(measure_quality(args.images, args.out, given))


if __name__ == "__main__":
    main()
