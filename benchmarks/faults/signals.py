"""Row 7: asked to stop, once and twice."""

import os
import random
import signal
import time
from dataclasses import dataclass

from faults.lab import STEPS, Figure, Lab, last_step, wait_for_step, weights_of
from regard.training import Checkpoints

SLOW = ("training.accumulate=24", "training.steps=20", "training.save_every=5")  # steps long enough to interrupt twice


@dataclass(frozen=True)
class Case:
    """Signals to a training that has taken some steps."""

    number: signal.Signals
    times: int


def asked_to_stop(lab: Lab) -> Figure:
    """SIGTERM, Ctrl-C, Ctrl-C twice; then on to the end, which is that of a run that nobody stopped."""
    kinds = (Case(signal.SIGTERM, 1), Case(signal.SIGINT, 1), Case(signal.SIGINT, 2), Case(signal.SIGTERM, 2))
    n_runs, rng = lab.times(20, 4), random.Random(1)
    slow_reference = lab.fresh()
    assert lab.train(slow_reference, *SLOW).returncode == 0
    n_ok, slowest_seconds = 0, 0.0
    for index in range(n_runs):
        case = kinds[index % len(kinds)]
        if case.times == 1:
            n_ok += _stopped_once(lab, case, rng)
        else:
            held, seconds = _stopped_twice(lab, case, rng, weights_of(slow_reference))
            n_ok += held
            slowest_seconds = max(slowest_seconds, seconds)
    return Figure(f"{n_ok}/{n_runs}; the second signal ended it in ≤ {slowest_seconds:.2f} s", n_ok == n_runs)


def _stopped_once(lab: Lab, case: Case, rng: random.Random) -> bool:
    run = lab.fresh()
    process = lab.start(run)
    wait_for_step(run, process, rng.randint(1, STEPS - 10))
    os.killpg(process.pid, case.number)
    reached = last_step(run)
    code = process.wait(60)
    saved = Checkpoints(run / "checkpoints", keep_last=1, keep_best=0).steps()[-1]
    within_a_step = saved == last_step(run) <= reached + 1
    alone = not _group_lives(process.pid)
    ends = lab.train(run).returncode == 0 and weights_of(run) == weights_of(lab.reference)
    return code == 128 + case.number and within_a_step and alone and ends


def _stopped_twice(lab: Lab, case: Case, rng: random.Random, expected: dict[str, str]) -> tuple[bool, float]:
    run = lab.fresh()
    process = lab.start(run, *SLOW)
    wait_for_step(run, process, rng.randint(1, 15))
    os.killpg(process.pid, case.number)
    time.sleep(rng.uniform(0.005, 0.05))
    os.killpg(process.pid, case.number)
    sent_at = time.perf_counter()
    code = process.wait(60)
    seconds = time.perf_counter() - sent_at
    alone = not _group_lives(process.pid)
    ends = lab.train(run, *SLOW).returncode == 0 and weights_of(run) == expected
    return code == 128 + case.number and seconds < 1 and alone and ends, seconds


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
