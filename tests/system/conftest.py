"""Fixtures for tests through the command line: a small text, a tiny model, a separate process where needed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from regard.cli import main

from ..digits import write_digits

TINY = {
    "model.preset": "tiny", "model.d_model": 32, "model.n_heads": 2, "model.d_ff": 64,
    "model.n_encoder_layers": 1, "model.n_decoder_layers": 1,
    "training.max_tokens": 512, "training.steps": 40, "training.warmup": 10,
    "training.save_every": 10, "training.validate_every": 20,
}  # fmt: skip
TIMEOUT_SECONDS = 240


def settings(*more: str) -> list[str]:
    """Flags for a tiny training; later values of a key replace earlier ones."""
    values = TINY | dict(setting.split("=", 1) for setting in more)
    return [flag for key, value in values.items() for flag in ("--set", f"{key}={value}")]


@dataclass(frozen=True)
class Text:
    """A source and a target file."""

    source: Path
    target: Path

    @property
    def flags(self) -> list[str]:
        return ["--source", str(self.source), "--target", str(self.target)]


class Result(NamedTuple):
    """The exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Regard:
    """Starts `python -m regard`, by default with one thread, because the tests themselves use the cores."""

    directory: Path
    n_threads: int = 1

    def command(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "regard", *map(str, arguments)]

    def start(self, *arguments: str | Path) -> "subprocess.Popen[str]":
        """Starts a process in its own process group, with its output in pipes."""
        environment = os.environ | {"OMP_NUM_THREADS": str(self.n_threads), "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(
            self.command(*arguments), cwd=self.directory, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str | Path) -> Result:
        """Runs a command to its end."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return Result(process.returncode, out, err)

    def train(self, text: Text, out: str, *more: str) -> Result:
        """A tiny training; items of `more` with an equals sign are settings, the others flags."""
        return self.run(*train_arguments(text, out, *more))


def train_arguments(text: Text, out: str, *more: str) -> list[str]:
    given = [item for item in more if "=" in item and not item.startswith("-")]
    return ["train", *text.flags, "--out", out, *settings(*given), *(item for item in more if item not in given)]


@pytest.fixture
def regard(tmp_path: Path) -> Regard:
    return Regard(tmp_path)


@pytest.fixture
def text(tmp_path: Path) -> Text:
    """300 pairs of digits and reversed digits."""
    return Text(*write_digits(tmp_path / "text", 300, seed=1))


@pytest.fixture
def inline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Result]]:
    """Runs a command in this process, which saves loading torch again."""

    def run(*arguments: str | Path) -> Result:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", ["regard", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Result(code if isinstance(code, int) else 0, *capfd.readouterr())

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield run
    torch.set_num_threads(n_threads)


@pytest.fixture
def arguments() -> Callable[..., list[str]]:
    return train_arguments
