"""`--processes`: a rank that dies ends the others with its name, and an exact run goes on with another number."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from socket import gethostname
from typing import Any

from .test_interruptions import TIMEOUT_SECONDS, no_process_runs, wait_for_step

Arguments = Callable[..., list[str]]
EXACT = ("training.exact=true", "training.accumulate=2", "model.dropout=0.2", "training.max_tokens=256")


def test_run_of_two_processes_whose_rank_was_killed_goes_on_with_one(
    regard: Any, inline: Any, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    process = regard.start(*arguments(text, "parts", *EXACT), "--processes", "2")
    wait_for_step(tmp_path / "parts", 12, process)
    [other] = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    os.kill(other, signal.SIGKILL)
    _, err = process.communicate(timeout=TIMEOUT_SECONDS)
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    hint = "the same command resumes from the last checkpoint"
    assert errors == [f"error: rank 1 (process {other} on {gethostname()}) has ended; hint: {hint}"]
    assert process.returncode == 2 and "Traceback" not in err
    assert no_process_runs(process.pid)
    for name in ("parts", "whole"):
        result = inline(*arguments(text, name, *EXACT))
        assert result.returncode == 0, result.stderr
    expected, actual = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert actual == expected


def test_number_of_processes_that_does_not_fit_is_refused_in_words(
    inline: Any, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    refused = inline(*arguments(text, "run", "training.processes=3"))
    assert (refused.returncode, (tmp_path / "run" / "recipe.toml").exists()) == (2, False)
    assert refused.stderr.startswith("error: training.processes is 3, and 1 would share this training; hint: ")
