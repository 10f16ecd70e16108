"""Row 44: every architecture and every task with two processes, which must equal one process with two batches."""

import random
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from faults.harness import Figure, Harness, weights_of
from faults.ranks import Ranks, start_command
from regard.models import ARCHITECTURES

_TRAINING = {
    "steps": 6, "save_every": 6, "validate_every": 6, "max_tokens": 200, "warmup": 2, "average": 1, "rate": 0.01,
    "two_processes": "off",
}  # fmt: skip
_WORDS = (
    "the",
    "a",
    "cat",
    "dog",
    "horse",
    "bird",
    "saw",
    "heard",
    "liked",
    "park",
    "street",
    "garden",
    "house",
    "near",
)
_LAYERS = {"d_model": 32, "d_ff": 64, "n_heads": 2}
_SIZES: dict[str, dict[str, Any]] = {
    "transformer": _LAYERS | {"n_encoder_layers": 1, "n_decoder_layers": 1},
    "convs2s": {"d_model": 32, "n_encoder_layers": 1, "n_decoder_layers": 1},
    "bytenet": {"d_model": 32, "n_sets": 1, "n_dilations": 2},
    "neural-gpu": {"d_model": 24, "n_layers": 1},
    "memory-network": {"d_model": 20, "linear_start": 3},
    **{name: {"d_model": 32, "n_layers": 1} for name in ("rnn", "lstm", "gru")},
    **dict.fromkeys(("encoder", "bert", "electra", "xlnet", "vit", "language", "transformer-xl"), _LAYERS),
}


class Case(NamedTuple):
    """A training: its task and architecture, and its options."""

    name: str
    options: tuple[str, ...]


def every_model_on_two_ranks(harness: Harness) -> Figure:
    """Row 44: six steps of each, with dropout and the optimizer that is its default."""
    n_equal, problems, all_cases = 0, [], list(_cases(harness))
    numbers = harness.numbers(len(all_cases), len(all_cases))
    cases = all_cases[numbers.start : numbers.stop]
    for case in cases:
        runs = []
        for n in (1, 2):
            own = ("--set", "training.accumulate=2") if n == 1 else ()
            run = harness.fresh()
            ranks = start_command(run, n, ["train", "--out", str(run), *case.options, *own])
            problem = _problem(ranks, n)
            if problem:
                problems.append(f"{case.name} on {n}: {problem}")
                break
            runs.append(run)
        else:
            one, two = (_tensors(run) for run in runs)
            n_equal += one == two
            if one != two:
                problems.append(f"{case.name}: not equal")
        print(f"{case.name}: {problems[-1] if problems and case.name in problems[-1] else 'equal'}", file=sys.stderr)
    failed = "".join(f"; {problem}" for problem in problems)
    return Figure(f"{n_equal}/{len(cases)} equal with 2 ranks and with accumulate 2{failed}", n_equal == len(cases))


def _problem(ranks: Ranks, n: int) -> str:
    if ranks.wait() == [0] * n:
        return ""
    return next((line for text in ranks.errors() for line in text.splitlines() if "rror" in line), "ended")


def _tensors(run: Path) -> dict[str, str]:
    return {name: digest for name, digest in weights_of(run).items() if "ctranslate2" not in name}


def _cases(harness: Harness) -> Iterator[Case]:
    for name, architecture in ARCHITECTURES.items():
        for task in architecture.models:
            values = {f"model.{key}": value for key, value in _SIZES[name].items()}
            values |= {f"training.{key}": value for key, value in _TRAINING.items()}
            values["model.dropout"] = 0.2
            if task != "images" and task != "answering":
                values |= {"text.vocabulary": 300}
            files = _files(task, harness.folder) if task != "translation" else _pair_files(harness)
            settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
            yield Case(f"{task}, {name}", (*files, "--architecture", name, *settings))


def _pair_files(harness: Harness) -> Sequence[str]:
    source, target = harness.text
    return ("--source", str(source), "--target", str(target))


@cache
def _files(task: str, folder: Path) -> Sequence[str]:
    """The options of a generated corpus."""
    rng = random.Random(1)
    sentences = [" ".join(rng.choices(_WORDS, k=rng.randint(4, 12))) + " ." for _ in range(600)]
    if task == "images":
        path = folder / "images.npz"
        generator = np.random.default_rng(1)
        parts = {}
        for part, n in (("train", 200), ("test", 20)):
            parts |= {f"x_{part}": generator.integers(0, 255, (n, 12, 12), np.uint8)}
            parts |= {f"y_{part}": generator.integers(0, 3, n).astype(np.uint8)}
        np.savez(path, **parts)
        return ("--images", str(path))
    if task == "answering":
        lines = []
        for _ in range(200):
            told = [(rng.choice(("Ann", "Ben", "Cleo")), rng.choice(("garden", "kitchen", "hall"))) for _ in range(6)]
            lines += [f"{number} {person} went to the {place}." for number, (person, place) in enumerate(told, start=1)]
            lines.append(f"7 Where is {told[-1][0]}? \t{told[-1][1]}\t6")
        return ("--stories", _write(folder / "stories.txt", lines))
    if task == "classification":
        labelled = [f"{rng.choice(('good', 'bad'))}\t{sentence}" for sentence in sentences]
        return ("--labels", _write(folder / "labelled.tsv", labelled))
    # running text: a blank line between documents
    return (
        "--text",
        _write(folder / "text.txt", [line for each in sentences for line in (each, "")[: rng.choice((1, 1, 2))]]),
    )


def _write(path: Path, lines: Sequence[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)
