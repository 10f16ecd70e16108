"""Training speed beside the peers: real target tokens a second, and the share of this machine's matmul peak.

    python benchmarks/train_speed.py --data DIR      # with train.en and train.de, as Multi30k has them

Every contender trains on the same batches, in a process of its own, by turns; the figures are medians.
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
from datetime import date
from pathlib import Path

import numpy as np
import torch

from environment import peer_python
from regard.data import StreamSettings, build_store, updates
from regard.data.loader import Cursor
from regard.text import Corpus, Tokenizer, train_tokenizer

HERE = Path(__file__).parent
N_SYMBOLS = 10_000
MAX_TOKENS = 4_096
SHAPES = {
    "TINY": {"d_model": 128, "d_ff": 256, "n_heads": 4, "n_encoder_layers": 4, "n_decoder_layers": 4, "dropout": 0.3},
    "SMALL": {"d_model": 256, "d_ff": 1024, "n_heads": 4, "n_encoder_layers": 3, "n_decoder_layers": 3, "dropout": 0.1},
}
TO_REACH = {"TINY": (1.5, 0.55), "SMALL": (1.5, 0.65)}


def write_batches(data: Path, folder: Path, n_batches: int) -> list[tuple[int, int, int, int]]:
    """The same first batches for everyone; gives (B, S, T, real target tokens) of each."""
    corpus = Corpus(source=data / "train.en", target=data / "train.de")
    lines = (line for pair in corpus.pairs() for line in pair)
    tokenizer = Tokenizer(train_tokenizer(lines, size=N_SYMBOLS))
    store = build_store(
        folder / "store",
        ((source, target, 0) for source, target in corpus.pairs()),
        lambda chunk: (
            tokenizer.encode_many(source for source, _, _ in chunk),
            tokenizer.encode_many(target for _, target, _ in chunk),
        ),
        max_length=256,
        vocab_size=tokenizer.size,
        key="speed",
    )
    settings = StreamSettings(max_tokens=MAX_TOKENS, seed=1, pad_id=0, bos_id=2, eos_id=3)
    stream, arrays, sizes = updates(store, settings, Cursor()), {}, []
    for i in range(n_batches):
        (batch,), _ = next(stream)
        arrays |= {f"src{i}": batch.src.numpy(), f"in{i}": batch.tgt_in.numpy(), f"out{i}": batch.tgt_out.numpy()}
        sizes.append((len(batch.src), batch.src.shape[1], batch.tgt_in.shape[1], batch.n_tokens))
    np.savez(folder / "batches.npz", **arrays)
    return sizes


def flops(shape: dict, sizes: list[tuple[int, int, int, int]]) -> float:
    """Of the matrix products that the model is made of, forward and backward (3 ×), padding not counted as work."""
    d_model, d_ff = shape["d_model"], shape["d_ff"]
    projection = d_model * d_model
    total = 0.0
    for n_rows, n_src, n_tgt, n_tokens in sizes:
        src, tgt = n_rows * n_src, n_tokens
        encoder = shape["n_encoder_layers"] * (src * (4 * projection + 2 * d_model * d_ff) + src * 2 * n_src * d_model)
        decoder = shape["n_decoder_layers"] * (
            tgt * (6 * projection + 2 * d_model * d_ff) + src * 2 * projection + tgt * 2 * (n_tgt + n_src) * d_model
        )
        total += 2 * 3 * (encoder + decoder + tgt * N_SYMBOLS * d_model)
    return total


def sgemm_speeds(n_threads: int) -> list[float]:
    """Float operations a second of some large matrix products: the best is the peak, the median what one gets here."""
    torch.set_num_threads(n_threads)
    one, two = torch.randn(2048, 2048), torch.randn(2048, 2048)
    found = []
    for _ in range(12):
        started_at = time.perf_counter()
        torch.mm(one, two)
        found.append(2 * 2048**3 / (time.perf_counter() - started_at))
    return found


def ours(shape_file: Path, batches_file: Path, n_steps: int) -> None:
    """Regard's own steps, as the training loop takes them. Prints one JSON line."""
    from regard.data import Batch
    from regard.models import Transformer, TransformerConfig
    from regard.training import TrainingConfig, keep_freed_memory
    from regard.training.loop import Training, take_step
    from regard.training.objectives import cross_entropy
    from regard.training.optimizers import make_optimizer

    shape = json.loads(shape_file.read_text())
    keep_freed_memory()
    torch.set_num_threads(shape.pop("n_threads"))
    torch.manual_seed(1)
    n_symbols = shape.pop("n_symbols")
    arrays = np.load(batches_file)
    batches = []
    for i in range(len(arrays.files) // 3):
        src, tgt_in, out = (torch.from_numpy(arrays[f"{name}{i}"]) for name in ("src", "in", "out"))
        batches.append(Batch(src, tgt_in, out, int((out != 0).sum()), np.arange(len(src))))
    config = TrainingConfig(clip=1.0)
    model = Transformer(TransformerConfig(**shape), n_symbols, n_symbols).train()
    optimizer = make_optimizer(config, model)
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    stream = StreamSettings(max_tokens=MAX_TOKENS, seed=1, pad_id=0, bos_id=2, eos_id=3)
    training = Training(
        config=config, model=model, store=None, stream=stream,
        validation=None, device=torch.device("cpu"), checkpoints=None, identity={}, optimizer=optimizer, ema=None,
        objective=cross_entropy(0.1),
        translate=None,
    )  # fmt: skip
    n_tokens, started_at, found = 0, 0.0, {}
    for step in range(-2, n_steps):
        if step == 0:
            started_at = time.perf_counter()
        batch = batches[step % len(batches)]
        found = take_step(training, [batch], step)
        n_tokens += batch.n_tokens if step >= 0 else 0
    print(json.dumps({"tokens_per_second": n_tokens / (time.perf_counter() - started_at), "loss": found["loss"]}))


def measure(folder: Path, sizes: list, args: argparse.Namespace) -> list[str]:
    """One table: medians over the repeats, contenders by turns."""
    rows = ["| shape | contender | target tokens/s | of the best peer | of the best sgemm | of the median sgemm |"]
    rows.append("|---|---|---|---|---|---|")
    for name in args.shapes:
        shape = SHAPES[name] | {"n_symbols": N_SYMBOLS, "n_threads": args.threads}
        shape_file = folder / f"{name}.json"
        shape_file.write_text(json.dumps(shape))
        files = [str(shape_file), str(folder / "batches.npz"), str(args.steps)]
        peer = [str(peer_python()), str(HERE / "peers" / "train_loop.py")]
        contenders = {
            "regard": [sys.executable, __file__, "--ours", *files],
            "torch.nn.Transformer": [*peer, "torch", *files],
            "Hugging Face Marian": [*peer, "marian", *files],
        }
        speeds: dict[str, list[float]] = {contender: [] for contender in contenders}
        products: list[float] = []
        for _ in range(args.repeats):
            for contender, command in contenders.items():
                env = os.environ | ({"GOMP_SPINCOUNT": "20000"} if contender == "regard" else {})  # as `regard` sets it
                products += sgemm_speeds(args.threads)
                done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
                speeds[contender].append(json.loads(done.stdout.splitlines()[-1])["tokens_per_second"])
                print(f"{name} {contender}: {speeds[contender][-1]:,.0f} tokens/s", file=sys.stderr)
        used = [sizes[step % len(sizes)] for step in range(args.steps)]
        flops_a_token = flops(SHAPES[name], used) / sum(size[3] for size in used)
        median = {contender: statistics.median(found) for contender, found in speeds.items()}
        best_peer = max(speed for contender, speed in median.items() if contender != "regard")
        peak, usual = max(products), statistics.median(products)
        for contender, speed in median.items():
            shares = f"{speed * flops_a_token / peak:.0%} | {speed * flops_a_token / usual:.0%}"
            rows.append(f"| {name} | {contender} | {speed:,.0f} | {speed / best_peer:.2f} | {shares} |")
        ratio, share = TO_REACH[name]
        rows.append(f"| {name} | *to reach* | | *{ratio:.2f}* | *{share:.0%}* | |")
        told = f"{name}: sgemm at best {peak / 1e9:.0f}, usually {usual / 1e9:.0f} GFLOPS"
        print(f"{told}; {flops_a_token / 1e6:.1f} MFLOP a target token", file=sys.stderr)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with train.en and train.de")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--ours", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ours:
        ours(Path(args.ours[0]), Path(args.ours[1]), int(args.ours[2]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = measure(folder, write_batches(args.data, folder, args.steps), args)
    command = f"python benchmarks/train_speed.py --data {args.data.name} --steps {args.steps} --repeats {args.repeats}"
    head = f"{date.today()}, {platform.machine()}, {args.threads} threads, torch {torch.__version__}: `{command}`"
    text = "\n".join(["# Training speed", "", head, "", *rows, ""])
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "train_speed.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
