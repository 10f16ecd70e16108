"""An architecture and a task that nothing in src/ knows go through every command (tests/foreign/)."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

FOREIGN = Path(__file__).parents[1] / "foreign"
TIMEOUT_SECONDS = 240
HAS_TWO_CORES = hasattr(os, "memfd_create") and len(os.sched_getaffinity(0)) >= 2
ARCHITECTURE = (
    "--architecture", "bag-of-words", "--set", "training.steps=40", "--set", "training.max_tokens=256",
    "--set", "training.save_every=10", "--set", "training.validate_every=20", "--set", "text.vocabulary=300",
    "--set", "model.dropout=0.2",
)  # fmt: skip


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Command:
    """`python tests/foreign/command.py`: the modules are imported by the child, and by its worker process."""

    directory: Path
    n_threads: int = 1

    def start(self, *arguments: str | Path) -> "subprocess.Popen[str]":
        environment = os.environ | {"OMP_NUM_THREADS": str(self.n_threads), "PYTHONPATH": _python_path()}
        return subprocess.Popen(
            [sys.executable, FOREIGN / "command.py", *map(str, arguments)], cwd=self.directory, env=environment,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str | Path, text: str = "") -> Result:
        process = self.start(*arguments)
        try:
            out, err = process.communicate(text, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        assert process.returncode == 0, err
        return Result(process.returncode, out, err)


def _python_path() -> str:
    return os.pathsep.join(path for path in sys.path if path)


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture
def digits(tmp_path: Path) -> Sequence[str]:
    from ..digits import write_digits

    source, target = write_digits(tmp_path / "text", 300, seed=1)
    return "--source", str(source), "--target", str(target)


def wait_for_step(run: Path, step: int, process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while not (run / "journal.jsonl").exists() or f'"step": {step},' not in (run / "journal.jsonl").read_text():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "no step in time"
        time.sleep(0.01)


def kill_at(command: Command, run: Path, step: int, *arguments: str | Path) -> None:
    process = command.start(*arguments)
    wait_for_step(run, step, process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=TIMEOUT_SECONDS)


def weights(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


def events(run: Path, event: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "journal.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == event]


@pytest.mark.skipif(not HAS_TWO_CORES, reason="needs Linux and two cores")
def test_a_foreign_architecture_trains_resumes_to_the_bit_and_translates(
    command: Command, digits: Sequence[str], tmp_path: Path
) -> None:
    in_two = replace(command, n_threads=2)
    train = ("train", *digits, *ARCHITECTURE, "--set", "training.two_processes=on", "--out")
    in_two.run(*train, "whole")
    kill_at(in_two, tmp_path / "parts", 13, *train, "parts")
    resumed = in_two.run(*train, "parts")
    assert "resuming after step 10" in resumed.stderr
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    validation = events(tmp_path / "whole", "validation")[-1]
    assert validation["bleu"] >= 0 and validation["samples"][0].keys() == {"source", "reference", "translation"}
    [plan] = events(tmp_path / "whole", "plan")
    assert (plan["architecture"], plan["size"]) == ("bag-of-words", "a bag of words and a GRU of 32")
    assert "bag of words" in (tmp_path / "whole" / "model" / "README.md").read_text()
    assert (tmp_path / "whole" / "report.html").exists()

    config = json.loads((tmp_path / "whole" / "model" / "config.json").read_text())
    assert "alignment_head" not in config["facts"]
    assert not (tmp_path / "whole" / "model" / "ctranslate2").exists()
    translated = command.run("translate", "whole", text="1 2 3\n\n4 5\n")
    assert len(translated.stdout.splitlines()) == 3
    source, target = digits[1], digits[3]
    scores = json.loads(command.run("evaluate", "whole", "--source", source, "--reference", target, "--json").stdout)
    assert "BLEU" in json.dumps(scores)
    assert len(command.run("predict", "whole", text="1 2 3\n4 5\n").stdout.splitlines()) == 2

    look = json.loads(command.run("look", "whole", "1 2 3", "--show", "dependence", "--json", "-").stdout)
    assert look["attentions"] == []
    assert {site["path"]: site["kind"] for site in look["sites"]}["gru.states"] == "state"
    assert "gru.states" in command.run("look", "whole", "1 2 3").stdout
    command.run("look", "whole", "1 2 3", "--html", "look.html", "--png", "look.png")
    assert (tmp_path / "look.png").stat().st_size > 1_000


@pytest.mark.skipif(not HAS_TWO_CORES, reason="needs Linux and two cores")
def test_a_foreign_task_trains_resumes_to_the_bit_and_predicts(command: Command, tmp_path: Path) -> None:
    write = "from vectors import write_vectors as w; from pathlib import Path as P; w(P('{}'), {}, {})"
    for name, n, seed in (("train.jsonl", 240, 1), ("valid.jsonl", 60, 2)):
        script = f"import sys; sys.path.insert(0, {str(FOREIGN)!r}); {write.format(name, n, seed)}"
        environment = os.environ | {"PYTHONPATH": _python_path()}
        subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, env=environment)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'task = "vectors"\n[data]\ntrain = "train.jsonl"\nvalidation = "valid.jsonl"\n[training]\nsteps = 120\n'
        'max_tokens = 16\nschedule = "constant"\nrate = 0.02\nwarmup = 5\nsave_every = 20\nvalidate_every = 40\n'
        'two_processes = "on"\noptimizer = "muon"\nbest_by = "error"\n[model]\ndropout = 0.1\n'
    )
    in_two = replace(command, n_threads=2)
    train = ("train", "--recipe", recipe, "--out")
    in_two.run(*train, "whole")
    kill_at(in_two, tmp_path / "parts", 33, *train, "parts")
    in_two.run(*train, "parts")
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    steps = events(tmp_path / "whole", "step")
    assert all(np.isfinite(step["loss"]) and step["losses"].keys() == {"class", "side"} for step in steps)
    last = events(tmp_path / "whole", "validation")[-1]
    assert last["error"] < 0.2 and last["side_accuracy"] > 0.5

    lines = command.run("predict", "whole", "--json", text="[2, 0, 0, 0, 0, 0]\n[0, 2, null, 0, 0, 0]\n").stdout
    assert [json.loads(line)["label"] for line in lines.splitlines()] == ["class 0", "class 1"]
    measured = command.run("evaluate", "whole", "valid.jsonl").stdout
    assert "error" in measured and "%" in measured
    look = json.loads(command.run("look", "whole", "[2, 0, 0, 0, 0, 0]", "--json", "-").stdout)
    assert [site["path"] for site in look["sites"]] == ["hidden.states"]
    assert "error" in (tmp_path / "whole" / "report.html").read_text()
