"""Row 7: one and two stop signals."""

import os
import random
import signal
import time
from dataclasses import dataclass

from faults.harness import STEPS, Figure, Harness, last_step, wait_for_step, weights_of
from regard.training import Checkpoints

# a few steps of about two seconds, most of it in one call of torch
SLOW = (
    "model.d_model=128",
    "model.d_ff=1024",
    "model.n_encoder_layers=2",
    "model.n_decoder_layers=2",
    "training.max_tokens=12000",
    "training.steps=5",
    "training.save_every=2",
)
MAX_STOP_SECONDS = 0.5


@dataclass(frozen=True)
class Case:
    """A signal, sent once or twice to a running training."""

    number: signal.Signals
    times: int


def stop_signals(harness: Harness) -> Figure:
    """SIGTERM or Ctrl-C, once or twice; then resumed to the end, with the weights of an uninterrupted run."""
    kinds = (Case(signal.SIGTERM, 1), Case(signal.SIGINT, 1), Case(signal.SIGINT, 2), Case(signal.SIGTERM, 2))
    n_runs, rng = harness.times(20, 4), random.Random(1)
    slow_reference = harness.fresh()
    assert harness.train(slow_reference, *SLOW).returncode == 0
    failed, slowest_seconds = [], 0.0
    for index in range(n_runs):
        case = kinds[index % len(kinds)]
        if case.times == 1:
            conditions = _stopped_once(harness, case, rng)
        else:
            conditions, seconds = _stopped_twice(harness, case, rng, weights_of(slow_reference))
            slowest_seconds = max(slowest_seconds, seconds)
        failed += [
            f"{case.number.name} × {case.times}: not {what}" for what, is_true in conditions.items() if not is_true
        ][:1]
    text = f"{n_runs - len(failed)}/{n_runs}; after the second signal it ended in ≤ {slowest_seconds:.2f} s"
    return Figure("; ".join([text, *failed]), not failed)


def _stopped_once(harness: Harness, case: Case, rng: random.Random) -> dict[str, bool]:
    run = harness.fresh()
    process = harness.start(run)
    wait_for_step(run, process, rng.randint(1, STEPS - 10))
    os.killpg(process.pid, case.number)
    reached = last_step(run)
    code = process.wait(60)
    saved = Checkpoints(run / "checkpoints", keep_last=1, keep_best=0).steps()[-1]
    return {
        f"exit code {128 + case.number} but {code}": code == 128 + case.number,
        f"saved ({saved}) within a step of {reached}": saved == last_step(run) <= reached + 1,
        "without orphans": not _group_is_alive(process.pid),
        "the same weights": harness.train(run).returncode == 0 and weights_of(run) == weights_of(harness.reference),
    }


def _stopped_twice(
    harness: Harness, case: Case, rng: random.Random, expected: dict[str, str]
) -> tuple[dict[str, bool], float]:
    run = harness.fresh()
    process = harness.start(run, *SLOW)
    wait_for_step(run, process, rng.randint(1, 3))
    time.sleep(rng.uniform(0.1, 0.5))
    os.killpg(process.pid, case.number)
    time.sleep(rng.uniform(0.005, 0.05))
    sent_at = time.perf_counter()
    os.killpg(process.pid, case.number)
    code = process.wait(60)
    seconds = time.perf_counter() - sent_at
    conditions = {
        # it may die between its handler and its exit; a shell reports that as 143 too
        f"exit code {128 + case.number} but {code}": code in (128 + case.number, -case.number),
        f"at once but in {seconds:.2f} s": seconds < MAX_STOP_SECONDS,
        "without orphans": not _group_is_alive(process.pid),
        "the same weights": harness.train(run, *SLOW).returncode == 0 and weights_of(run) == expected,
    }
    return conditions, seconds


def _group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
