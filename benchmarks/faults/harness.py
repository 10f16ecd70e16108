"""What every measurement uses: a small corpus, the real command line, and a small model directory."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import torch

from regard.artifact import save_model
from regard.models import ModelSpec, Transformer, TransformerConfig, named_weights
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

STEPS, SAVE_EVERY = 60, 10
SETTINGS = (
    "model.n_encoder_layers=1",
    "model.n_decoder_layers=1",
    "model.d_model=32",
    "model.d_ff=64",
    "model.n_heads=2",
    "model.dropout=0.3",
    "text.vocabulary=280",
    "training.max_tokens=256",
    f"training.steps={STEPS}",
    f"training.save_every={SAVE_EVERY}",
    "training.validate_every=20",
    "training.warmup=10",
    "training.average=3",
)
CONFIG = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=64, n_heads=2)


@dataclass(frozen=True)
class Figure:
    """A result; `passed` is None if this machine does not allow the measurement."""

    text: str
    passed: bool | None


class Harness:
    """A working folder, and whether to do fewer repetitions, or only a share of them: (1, 4) is the first quarter."""

    def __init__(self, folder: Path, quick: bool, share: tuple[int, int] = (1, 1)) -> None:
        self.folder, self.quick, self.share = folder, quick, share
        self._numbers = count(1)

    def times(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def numbers(self, full: int, quick: int) -> range:
        """Those of the repetitions to do."""
        n, (part, n_parts) = self.times(full, quick), self.share
        return range(n * (part - 1) // n_parts, n * part // n_parts)

    def fresh(self) -> Path:
        """A path where nothing exists."""
        return self.folder / f"case-{next(self._numbers):05d}"

    @cached_property
    def text(self) -> tuple[Path, Path]:
        """400 lines of digits, and the same digits reversed."""
        rng = Random(1)
        lines = [" ".join(rng.choices("0123456789", k=rng.randint(4, 12))) for _ in range(400)]
        source, target = self.folder / "digits.src", self.folder / "digits.tgt"
        self.folder.mkdir(parents=True, exist_ok=True)
        source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        target.write_text("".join(f"{line[::-1]}\n" for line in lines), encoding="utf-8")
        return source, target

    @cached_property
    def reference(self) -> Path:
        """A run without interruption."""
        run = self.folder / "reference"
        process = self.train(run)
        assert process.returncode == 0, process.stderr
        return run

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        with self.text[0].open(encoding="utf-8") as lines:
            tokenizer = Tokenizer(train_tokenizer([line.rstrip("\n") for line in lines], size=280))
        return TokenizerPair(tokenizer, tokenizer)

    def command(self, out: Path, *settings: str, options: tuple[str, ...] = ()) -> list[str]:
        """`regard train` on the digits; later settings win."""
        source, target = self.text
        flags = [word for setting in (*SETTINGS, *settings) for word in ("--set", setting)]
        train = ["train", "--source", str(source), "--target", str(target), "--out", str(out)]
        return [sys.executable, "-m", "regard", *train, *flags, *options]

    def train(self, out: Path, *settings: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Run it until it ends."""
        command = self.command(out, *settings, options=options)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    def start(self, out: Path, *settings: str) -> "subprocess.Popen[str]":
        """Start it in its own process group, as a shell would."""
        quiet = subprocess.DEVNULL
        command = self.command(out, *settings)
        return subprocess.Popen(command, stdout=quiet, stderr=quiet, text=True, start_new_session=True)

    def killed(self, out: Path, at_step: int, *settings: str, delay_seconds: float = 0.0) -> int:
        """Start it and kill -9 it after that step; returns the step it reached."""
        process = self.start(out, *settings)
        wait_for_step(out, process, at_step)
        time.sleep(delay_seconds)
        process.kill()
        process.wait()
        return last_step(out)

    def save_model(self, path: Path, config: TransformerConfig = CONFIG, seed: int = 1) -> Path:
        """A model directory with random weights."""
        torch.manual_seed(seed)
        model = Transformer(config, self.tokenizers.source.size, self.tokenizers.target.size)
        save_model(
            path,
            spec=ModelSpec("translation", "transformer", config, self.tokenizers.sizes),
            weights=named_weights(model),
            assets=self.tokenizers.files(),
            facts={},
            card="# A model\n",
        )
        return path


def wait_for_step(run: Path, process: "subprocess.Popen[str]", step: int) -> None:
    """Wait until the journal has that step, or the process has ended."""
    deadline = time.monotonic() + 300
    while last_step(run) < step and process.poll() is None:
        if time.monotonic() > deadline:
            process.kill()
            raise TimeoutError(f"a training has not reached step {step} in 5 minutes")
        time.sleep(0.001)


def step_events(run: Path) -> list[dict[str, Any]]:
    """The steps in the journal of a run, which may be missing or have an incomplete last line."""
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True) if journal.exists() else []
    events = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [event for event in events if event["event"] == "step"]


def last_step(run: Path) -> int:
    """The last step in the journal of a run; 0 if there is none."""
    return max((event["step"] for event in step_events(run)), default=0)


def weights_of(run: Path) -> dict[str, str]:
    """The SHA-256 of all tensors of a run: the final model, and every checkpoint's weights and optimiser state."""
    files = sorted(run.rglob("*.safetensors"))
    return {str(file.relative_to(run)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def everything_in(directory: Path) -> dict[str, tuple[str, int]]:
    """Hash and modification time of every file except the lock, which contains the process ID."""
    return {
        str(file.relative_to(directory)): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in sorted(directory.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }


def put(path: Path, data: bytes) -> None:
    """Replace a file; a process that has mapped the old one keeps it."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def reseal(directory: Path) -> None:
    """Write a manifest that matches the files, as an attacker would."""
    files = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name != "manifest.json":
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            files[path.relative_to(directory).as_posix()] = {"size": path.stat().st_size, "sha256": digest}
    put(directory / "manifest.json", json.dumps({"format": 1, "files": files}).encode())


class NotAllowed(Exception):
    """This machine does not allow the fault to be injected."""


@contextmanager
def small_disk(path: Path, n_bytes: int, *, read_only: bool = False) -> Iterator[Path]:
    """A tmpfs of that size."""
    path.mkdir(parents=True, exist_ok=True)
    _mount(["mount", "-t", "tmpfs", "-o", f"size={n_bytes}{',ro' if read_only else ''}", "tmpfs", str(path)])
    try:
        yield path
    finally:
        _mount(["umount", "--lazy", str(path)])
        shutil.rmtree(path, ignore_errors=True)


def remount_read_only(path: Path) -> None:
    _mount(["mount", "-o", "remount,ro", str(path)])


def fill_disk(path: Path, leave_bytes: int = 0) -> Path:
    """Use up all space except `leave_bytes`."""
    filler = path / "filler"
    with filler.open("wb", buffering=0) as file:
        left = max(0, shutil.disk_usage(path).free - leave_bytes)
        try:
            while left > 0:
                left -= file.write(bytes(min(left, 65_536)))
        except OSError:
            os.fsync(file.fileno())
    return filler


def _mount(command: list[str]) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise NotAllowed(process.stderr.strip().splitlines()[-1] if process.stderr.strip() else " ".join(command[:2]))
