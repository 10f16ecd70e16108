"""Trainings that are killed, stopped, changed or started twice resume exactly, or are refused."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import regard
from regard.cli.serve import served_path
from regard.durable import lock_directory
from regard.serve import load_models

Arguments = Callable[..., list[str]]
SLOW = ("training.steps=100000", "training.save_every=100000", "training.validate_every=100000")
TIMEOUT_SECONDS = 180  # on a busy machine Python and torch alone may take half a minute to load
EVERYTHING = ("model.dropout=0.2", "text.sampling=0.1", "training.accumulate=2", "training.average=3")

CAN_USE_TWO_PROCESSES = hasattr(os, "memfd_create") and len(os.sched_getaffinity(0)) >= 2


def steps_in(run: Path) -> int:
    """The last step in the journal."""
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
    events = [json.loads(line) for line in lines]
    return max((event["step"] for event in events if event["event"] == "step"), default=0)


def wait_for_step(run: Path, step: int, process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while steps_in(run) < step:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "no step in time"
        time.sleep(0.01)


def everything_in(directory: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def process_group_has_ended(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_model_is_bit_identical_after_several_kills(
    regard: Any, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    whole = regard.train(text, "whole", *EVERYTHING)
    assert whole.returncode == 0, whole.stderr
    rng = Random(5)
    for step in sorted(rng.sample(range(2, 38), 3)):
        process = regard.start(*arguments(text, "parts", *EVERYTHING))
        wait_for_step(tmp_path / "parts", step, process)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=TIMEOUT_SECONDS)
        assert process_group_has_ended(process.pid)
    result = regard.train(text, "parts", *EVERYTHING)
    assert result.returncode == 0, result.stderr
    assert "resuming after step" in result.stderr
    expected, actual = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert actual == expected


def no_process_runs(group: int) -> bool:
    """Whether a process group has no running process; zombies do not count."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, process_group, *_ = path.read_text().rsplit(") ")[-1].split()
            if int(process_group) == group and state != "Z":
                return False
    return True


@pytest.mark.skipif(not CAN_USE_TWO_PROCESSES, reason="needs Linux and two cores")
def test_killing_a_training_with_two_processes_ends_both_and_resumes_exactly(
    regard: Any, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    """A model large enough for a worker process, which ends with the training and ignores signals to the group."""
    two_threads = replace(regard, n_threads=2)
    large = (
        "model.d_model=128",
        "model.d_ff=4000",
        "model.dropout=0.2",
        "training.max_tokens=128",
        "training.steps=60",
        "training.optimizer=adam",
    )
    assert two_threads.train(text, "whole", *large).returncode == 0

    killed = two_threads.start(*arguments(text, "parts", *large))
    wait_for_step(tmp_path / "parts", 12, killed)
    assert len(list(Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split())) == 1
    killed.kill()
    killed.communicate(timeout=TIMEOUT_SECONDS)
    until = time.monotonic() + TIMEOUT_SECONDS
    while not no_process_runs(killed.pid):
        assert time.monotonic() < until, "the worker is still running without its training"
        time.sleep(0.05)

    stopped = two_threads.start(*arguments(text, "parts", *large))
    wait_for_step(tmp_path / "parts", steps_in(tmp_path / "parts") + 2, stopped)
    os.killpg(stopped.pid, signal.SIGINT)
    _, err = stopped.communicate(timeout=TIMEOUT_SECONDS)
    assert (stopped.returncode, "Traceback" in err) == (130, False), err

    assert two_threads.train(text, "parts", *large).returncode == 0
    expected, actual = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert actual == expected


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_saves_after_the_current_step(
    regard: Any, text: Any, arguments: Arguments, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = regard.start(*arguments(text, "run", *SLOW))
    wait_for_step(tmp_path / "run", 3, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, out) == (code, "")
    last = steps_in(tmp_path / "run")
    assert (
        err.splitlines()[-1]
        == f"stopped after step {last} and saved a checkpoint; run the same command again to resume"
    )
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == [f"step-{last:08d}"]
    assert process_group_has_ended(process.pid)
    assert "Traceback" not in err


def test_second_signal_ends_at_once(regard: Any, text: Any, arguments: Arguments, tmp_path: Path) -> None:
    process = regard.start(*arguments(text, "run", *SLOW))
    wait_for_step(tmp_path / "run", 2, process)
    os.kill(process.pid, signal.SIGSTOP)  # both signals arrive before the next step
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGTERM)
    os.kill(process.pid, signal.SIGCONT)
    process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode in (130, 143)
    assert not list((tmp_path / "run").glob("checkpoints/step-*"))
    assert process_group_has_ended(process.pid)


def test_second_training_in_the_same_directory_is_refused(
    regard: Any, inline: Any, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    first = regard.start(*arguments(text, "run", *SLOW))
    wait_for_step(tmp_path / "run", 1, first)
    second = inline(*arguments(text, "run", *SLOW))
    assert second.returncode == 2
    assert second.stderr.startswith(f"error: run is being trained by process {first.pid}; hint: ")
    wait_for_step(tmp_path / "run", steps_in(tmp_path / "run") + 2, first)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=TIMEOUT_SECONDS)
    assert first.returncode == 143


def test_finished_run_is_not_changed(inline: Any, text: Any, arguments: Arguments, tmp_path: Path) -> None:
    command = arguments(text, "run", "training.steps=6")
    assert inline(*command).returncode == 0
    before = everything_in(tmp_path / "run")
    again = inline(*command)
    assert again.returncode == 0
    assert "run is finished" in again.stderr
    after = everything_in(tmp_path / "run")
    assert {name for name in before if before[name] != after[name]} <= {".lock"}
    assert before.keys() == after.keys()

    changed = inline(*command, "--set", "model.dropout=0.3")
    assert changed.returncode == 2
    assert changed.stderr.startswith(
        "error: the run in run was started with another recipe: model.dropout was 0.0 and is 0.3; hint"
    )


def test_edited_text_is_refused_on_resume(inline: Any, text: Any, arguments: Arguments, tmp_path: Path) -> None:
    command = arguments(text, "run", "training.steps=4")
    assert inline(*command).returncode == 0
    shutil.rmtree(tmp_path / "run" / "model")  # as if it had been interrupted before the end
    text.target.write_text(text.target.read_text().replace("1", "2", 1))
    refused = inline(*command)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "error: the training text has changed since this run began; "
        "hint: restore the original files, or train in another directory\n"
    )


def test_interrupted_run_translates_with_its_newest_checkpoint_and_can_be_fine_tuned(
    inline: Callable[..., Any], arguments: Arguments, text: Any, tmp_path: Path
) -> None:
    assert inline(*arguments(text, "run")).returncode == 0
    run, whole = tmp_path / "run", tmp_path / "whole"
    shutil.copytree(run, whole)
    shutil.rmtree(run / "model")
    notice = "run has not finished training: this is its checkpoint after step 40\n"
    before = {path: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()}
    for _ in range(2):  # the second time it is written already
        result = inline("translate", "run", str(text.source), "--beam", "1", "--engine", "torch")
        assert result.returncode == 0 and result.stderr.startswith(notice) and result.stderr.count(notice) == 1
        assert len(result.stdout.splitlines()) == 300
        tuned = run / "checkpoint-model" / "manifest.json"
        written_at = tuned.stat().st_mtime_ns
    assert tuned.stat().st_mtime_ns == written_at
    assert {path: path.read_bytes() for path in before} == before
    with pytest.warns(UserWarning, match=notice.strip()), regard.load(run) as translator:  # type: ignore[attr-defined]
        assert translator.predict(["1 2"])[0].text  # by a Translator
    [served] = load_models([served_path(run)], n_engines=1)
    assert served.ready and (served.name, served.run) == ("run", run)
    with lock_directory(run):  # while it trains, its training is shown, not a model
        assert served_path(run) == run
    result = inline(*arguments(text, "tuned", "--from", "run", "training.steps=2"))
    assert result.returncode == 0 and notice in result.stderr, result.stderr
    assert inline(*arguments(text, "run")).returncode == 0  # goes on as if nothing had happened
    assert (run / "model" / "model.safetensors").read_bytes() == (whole / "model" / "model.safetensors").read_bytes()
    assert inline("translate", "run", str(text.source)).stderr.count("has not finished") == 0


def test_run_without_a_checkpoint_has_no_model_yet(inline: Callable[..., Any], text: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").touch()
    result = inline("translate", "run", str(text.source))
    assert result.returncode == 2 and "wait until its training has finished" in result.stderr
