"""Runs a function in a forked child process that may crash, hang or be killed, without importing torch again."""

import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError

BEGIN, END = "/begin", "/end"  # files that do not exist; looking for them marks a place in the list of system calls
_CALL = re.compile(r"(\w+)\(")


@dataclass(frozen=True)
class Outcome:
    """How the function ended: done, refused (a UserError), raised (anything else), killed or hung."""

    how: str
    message: str
    seconds: float
    grown_mb: float  # peak memory above that of the process before


def in_child(work: Callable[[], Any], *, limit_seconds: float = 20.0, strace: Sequence[str] = ()) -> Outcome:
    """Run the function in a child, under strace if options are given."""
    (report_out, report_in), (go_out, go_in) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.read(go_out, 1)
            os.write(report_in, json.dumps(_measured(work)).encode())
        finally:
            os._exit(0)
    os.close(report_in)
    tracer = _attach(child, strace) if strace else None
    os.write(go_in, b"!")
    started_at = time.perf_counter()
    ready, _, _ = select.select([report_out], [], [], limit_seconds)
    data = os.read(report_out, 65_536) if ready else b""
    if not data and not ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if tracer is not None:
        tracer.communicate()
    for descriptor in (report_out, go_out, go_in):
        os.close(descriptor)
    if data:
        return Outcome(**json.loads(data))
    how = "killed" if ready else "hung"
    return Outcome(how, f"signal {os.WTERMSIG(status)}", time.perf_counter() - started_at, 0.0)


def _measured(work: Callable[[], Any]) -> dict[str, Any]:
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before_kb = _memory_kb("VmRSS")
    started_at = time.perf_counter()
    how, message = "done", ""
    try:
        os.access(BEGIN, os.F_OK)
        work()
        os.access(END, os.F_OK)
    except UserError as error:
        how, message = "refused", str(error)
    except BaseException as error:
        how, message = "raised", f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started_at
    grown_mb = (_memory_kb("VmHWM") - before_kb) / 1024
    return {"how": how, "message": message[:2000], "seconds": seconds, "grown_mb": grown_mb}


def _memory_kb(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise AssertionError(name)


def _attach(child: int, options: Sequence[str]) -> "subprocess.Popen[str]":
    command = ["strace", *options, "-p", str(child)]
    tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    message = tracer.stderr.readline()
    if "attached" not in message:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise RuntimeError(f"strace cannot attach: {message.strip()}")
    return tracer


def system_calls(work: Callable[[], Any], log: Path) -> list[tuple[str, int]]:
    """Every system call of the function, in order: its name, and how often it was called so far."""
    outcome = in_child(work, strace=("-o", str(log)))
    assert outcome.how == "done", outcome
    counts: dict[str, int] = {}
    calls, inside = [], False
    for line in log.read_text().splitlines()[1:]:  # the first is the wait that began before strace attached
        match = _CALL.match(line)
        if match is None:
            continue
        counts[match[1]] = counts.get(match[1], 0) + 1
        if f'"{END}"' in line:
            break
        if inside:
            calls.append((match[1], counts[match[1]]))
        inside = inside or f'"{BEGIN}"' in line
    log.unlink()
    return calls
