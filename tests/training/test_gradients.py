"""Gradients in two processes equal those in one, are reproducible, and errors of the worker are reported."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from regard.training.gradients.gradients import (
    MIN_PARAMETERS_FOR_TWO,
    Gradients,
    LossSums,
    SingleProcess,
    TwoProcesses,
    _every_second,
    make_gradients,
)
from torch import Tensor

from regard.data import Batch, Cursor, updates
from regard.errors import RunError
from regard.models import Transformer, TransformerConfig
from regard.training import Training, TrainingConfig
from regard.training.gradients import two_processes
from regard.training.gradients.two_processes import WorkerProcess
from regard.training.gradients.worker import compute
from regard.training.objectives import BatchLoss, make_objective

Maker = Callable[..., Training]
CPU = torch.device("cpu")
needs_two_processes = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memfd_create")


def first_batch(training: Training) -> Batch:
    return next(updates(training.store, training.loader, Cursor()))[0][0]


def first_row(batch: Batch) -> Batch:
    return Batch(
        batch.src[:1], batch.tgt_in[:1], batch.tgt_out[:1], int((batch.tgt_out[:1] != 0).sum()), batch.indices[:1]
    )


def gradients_of(
    gradients: Gradients, model: Transformer, batch: Batch, times: int = 1
) -> tuple[float, float, list[Tensor]]:
    model.zero_grad(set_to_none=True)
    torch.manual_seed(5)
    for _ in range(times):
        sums = gradients(batch, batch.n_tokens)
    return *sums, [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@needs_two_processes
@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_two_processes_compute_the_gradient_of_the_whole_batch(make_training: Maker, r_drop: float) -> None:
    training = make_training("a", r_drop=r_drop)
    whole, model = first_batch(training), training.model
    single = SingleProcess(training.config, model, make_objective(training.config), CPU)
    with closing(TwoProcesses(training.config, model, 1)) as halves:
        for batch in (whole, first_row(whole)):
            for times in (1, 2):  # 2: an update with two batches
                loss, nll, gradients = gradients_of(single, model, batch, times)
                loss_of_two, nll_of_two, gradients_of_two = gradients_of(halves, model, batch, times)
                assert (loss_of_two, nll_of_two) == pytest.approx((loss, nll), rel=1e-5)
                assert len(gradients_of_two) == len(gradients) > 10
                for expected, actual in zip(gradients, gradients_of_two, strict=True):
                    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


@needs_two_processes
@pytest.mark.parametrize("shape", [{"tie": "none"}, {"tie": "target"}, {"positions": "learned", "norm": "pre"}])
def test_worker_builds_the_same_model_for_every_configuration(shape: dict[str, str]) -> None:
    sizes = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2, "dropout": 0.0}
    n_src, n_tgt = (30, 20) if shape.get("tie") else (20, 20)
    model = Transformer(TransformerConfig.model_validate(sizes | shape), n_src, n_tgt).train()
    ids = torch.tensor([[4, 5, 6, 3], [7, 8, 3, 0], [9, 3, 0, 0]])
    batch, config = Batch(ids, ids, ids, 9, torch.arange(3).numpy()), TrainingConfig()
    whole = gradients_of(SingleProcess(config, model, make_objective(config), CPU), model, batch)
    with closing(TwoProcesses(config, model, 1)) as gradients:
        halves = gradients_of(gradients, model, batch)
    assert halves[:2] == pytest.approx(whole[:2], rel=1e-5)
    for expected, actual in zip(whole[2], halves[2], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


@needs_two_processes
def test_both_processes_compute_in_bfloat16(make_training: Maker) -> None:
    training = make_training("a", precision="bfloat16")
    batch, model = first_batch(training), training.model
    exact, rounded = (
        SingleProcess(config, model, make_objective(config), CPU) for config in (TrainingConfig(), training.config)
    )

    def gradient(method: Gradients, part: Batch) -> Tensor:
        model.zero_grad(set_to_none=True)
        method(part, batch.n_tokens)
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])

    with closing(TwoProcesses(training.config, model, 1)) as halves:
        whole, two = gradient(exact, batch), gradient(halves, batch)
    first_half, second_half = (_every_second(batch, first, model.pad_id) for first in range(2))
    both_rounded, one_rounded = (
        gradient(rounded, first_half) + gradient(method, second_half) for method in (rounded, exact)
    )
    assert two.dtype == torch.float32
    assert torch.cosine_similarity(whole, two, dim=0) > 0.99
    assert float((two - both_rounded).norm()) < 0.01 * float((two - one_rounded).norm())


@needs_two_processes
def test_gradients_with_dropout_are_reproducible(make_training: Maker) -> None:
    training = make_training("a", dropout=0.3)
    batch, model = first_batch(training), training.model
    with closing(TwoProcesses(training.config, model, 1)) as gradients:
        first = gradients_of(gradients, model, batch)
        for _ in range(10):
            again = gradients_of(gradients, model, batch)
            assert again[:2] == first[:2]
            assert all(torch.equal(actual, expected) for actual, expected in zip(again[2], first[2], strict=True))


@needs_two_processes
def test_processes_use_different_dropout_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equal sentences, one per process: with the same mask they would have the same loss."""
    torch.manual_seed(1)
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=32, n_heads=2, dropout=0.5)
    model = Transformer(config, 20, 20).train()
    ids = torch.tensor([[4, 5, 6, 3]] * 2)
    local: list[LossSums] = []

    def recorded(self: SingleProcess, batch: Batch, n_tokens: int, of: Any = SingleProcess.__call__) -> LossSums:
        local.append(of(self, batch, n_tokens))
        return local[-1]

    monkeypatch.setattr(SingleProcess, "__call__", recorded)
    with closing(TwoProcesses(TrainingConfig(), model, 1)) as gradients:
        both = gradients(Batch(ids, ids, ids, 8, torch.arange(2).numpy()), 8)
    assert len(local) == 1
    assert abs(both.nll - 2 * local[0].nll) > 1e-3


@needs_two_processes
def test_worker_uses_the_current_weights(make_training: Maker) -> None:
    training = make_training("a")
    batch, model = first_batch(training), training.model
    with closing(TwoProcesses(training.config, model, 1)) as gradients:
        before = gradients_of(gradients, model, batch)[0]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5)
        after = gradients_of(gradients, model, batch)[0]
    single = SingleProcess(training.config, model, make_objective(training.config), CPU)
    assert after == pytest.approx(gradients_of(single, model, batch)[0], rel=1e-5)
    assert after != pytest.approx(before, rel=1e-3)


@needs_two_processes
@pytest.mark.parametrize(
    ("n_parameters", "n_threads", "kind"),
    [
        (MIN_PARAMETERS_FOR_TWO, 2, TwoProcesses),
        (MIN_PARAMETERS_FOR_TWO, 1, SingleProcess),
        (MIN_PARAMETERS_FOR_TWO, 3, SingleProcess),
        (MIN_PARAMETERS_FOR_TWO - 1, 2, SingleProcess),
    ],
)
def test_two_processes_are_used_for_large_models_and_an_even_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, n_parameters: int, n_threads: int, kind: type
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(Transformer, "n_parameters", n_parameters)
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=4, d_ff=4, n_heads=2)
    model = Transformer(config, 20, 20)
    with closing(make_gradients(TrainingConfig(), model, CPU)) as gradients:
        assert type(gradients) is kind
    with closing(make_gradients(TrainingConfig(), model, torch.device("meta"))) as gradients:
        assert type(gradients) is SingleProcess


def large_model(monkeypatch: pytest.MonkeyPatch) -> Transformer:
    """A model that reports enough parameters for two processes, on a machine that reports two cores."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(Transformer, "n_parameters", MIN_PARAMETERS_FOR_TWO)
    return Transformer(TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=4, d_ff=4, n_heads=2), 20, 20)


@needs_two_processes
@pytest.mark.parametrize("reason", ["frozen", "double", "one core", "no process"])
def test_single_process_is_used_where_two_are_not_supported(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    model = large_model(monkeypatch)
    if reason == "frozen":
        next(model.parameters()).requires_grad_(False)
    elif reason == "double":
        model.double()
    elif reason == "one core":
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    else:

        def refuse(*_: Any, **__: Any) -> None:
            raise BlockingIOError("too many processes")

        monkeypatch.setattr(subprocess, "Popen", refuse)
    with closing(make_gradients(TrainingConfig(), model, CPU)) as gradients:
        assert type(gradients) is SingleProcess


@needs_two_processes
def test_thread_count_is_set_during_the_computation_and_restored(
    monkeypatch: pytest.MonkeyPatch, make_training: Maker
) -> None:
    training = make_training("a")
    n_threads = torch.get_num_threads()
    seen: list[int] = []

    def recorded(self: SingleProcess, batch: Batch, n_tokens: int, of: Any = SingleProcess.__call__) -> LossSums:
        seen.append(torch.get_num_threads())
        return of(self, batch, n_tokens)

    monkeypatch.setattr(SingleProcess, "__call__", recorded)
    with closing(TwoProcesses(training.config, training.model, n_threads_each=n_threads + 1)) as gradients:
        gradients(first_batch(training), 10)
    assert seen == [n_threads + 1]
    assert torch.get_num_threads() == n_threads


@needs_two_processes
def test_killed_worker_raises_run_error(make_training: Maker) -> None:
    training = make_training("a")
    batch = first_batch(training)
    with closing(TwoProcesses(training.config, training.model, 1)) as gradients:
        gradients(batch, batch.n_tokens)
        os.kill(gradients._worker.pid, signal.SIGKILL)
        with pytest.raises(
            RunError, match=r"worker process, .*, has ended \(signal 9\); hint: .*resumes from the last"
        ):
            for _ in range(2):  # the first request may still be sent
                gradients(batch, batch.n_tokens)


@needs_two_processes
def test_worker_ignores_signals_to_the_process_group(monkeypatch: pytest.MonkeyPatch, make_training: Maker) -> None:
    """Ctrl-C and the SIGTERM of a service manager reach both processes: the training still completes its step."""
    training = make_training("a")
    batch = first_batch(training)
    started: list[int] = []

    def interrupted(self: WorkerProcess, of: Any = WorkerProcess._start) -> None:
        of(self)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(self.pid, number)  # at once, while it is still importing torch
        started.append(self.pid)

    monkeypatch.setattr(WorkerProcess, "_start", interrupted)
    with closing(TwoProcesses(training.config, training.model, 1)) as gradients:
        os.kill(started[0], signal.SIGINT)
        assert gradients(batch, batch.n_tokens).loss > 0


PARENT = """
import os, sys, torch
from regard.models import Transformer, TransformerConfig
from regard.training import TrainingConfig
from regard.training.gradients.gradients import TwoProcesses
config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=32, n_heads=2)
gradients = TwoProcesses(TrainingConfig(), Transformer(config, 20, 20), 1)
print(gradients._worker.pid, flush=True)
sys.stdin.read()
"""


@needs_two_processes
def test_worker_ends_when_the_training_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    give_up_at = monotonic() + 30
    while _runs(pid) and monotonic() < give_up_at:
        sleep(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    except OSError:
        return False


@needs_two_processes
def test_worker_error_is_reported_on_one_line(monkeypatch: pytest.MonkeyPatch, make_training: Maker) -> None:
    training = make_training("a")
    monkeypatch.setattr(TrainingConfig, "model_dump", lambda self, mode: {"steps": "many"})
    with pytest.raises(RunError, match=r"worker process, .*, failed: ValidationError") as error:
        TwoProcesses(training.config, training.model, 1)
    assert "\n" not in str(error.value)


@needs_two_processes
def test_stale_result_is_not_used_after_an_error_in_the_local_half(
    monkeypatch: pytest.MonkeyPatch, make_training: Maker
) -> None:
    training = make_training("a")
    batch = first_batch(training)
    gradients = TwoProcesses(training.config, training.model, 1)

    def full(*_: Any) -> LossSums:
        raise RunError("full")

    with monkeypatch.context() as patched, pytest.raises(RunError, match="full"):
        patched.setattr(SingleProcess, "__call__", full)
        gradients(batch, batch.n_tokens)
    with pytest.raises(RunError, match="has ended"):
        gradients(batch, batch.n_tokens)


def test_worker_returns_run_errors_as_messages(make_training: Maker) -> None:
    training = make_training("a")

    def full(batch: Batch, n_tokens: int) -> LossSums:
        raise RunError("there is no memory", hint="take less")

    request = {"seed": 1, "n_tokens": 3, "shapes": [[1, 1]] * 3}
    ids = torch.tensor([4, 2, 5]).numpy().tobytes()
    assert compute(request, ids, training.model, full) == {"message": "there is no memory", "hint": "take less"}


@pytest.fixture
def failing(make_training: Maker) -> Callable[[RuntimeError], None]:
    """Computes a gradient with an objective that raises this error."""

    def take(error: RuntimeError) -> None:
        def objective(*_: Any) -> BatchLoss:
            raise error

        training = make_training("a")
        SingleProcess(training.config, training.model, objective, CPU)(first_batch(training), 10)

    return take


@pytest.mark.parametrize(
    "error", [RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), torch.OutOfMemoryError("full")]
)
def test_out_of_memory_raises_run_error(failing: Callable[[RuntimeError], None], error: RuntimeError) -> None:
    with pytest.raises(RunError, match=r"not enough memory on the cpu .*; hint: lower training.max_tokens \(now 100\)"):
        failing(error)


def test_other_pytorch_errors_are_not_reported_as_out_of_memory(failing: Callable[[RuntimeError], None]) -> None:
    with pytest.raises(RuntimeError, match="mat1"):
        failing(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@needs_two_processes
def test_worker_uses_the_matmul_precision_of_the_training(
    make_training: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = make_training("a")
    monkeypatch.setattr(two_processes, "MATMUL", SimpleNamespace(fp32_precision="by hand"))
    with pytest.raises(RunError, match=r"failed: RuntimeError: .*by hand"):
        TwoProcesses(training.config, training.model, 1)
