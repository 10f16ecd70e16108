"""Training commands of other toolkits: their text, configuration, and the speed in their logs.

Each trains for a number of updates with its own batches of about the same number of tokens; the first updates are left
out. All three count target tokens with the end symbol and without padding, as we do.
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
    """A toolkit that cannot be measured here, with the reason."""


class Job(NamedTuple):
    """A training for a toolkit, and its files."""

    folder: Path  # train.en and train.de in pieces, and the vocabularies
    out: Path
    shape: dict
    max_tokens: int
    n_updates: int


class Toolkit(NamedTuple):
    """How to start a toolkit, and a pattern for the target tokens (optional) and tokens per second in its log."""

    title: str
    package: str
    command: Callable[[Job], list[str]]
    n_torch_threads: int | None  # None: all
    speed: str


def write_text(folder: Path, sides: dict[str, Iterable[list[str]]], pieces: list[str]) -> None:
    """Write the text as sub-words, and the vocabulary in each toolkit's format; `pieces` has no special tokens."""
    for side, lines in sides.items():
        (folder / f"train.{side}").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"few.{side}").write_text((folder / f"train.{side}").read_text().split("\n")[0] + "\n")
    (folder / "joey.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (folder / "opennmt.txt").write_text("".join(f"{piece}\t1\n" for piece in pieces))
    (folder / "pymarian.txt").write_text("".join(f"{piece}\n" for piece in ["</s>", "<unk>", "<s>", "<pad>", *pieces]))


def marian(job: Job) -> list[str]:
    """One process with one worker per thread."""
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


def has_loop(shape: dict) -> bool:
    """Whether a recurrent decoder needs a loop over the target: Bahdanau's contexts always enter the cell."""
    return bool(shape["input_feeding"] or shape["attention"] == "additive")


def opennmt_recurrent(shape: dict) -> dict:
    return {
        "encoder_type": "brnn",  # half of hidden_size in each direction
        "decoder_type": "rnn",
        "rnn_type": shape["architecture"].upper(),
        "global_attention": {"additive": "mlp"}.get(shape["attention"], shape["attention"]),
        "input_feed": int(has_loop(shape)),
    }


OPENNMT_MODELS: dict[str, Callable[[dict], dict]] = {  # by architecture: the options that set it
    "transformer": lambda shape: {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "transformer_ff": shape["d_ff"],
        "heads": shape["n_heads"],
    },
    "convs2s": lambda shape: {
        "encoder_type": "cnn",
        "decoder_type": "cnn",
        "cnn_kernel_width": shape["kernel"],
    },
    "lstm": opennmt_recurrent,
    "gru": opennmt_recurrent,
}


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
        "hidden_size": shape["d_model"],
        "word_vec_size": shape["d_model"],
        "enc_layers": shape.get("n_encoder_layers", shape.get("n_layers")),
        "dec_layers": shape.get("n_decoder_layers", shape.get("n_layers")),
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
        "bucket_size": 29_000,  # pairs that are sorted by length together
        "num_workers": 0,
        "train_steps": job.n_updates,
        "save_checkpoint_steps": job.n_updates,
        "report_every": 1,
        "seed": 1,
    } | OPENNMT_MODELS[shape["architecture"]](shape)
    (job.out / "opennmt.yaml").write_text(json.dumps(config))  # JSON is YAML
    return ["-m", "onmt.bin.train", "-config", str(job.out / "opennmt.yaml")]


def joey_transformer(shape: dict) -> tuple[dict, dict]:
    half = {"type": "transformer", "num_heads": shape["n_heads"], "ff_size": shape["d_ff"], "layer_norm": "post"}
    return half | {"num_layers": shape["n_encoder_layers"]}, half | {"num_layers": shape["n_decoder_layers"]}


def joey_recurrent(shape: dict) -> tuple[dict, dict]:
    half = {"type": "recurrent", "rnn_type": shape["architecture"], "num_layers": shape["n_layers"]}
    decoder = {
        "attention": {"additive": "bahdanau", "general": "luong"}[shape["attention"]],
        "input_feeding": has_loop(shape),
        "hidden_dropout": shape["dropout"],
        "init_hidden": "bridge",
    }
    return half | {"hidden_size": shape["d_model"] // 2, "bidirectional": True}, half | decoder


JOEY_MODELS: dict[str, Callable[[dict], tuple[dict, dict]]] = {  # by architecture: its encoder and decoder
    "transformer": joey_transformer,
    "lstm": joey_recurrent,
    "gru": joey_recurrent,
}


def joey(job: Job) -> list[str]:
    shape = job.shape
    side = {"level": "word", "min_length": 1, "max_length": -1, "voc_file": str(job.folder / "joey.txt")}
    embeddings = {"embedding_dim": shape["d_model"], "scale": True, "dropout": shape["dropout"]}
    both = {"hidden_size": shape["d_model"], "dropout": shape["dropout"], "embeddings": embeddings}
    encoder, decoder = JOEY_MODELS[shape["architecture"]](shape)
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
            "scheduling": "warmupinversesquareroot",  # required
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
            "encoder": both | encoder,
            "decoder": both | decoder,
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
    """Tokens per second over all updates, from the speed of each."""
    updates = [match.groupdict() for match in re.finditer(pattern, log)][WARM_UP:]
    if not updates:
        raise DoesNotRun("no speed in its log")
    # Joey NMT does not log tokens; its batches have about the same size
    weights = [int(update.get("tokens", "1").replace(",", "")) for update in updates]
    return statistics.harmonic_mean([float(update["speed"]) for update in updates], weights)


def toolkit_speed(name: str, python: Path, folder: Path, shape: dict, max_tokens: int, n_steps: int) -> float:
    """Target tokens per second of a toolkit's training command."""
    toolkit = TOOLKITS[name]
    threads = str(toolkit.n_torch_threads or shape["n_threads"])
    env = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = toolkit.command(Job(folder, Path(out), shape, max_tokens, n_steps + WARM_UP))
        try:
            process = subprocess.run(
                [str(python), *command], cwd=out, env=env, text=True, timeout=MAX_SECONDS,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise DoesNotRun(f"not done after {MAX_SECONDS} s") from error
    if process.returncode:
        raise DoesNotRun((process.stdout.strip().splitlines() or ["no output"])[-1])
    return log_speed(toolkit.speed, process.stdout)
