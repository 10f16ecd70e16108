"""Training speed compared with other implementations: target tokens per second, and the share of the matmul peak.

    python benchmarks/train_speed.py --data DIR      # with train.en and train.de, as in Multi30k

TINY and SMALL are Transformers; another architecture is compared with the peers that have it. All train on the same
text, in alternation, each in its own process; the figures are medians. Regard and the plain loops get the same batches;
the toolkits (peers/toolkits.py) make their own. The table is written to README.md.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from environment import peer_python, peer_version
from peers.toolkits import TOOLKITS, DoesNotRun, has_loop, toolkit_speed, write_text
from regard.data import NO_TARGET, Cursor, Loader, PairCollator, build_store
from regard.text import Corpus, Tokenizer, train_tokenizer
from regard.training import fast_matmul

HERE = Path(__file__).parent
N_SYMBOLS = 10_000
MAX_TOKENS = 4_096
_TRANSFORMER = {"architecture": "transformer", "n_heads": 4}
_RECURRENT = {"attention": "general", "n_layers": 2, "d_model": 256, "dropout": 0.1}
SHAPES: dict[str, dict[str, Any]] = {
    "TINY": {"d_model": 128, "d_ff": 256, "n_encoder_layers": 4, "n_decoder_layers": 4, "dropout": 0.3} | _TRANSFORMER,
    "SMALL": {"d_model": 256, "d_ff": 1024, "n_encoder_layers": 3, "n_decoder_layers": 3, "dropout": 0.1}
    | _TRANSFORMER,
    "CONVS2S": {"d_model": 128, "kernel": 3, "n_encoder_layers": 5, "n_decoder_layers": 5, "dropout": 0.3}
    | {"architecture": "convs2s"},
    "LSTM": {"architecture": "lstm", "input_feeding": False} | _RECURRENT,
    "GRU": {"architecture": "gru", "input_feeding": False} | _RECURRENT,
    "LSTM-FED": {"architecture": "lstm", "input_feeding": True} | _RECURRENT,
    "GRU-ADDITIVE": {"architecture": "gru", "input_feeding": False} | _RECURRENT | {"attention": "additive"},
}
LOOPS = {"torch": "torch.nn.Transformer", "huggingface": "Hugging Face Marian"}
TITLES = LOOPS | {name: toolkit.title for name, toolkit in TOOLKITS.items()}
PEERS = {"transformer": list(TITLES), "convs2s": ["opennmt"]}  # that have an architecture
PEERS |= {"lstm": ["opennmt", "joey"], "gru": ["opennmt", "joey"]}
TABLES = {"transformer": "train_speed", "convs2s": "train_speed_convs2s"}
TABLES |= dict.fromkeys(("lstm", "gru"), "train_speed_recurrent")
REGARD_ENVIRONMENT = {  # as cli/__init__.py sets it; the others get the environment unchanged
    "GOMP_SPINCOUNT": "20000", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"
}  # fmt: skip
GOALS = {"TINY": (1.75, "55%"), "SMALL": (1.5, "65%"), "CONVS2S": (1.5, "")}  # ratio, share of the best sgemm
GOALS |= {"LSTM": (1.5, ""), "GRU": (1.5, ""), "LSTM-FED": (1.1, ""), "GRU-ADDITIVE": (1.1, "")}


def read(data: Path) -> tuple[Corpus, Tokenizer]:
    """The text, and the vocabulary that all of them share."""
    corpus = Corpus(source=data / "train.en", target=data / "train.de")
    lines = (line for pair in corpus.pairs() for line in pair)
    return corpus, Tokenizer(train_tokenizer(lines, size=N_SYMBOLS))


def write_pieces(corpus: Corpus, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the text as sub-words, for the toolkits."""
    sides = {
        side: (
            [tokenizer.piece(i) for i in ids] for ids in tokenizer.encode_many(pair[which] for pair in corpus.pairs())
        )
        for which, side in enumerate(("en", "de"))
    }
    write_text(folder, sides, [tokenizer.piece(i) for i in range(4, tokenizer.size)])


def write_batches(
    corpus: Corpus, tokenizer: Tokenizer, folder: Path, n_batches: int
) -> list[tuple[int, int, int, int]]:
    """Write the first batches; returns (B, S, T, target tokens without padding) of each."""
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
    collate = PairCollator(store=store, pad_id=0, bos_id=2, eos_id=3)
    loader = Loader(examples=store, collate=collate, max_tokens=MAX_TOKENS, seed=1)
    stream, arrays, sizes = loader.updates(Cursor()), {}, []
    for i in range(n_batches):
        (batch,), _ = next(stream)
        (src, tgt_in), tgt_out = batch.inputs, batch.targets[0].clone()
        tgt_out[tgt_out == NO_TARGET] = 0  # the padding that the peers expect
        arrays |= {f"src{i}": src.numpy(), f"in{i}": tgt_in.numpy(), f"out{i}": tgt_out.numpy()}
        sizes.append((len(src), src.shape[1], tgt_in.shape[1], batch.n_targets[0]))
    np.savez(folder / "batches.npz", **arrays)
    return sizes


def transformer_flops(shape: dict, sizes: list[tuple[int, int, int, int]]) -> float:
    """Operations of all matrix products, forward and backward (3 ×), without target padding."""
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


def convs2s_flops(shape: dict, sizes: list[tuple[int, int, int, int]]) -> float:
    """The same of ConvS2S: gated convolutions and four linear layers; two more and attention in every decoder layer."""
    d_model = shape["d_model"]
    projection = d_model * d_model
    gated = 2 * shape["kernel"] * projection
    total = 0.0
    for n_rows, n_src, _, n_tokens in sizes:
        src, tgt = n_rows * n_src, n_tokens
        encoder = src * (shape["n_encoder_layers"] * gated + 2 * projection)
        decoder = tgt * (shape["n_decoder_layers"] * (gated + 2 * projection + 2 * n_src * d_model) + 2 * projection)
        total += 2 * 3 * (encoder + decoder + tgt * N_SYMBOLS * d_model)
    return total


def recurrent_flops(shape: dict, sizes: list[tuple[int, int, int, int]]) -> float:
    """The same of recurrent models: the encoder has two directions of half the size; a loop has one more input."""
    d_model, n_layers, is_additive = shape["d_model"], shape["n_layers"], shape["attention"] == "additive"
    projection = d_model * d_model
    cell = {"lstm": 4, "gru": 3}[shape["architecture"]] * projection
    total = 0.0
    for n_rows, n_src, _, n_tokens in sizes:
        src, tgt = n_rows * n_src, n_tokens
        encoder = src * (n_layers * 1.5 * cell + projection)  # and the keys
        decoder = tgt * ((2 * n_layers + has_loop(shape)) * cell + (2 + 2 * is_additive) * projection)
        total += 2 * 3 * (encoder + decoder + tgt * (2 * n_src + N_SYMBOLS) * d_model)
    return total


FLOPS = {"transformer": transformer_flops, "convs2s": convs2s_flops, "lstm": recurrent_flops, "gru": recurrent_flops}


def sgemm_speeds(n_threads: int) -> list[float]:
    """Float operations per second of large matrix products: the maximum is the peak, the median is typical."""
    torch.set_num_threads(n_threads)
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    speeds = []
    with fast_matmul():
        for _ in range(12):
            started_at = time.perf_counter()
            torch.mm(a, b)
            speeds.append(2 * 2048**3 / (time.perf_counter() - started_at))
    return speeds


def ours(shape_file: Path, batches_file: Path, n_steps: int) -> None:
    """Time Regard's training steps and print one JSON line."""
    from regard.data import Batch, Place
    from regard.models import ARCHITECTURES, ModelSpec
    from regard.training import TrainingConfig, keep_freed_memory
    from regard.training.loop import Training, train_step
    from regard.training.optimizers import set_rate

    shape = json.loads(shape_file.read_text())
    keep_freed_memory()
    torch.set_num_threads(shape.pop("n_threads"))
    torch.manual_seed(1)
    n_symbols, architecture = shape.pop("n_symbols"), shape.pop("architecture")
    arrays = np.load(batches_file)
    batches = []
    for i in range(len(arrays.files) // 3):
        src, tgt_in, out = (torch.from_numpy(arrays[f"{name}{i}"]) for name in ("src", "in", "out"))
        targets, place = out.masked_fill(out == 0, NO_TARGET), Place(seed=1, step=i)
        batches.append(Batch((src, tgt_in), (targets,), (int((out != 0).sum()),), place, np.arange(len(src))))
    config = TrainingConfig(clip=1.0)
    sizes = {"n_src_symbols": n_symbols, "n_tgt_symbols": n_symbols, "pad_id": 0}
    spec = ModelSpec("translation", architecture, ARCHITECTURES[architecture].config(**shape), sizes)
    training = Training(
        config=config, spec=spec, model=spec.build(), loader=None, validate=None, measures=(), checkpoints=None,
        device=torch.device("cpu"), identity={},
    )  # fmt: skip
    set_rate(training.optimizer, 1e-4)
    n_tokens, started_at, metrics = 0, 0.0, {}
    for step in range(-2, n_steps):
        if step == 0:
            started_at = time.perf_counter()
        batch = batches[step % len(batches)]
        metrics = train_step(training, [batch], step)
        n_tokens += batch.n_targets[0] if step >= 0 else 0
    elapsed_seconds = time.perf_counter() - started_at
    training.close()
    print(json.dumps({"tokens_per_second": n_tokens / elapsed_seconds, "loss": metrics["loss"]}))


def loop_speed(command: list[str], env: dict[str, str]) -> float:
    """Tokens per second of a program whose last line is JSON."""
    process = subprocess.run(command, capture_output=True, text=True, env=os.environ | env)
    if process.returncode:
        raise DoesNotRun((process.stderr.strip().splitlines() or ["no output"])[-1])
    return float(json.loads(process.stdout.splitlines()[-1])["tokens_per_second"])


def contenders(folder: Path, shape_name: str, args: argparse.Namespace) -> dict[str, Callable[[], float]]:
    """By title, a function that measures once."""
    shape = SHAPES[shape_name] | {"n_symbols": N_SYMBOLS, "n_threads": args.threads}
    shape_file = folder / f"{shape_name}.json"
    shape_file.write_text(json.dumps(shape))
    files = [str(shape_file), str(folder / "batches.npz"), str(args.steps)]

    def peer(name: str) -> float:
        try:
            python = peer_python("huggingface" if name in LOOPS else name)
        except subprocess.CalledProcessError as error:
            raise DoesNotRun("cannot be installed") from error
        if name in TOOLKITS:
            return toolkit_speed(name, python, folder, shape, MAX_TOKENS, args.steps)
        kind = "torch" if name == "torch" else "marian"
        return loop_speed([str(python), str(HERE / "peers" / "train_loop.py"), kind, *files], {})

    def regard() -> float:
        return loop_speed([sys.executable, __file__, "--ours", *files], REGARD_ENVIRONMENT)

    return {"regard": regard} | {
        TITLES[name]: partial(peer, name) for name in args.peers if name in PEERS[shape["architecture"]]
    }


def measure_in_alternation(
    shape_name: str, measures: dict[str, Callable[[], float]], args: argparse.Namespace
) -> tuple[dict[str, list[float]], dict[str, str], list[float]]:
    """Speeds by contender, reasons for those that do not run, and matrix product speeds measured in between."""
    speeds: dict[str, list[float]] = {title: [] for title in measures}
    failures: dict[str, str] = {}
    products: list[float] = []
    for _ in range(args.repeats):
        for title, measure_once in measures.items():
            if title in failures:
                continue
            products += sgemm_speeds(args.threads)
            try:
                speeds[title].append(measure_once())
            except DoesNotRun as error:
                if title == "regard":
                    raise
                failures[title] = re.sub(r"/\S*/|[\s|]+", " ", str(error))[:100]  # without local paths
                print(f"{shape_name} {title} does not run: {error}", file=sys.stderr)
                continue
            print(f"{shape_name} {title}: {speeds[title][-1]:,.0f} tokens/s", file=sys.stderr)
    return speeds, failures, products


def measure(folder: Path, sizes: list, args: argparse.Namespace) -> list[str]:
    """The table, with medians over the repeats."""
    rows = ["| shape | contender | target tokens/s | of the best peer | of the best sgemm | of the median sgemm |"]
    rows.append("|---|---|---|---|---|---|")
    used = [sizes[step % len(sizes)] for step in range(args.steps)]
    for name in args.shapes:
        speeds, failures, products = measure_in_alternation(name, contenders(folder, name, args), args)
        flops_per_token = FLOPS[SHAPES[name]["architecture"]](SHAPES[name], used) / sum(size[3] for size in used)
        median = {title: statistics.median(values) for title, values in speeds.items() if title not in failures}
        best_peer = max((speed for title, speed in median.items() if title != "regard"), default=float("nan"))
        peak, typical = max(products), statistics.median(products)
        for title in speeds:
            if title in failures:
                rows.append(f"| {name} | {title} | does not run: {failures[title]} | | | |")
                continue
            speed = median[title]
            shares = f"{speed * flops_per_token / peak:.0%} | {speed * flops_per_token / typical:.0%}"
            rows.append(f"| {name} | {title} | {speed:,.0f} | {speed / best_peer:.2f} | {shares} |")
        ratio, share = GOALS[name]
        rows.append(f"| {name} | *goal* | | *{ratio:.2f}* | {share and f'*{share}*'} | |")
        sgemm = f"{name}: sgemm at best {peak / 1e9:.0f}, median {typical / 1e9:.0f} GFLOPS"
        print(f"{sgemm}; {flops_per_token / 1e6:.1f} MFLOP per target token", file=sys.stderr)
    return rows


def heading(args: argparse.Namespace) -> str:
    """Date, machine, versions and command."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text() if cpuinfo.exists() else "", re.MULTILINE)
    machine = f"{model[1] if model else platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    versions = [f"torch {torch.__version__}"]
    if "huggingface" in args.peers:
        versions.append(f"transformers {peer_version('huggingface', 'transformers')}")
    for name in args.peers:
        if name in TOOLKITS:
            package = TOOLKITS[name].package
            versions.append(f"{package} {peer_version(name, package)}")
    command = f"python benchmarks/train_speed.py --data {args.data.name} --steps {args.steps} --repeats {args.repeats}"
    command += f" --threads {args.threads} --shapes {' '.join(args.shapes)} --peers {' '.join(args.peers)}"
    return f"{date.today()}, {machine}; {', '.join(versions)}:\n`{command}`"


def write_table(text: str, shapes: list[str]) -> None:
    """Replace the table between its markers in README.md; recurrent models and ConvS2S have tables of their own."""
    names = {TABLES[SHAPES[shape]["architecture"]] for shape in shapes}
    name = names.pop() if len(names) == 1 else "train_speed"
    page = HERE / "README.md"
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = page.read_text().split(start)
    page.write_text(f"{before}{start}{text}{end}{rest.split(end)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with train.en and train.de")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--peers", nargs="+", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--ours", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ours:
        with fast_matmul():
            ours(Path(args.ours[0]), Path(args.ours[1]), int(args.ours[2]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus, tokenizer = read(args.data)
        write_pieces(corpus, tokenizer, folder)
        rows = measure(folder, write_batches(corpus, tokenizer, folder, args.steps), args)
    text = "\n".join(["", heading(args), "", *rows, "", ""])
    write_table(text, args.shapes)
    print(text)


if __name__ == "__main__":
    main()
