"""Other toolkits' own training commands: the text and configurations they want, and the speed that their logs tell.

Each trains for some updates with its own batches, of about as many tokens; the first, which warm up, are left out.
All three count target tokens with the end symbol and without padding, as we do.
"""

import json
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

WARM_UP = 2
MAX_SECONDS = 3_600
TRAIN_MARIAN = "import sys; from pymarian import Trainer; Trainer(' '.join(sys.argv[1:])).train()"


class DoesNotRun(Exception):
    """A peer that can not be measured here; says why."""


class Job(NamedTuple):
    """What a toolkit is to do, and where its files are."""

    folder: Path  # train.en and train.de in pieces, and the vocabularies
    out: Path
    shape: dict
    max_tokens: int
    n_updates: int


class Toolkit(NamedTuple):
    """How a toolkit is started, and how its log tells an update's target tokens (if it does) and tokens a second."""

    title: str
    package: str
    command: Callable[[Job], list[str]]
    n_torch_threads: int | None  # None: as many as there are for all
    speed: str


def write_text(folder: Path, sides: dict[str, Iterable[list[str]]], pieces: list[str]) -> None:
    """The training text in pieces, and the same vocabulary for each; `pieces` are without the four special ones."""
    for side, lines in sides.items():
        (folder / f"train.{side}").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"few.{side}").write_text((folder / f"train.{side}").read_text().split("\n")[0] + "\n")
    (folder / "joey.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (folder / "opennmt.txt").write_text("".join(f"{piece}\t1\n" for piece in pieces))
    (folder / "pymarian.txt").write_text("".join(f"{piece}\n" for piece in ["</s>", "<unk>", "<s>", "<pad>", *pieces]))


def marian(job: Job) -> list[str]:
    """One process, a worker a thread."""
    shape, folder = job.shape, job.folder
    text, vocabulary = [str(folder / "train.en"), str(folder / "train.de")], str(folder / "pymarian.txt")
    options = {
        "--type": ["transformer"],
        "--train-sets": text,
        "--vocabs": [vocabulary, vocabulary],
        "--model": [str(job.out / "model.npz")],
        "--dim-emb": [shape["d_model"]],
        "--transformer-dim-ffn": [shape["d_ff"]],
        "--transformer-ffn-activation": ["relu"],
        "--transformer-heads": [shape["n_heads"]],
        "--enc-depth": [shape["n_encoder_layers"]],
        "--dec-depth": [shape["n_decoder_layers"]],
        "--transformer-dropout": [shape["dropout"]],
        "--tied-embeddings-all": [],
        "--label-smoothing": [0.1],
        "--learn-rate": [0.0001],
        "--optimizer-params": [0.9, 0.98, 1e-09],
        "--clip-norm": [1],
        "--max-length": [256],
        "--mini-batch": [1000],
        "--mini-batch-words": [job.max_tokens],
        "--cpu-threads": [shape["n_threads"]],
        "--workspace": [2000],
        "--after": [f"{job.n_updates}u"],
        "--disp-freq": ["1u"],
        "--disp-label-counts": [],
        "--seed": [1],
    }
    return ["-c", TRAIN_MARIAN, *(str(word) for option, values in options.items() for word in (option, *values))]


def opennmt(job: Job) -> list[str]:
    shape, vocabulary = job.shape, str(job.folder / "opennmt.txt")
    config = {
        "data": {"corpus": {"path_src": str(job.folder / "train.en"), "path_tgt": str(job.folder / "train.de")}},
        "src_vocab": vocabulary,
        "tgt_vocab": vocabulary,
        "share_vocab": True,
        "src_vocab_size": shape["n_symbols"],
        "tgt_vocab_size": shape["n_symbols"],
        "save_model": str(job.out / "model"),
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "hidden_size": shape["d_model"],
        "word_vec_size": shape["d_model"],
        "transformer_ff": shape["d_ff"],
        "heads": shape["n_heads"],
        "enc_layers": shape["n_encoder_layers"],
        "dec_layers": shape["n_decoder_layers"],
        "dropout": [shape["dropout"]],
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "label_smoothing": 0.1,
        "optim": "adam",
        "adam_beta2": 0.98,
        "learning_rate": 0.0001,
        "max_grad_norm": 1.0,
        "batch_type": "tokens",
        "batch_size": job.max_tokens,
        "normalization": "tokens",
        "bucket_size": 29_000,  # sorts by length within so many pairs
        "num_workers": 0,
        "train_steps": job.n_updates,
        "save_checkpoint_steps": job.n_updates,
        "report_every": 1,
        "seed": 1,
    }
    (job.out / "opennmt.yaml").write_text(json.dumps(config))  # JSON is YAML
    return ["-m", "onmt.bin.train", "-config", str(job.out / "opennmt.yaml")]


def joey(job: Job) -> list[str]:
    shape = job.shape
    side = {"level": "word", "min_length": 1, "max_length": -1, "voc_file": str(job.folder / "joey.txt")}
    half = {
        "type": "transformer",
        "num_heads": shape["n_heads"],
        "hidden_size": shape["d_model"],
        "ff_size": shape["d_ff"],
        "dropout": shape["dropout"],
        "embeddings": {"embedding_dim": shape["d_model"], "scale": True, "dropout": shape["dropout"]},
        "layer_norm": "post",
    }
    config = {
        "name": "speed",
        "model_dir": str(job.out / "model"),
        "use_cuda": False,
        "random_seed": 1,
        "data": {
            "train": str(job.folder / "train"),
            "dev": str(job.folder / "few"),
            "dataset_type": "plain",
            "src": side | {"lang": "en"},
            "trg": side | {"lang": "de"},
        },
        "testing": {},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": 0.0001,
            "scheduling": "warmupinversesquareroot",  # it wants one
            "clip_grad_norm": 1.0,
            "label_smoothing": 0.1,
            "normalization": "tokens",
            "batch_type": "token",
            "batch_size": job.max_tokens,
            "epochs": 100,
            "updates": job.n_updates,
            "logging_freq": 1,
            "validation_freq": 1_000_000,
        },
        "model": {
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": half | {"num_layers": shape["n_encoder_layers"]},
            "decoder": half | {"num_layers": shape["n_decoder_layers"]},
        },
    }
    (job.out / "joey.yaml").write_text(json.dumps(config))
    return ["-m", "joeynmt", "train", str(job.out / "joey.yaml"), "--skip-test"]


TOOLKITS = {
    "opennmt": Toolkit(
        "OpenNMT-py", "OpenNMT-py", opennmt, None, r"bsz: *\d+/ *(?P<tokens>\d+)/ *\d+; *\d+/ *(?P<speed>\d+) tok/s"
    ),
    "joey": Toolkit("Joey NMT", "joeynmt", joey, None, r"Tokens per Sec: *(?P<speed>\d+)"),
    "pymarian": Toolkit("Marian", "pymarian", marian, 1, r"\* (?P<tokens>[\d,]+) @ .* (?P<speed>[\d.]+) words/s"),
}


def log_speed(pattern: str, log: str) -> float:
    """All tokens through all time, from each update's tokens a second."""
    found = [match.groupdict() for match in re.finditer(pattern, log)][WARM_UP:]
    if not found:
        raise DoesNotRun("its log tells no speed")
    # Joey tells no tokens; its batches are about as large as each other
    weights = [int(one.get("tokens", "1").replace(",", "")) for one in found]
    return statistics.harmonic_mean([float(one["speed"]) for one in found], weights)


def toolkit_speed(name: str, python: Path, folder: Path, shape: dict, max_tokens: int, n_steps: int) -> float:
    """Target tokens a second of a toolkit's training command."""
    toolkit = TOOLKITS[name]
    threads = str(toolkit.n_torch_threads or shape["n_threads"])
    env = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = toolkit.command(Job(folder, Path(out), shape, max_tokens, n_steps + WARM_UP))
        try:
            done = subprocess.run(
                [str(python), *command], cwd=out, env=env, text=True, timeout=MAX_SECONDS,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise DoesNotRun(f"not done after {MAX_SECONDS} s") from error
    if done.returncode:
        raise DoesNotRun((done.stdout.strip().splitlines() or ["it says nothing"])[-1])
    return log_speed(toolkit.speed, done.stdout)
