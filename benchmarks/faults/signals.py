"""Row 7: asked to stop, once and twice."""

import os
import random
import signal
import time
from dataclasses import dataclass

from faults.lab import STEPS, Figure, Lab, last_step, wait_for_step, weights_of
from regard.training import Checkpoints

# a few steps of about two seconds, nearly all of them in one call of torch's
SLOW = (
    "model.d_model=128",
    "model.d_ff=1024",
    "model.n_encoder_layers=2",
    "model.n_decoder_layers=2",
    "training.max_tokens=12000",
    "training.steps=5",
    "training.save_every=2",
)
AT_ONCE_SECONDS = 0.5


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
    failed, slowest_seconds = [], 0.0
    for index in range(n_runs):
        case = kinds[index % len(kinds)]
        if case.times == 1:
            held = _stopped_once(lab, case, rng)
        else:
            held, seconds = _stopped_twice(lab, case, rng, weights_of(slow_reference))
            slowest_seconds = max(slowest_seconds, seconds)
        failed += [f"{case.number.name} × {case.times}: not {what}" for what, true in held.items() if not true][:1]
    text = f"{n_runs - len(failed)}/{n_runs}; the second signal ended it in ≤ {slowest_seconds:.2f} s"
    return Figure("; ".join([text, *failed]), not failed)


def _stopped_once(lab: Lab, case: Case, rng: random.Random) -> dict[str, bool]:
    run = lab.fresh()
    process = lab.start(run)
    wait_for_step(run, process, rng.randint(1, STEPS - 10))
    os.killpg(process.pid, case.number)
    reached = last_step(run)
    code = process.wait(60)
    saved = Checkpoints(run / "checkpoints", keep_last=1, keep_best=0).steps()[-1]
    return {
        f"exit code {128 + case.number} but {code}": code == 128 + case.number,
        f"saved ({saved}) within a step of {reached}": saved == last_step(run) <= reached + 1,
        "alone": not _group_lives(process.pid),
        "the same end": lab.train(run).returncode == 0 and weights_of(run) == weights_of(lab.reference),
    }


def _stopped_twice(lab: Lab, case: Case, rng: random.Random, expected: dict[str, str]) -> tuple[dict[str, bool], float]:
    run = lab.fresh()
    process = lab.start(run, *SLOW)
    wait_for_step(run, process, rng.randint(1, 3))
    time.sleep(rng.uniform(0.1, 0.5))
    os.killpg(process.pid, case.number)
    time.sleep(rng.uniform(0.005, 0.05))
    sent_at = time.perf_counter()
    os.killpg(process.pid, case.number)
    code = process.wait(60)
    seconds = time.perf_counter() - sent_at
    held = {
        # killed in the moment between its own handler and its end: a shell says 143 of that, too
        f"exit code {128 + case.number} but {code}": code in (128 + case.number, -case.number),
        f"at once but in {seconds:.2f} s": seconds < AT_ONCE_SECONDS,
        "alone": not _group_lives(process.pid),
        "the same end": lab.train(run, *SLOW).returncode == 0 and weights_of(run) == expected,
    }
    return held, seconds


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
