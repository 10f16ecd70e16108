"""Rows 33 to 36: two commands with one output, text that is no file or changes, and sizes that cannot fit."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from faults.harness import Figure, Harness
from regard.errors import UserError
from regard.run import Callbacks, train

MAX_SECONDS = 60.0  # for a refusal; most of it loads torch
IMPORT_MB = 600.0  # of a process that has loaded torch and prepared the text
SIZES = (
    "model.d_model=65536",
    "model.d_ff=1048576 model.d_model=8192",
    "model.n_encoder_layers=1000 model.d_model=8192",
    "model.positions=learned model.max_positions=1048576 model.d_model=8192",
    "training.accumulate=10000000",
    "training.accumulate=1000000000000",
)


def two_commands_one_output(harness: Harness) -> Figure:
    """Row 33: started together, 1 s and 10 s apart; the output is exactly that of a command that said it succeeded."""
    model, inputs = harness.save_model(harness.fresh()), []
    for number in (0, 1):
        path = harness.folder / f"input-{number}"
        path.write_text("".join(f"{line} {number}\n" for line in range(20_000)), encoding="utf-8")
        inputs.append(path)
    alone = [harness.fresh(), harness.fresh()]
    for source, out in zip(inputs, alone, strict=True):
        _translate(model, source, out).wait()
    expected = [path.read_bytes() for path in alone]
    n_ok, delays = 0, (0.0, 1.0, 10.0) * harness.times(10, 1)
    for delay in delays:
        out = harness.fresh()
        first = _translate(model, inputs[0], out)
        time.sleep(delay)
        second = _translate(model, inputs[1], out)
        errors = [process.communicate()[1] for process in (first, second)]
        codes = [first.returncode, second.returncode]
        refused = [code == 2 and "another command" in error for code, error in zip(codes, errors, strict=True)]
        allowed = [text for text, code in zip(expected, codes, strict=True) if code == 0]
        left = [path.name for path in out.parent.glob(f".{out.name}*")]
        n_ok += sorted(codes) in ([0, 2], [0, 0]) and sum(refused) == codes.count(2) and not left
        n_ok -= out.read_bytes() not in allowed
    return Figure(f"{n_ok}/{len(delays)}", n_ok == len(delays))


def _translate(model: Path, source: Path, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "regard", "translate", str(model), str(source), "--out", str(out), "--beam", "1"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def text_that_is_no_file(harness: Harness) -> Figure:
    """Row 34: a FIFO, a process substitution, standard input and devices, to train and to check."""
    source, target = harness.text
    fifo = harness.fresh()
    os.mkfifo(fifo)
    with source.open("rb") as pipe_like:
        names = [str(fifo), "/dev/stdin", "/dev/urandom", "/dev/zero", f"/dev/fd/{_pipe(source.read_bytes())}"]
        n_ok, n_tried = 0, 0
        for name in names:
            for command in (
                ["train", "--source", name, "--target", str(target), "--out", str(harness.fresh())],
                ["check", name, str(target)],
                ["check", str(source), str(target), "--against", name],
            ):
                process = subprocess.run(
                    [sys.executable, "-m", "regard", *command], stdin=pipe_like, capture_output=True, text=True,
                    check=False, timeout=MAX_SECONDS, close_fds=False,
                )  # fmt: skip
                n_ok += process.returncode == 2 and "is a pipe or a device, not a file; hint:" in process.stderr
                n_tried += 1
    return Figure(f"{n_ok}/{n_tried} refused", n_ok == n_tried)


def _pipe(data: bytes) -> int:
    """The reading end of a pipe, as a shell makes one for `<(…)`; child processes inherit it."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    os.write(writing, data[:4096])
    os.close(writing)
    return reading


class _EditAt(Callbacks):
    """Changes a file once, when a stage of the preparation is reported."""

    def __init__(self, stage: str, path: Path) -> None:
        self.stage, self.path, self.done, self.stages = stage, path, False, list[str]()
        self.stepped = False

    def on_progress(self, stage: str, done: int, total: int | None) -> None:
        self.stages.append(stage)
        if stage.startswith(self.stage) and not self.done:
            self.done = True
            self.path.write_bytes(self.path.read_bytes().replace(b"1", b"2"))

    def on_event(self, event: str, **fields: Any) -> None:
        self.stepped |= event == "step"


def text_changed_while_prepared(harness: Harness) -> Figure:
    """Row 35: the text changes when each stage of the preparation begins."""
    source, target = harness.text
    original = source.read_bytes()
    settings = {
        "data": {"train": [{"source": str(source), "target": str(target)}]},
        "model": {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 32, "d_ff": 64, "n_heads": 2},
        "text": {"vocabulary": 280},
        "training": {"max_tokens": 256, "steps": 4, "warmup": 2},
    }
    stages = ("examining", "building the vocabulary", "encoding train", "encoding validation")
    n_noticed = 0
    for stage in stages:
        edit = _EditAt(stage, source)
        try:
            train(settings, harness.fresh(), callbacks=edit)
        except UserError as error:
            n_noticed += edit.done and not edit.stepped and "chang" in error.message
        finally:
            source.write_bytes(original)
    return Figure(f"{n_noticed}/{len(stages)} stages noticed before the first step", n_noticed == len(stages))


def sizes_that_cannot_fit(harness: Harness) -> Figure:
    """Row 36: refused with the number of bytes, and without taking them."""
    n_ok, most = 0, 0.0
    for settings in SIZES:
        process = subprocess.Popen(
            harness.command(harness.fresh(), *settings.split()), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        peak = _watch_memory(process.pid)
        _, error = process.communicate(timeout=300)
        most = max(most, peak())
        n_ok += process.returncode == 2 and "needs at least" in error and "GB" in error
    text = f"{n_ok}/{len(SIZES)} refused; at most {most:.0f} MB in all, torch included"
    return Figure(text, n_ok == len(SIZES) and most < IMPORT_MB)


def _watch_memory(pid: int) -> Callable[[], float]:
    """A function that gives the most memory that a process has used, in MB."""
    peak, stopped = [0.0], Event()

    def watch() -> None:
        while not stopped.wait(0.02):
            try:
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            except OSError:
                return
            peak[0] = max([peak[0], *(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))])

    thread = Thread(target=watch, daemon=True)
    thread.start()

    def result() -> float:
        stopped.set()
        thread.join()
        return peak[0]

    return result
