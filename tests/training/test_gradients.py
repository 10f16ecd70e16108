"""Gradients in two processes equal those in one, are reproducible, and errors of the worker are reported."""

import json
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
from torch import Tensor

from regard.data import Batch, Cursor, Place
from regard.errors import RunError
from regard.models import Model, ModelSpec, Transformer, TransformerConfig
from regard.training import Training, TrainingConfig
from regard.training.gradients import (
    MIN_PARAMETERS_FOR_TWO,
    BatchLoss,
    Gradients,
    make_gradients,
    one_process,
    setup,
)
from regard.training.gradients.messages import decode_batch, encode_request
from regard.training.gradients.one_process import OneProcess
from regard.training.gradients.two_processes import TwoProcesses, WorkerProcess
from regard.training.gradients.worker import compute

Maker = Callable[..., Training]
CPU = torch.device("cpu")
needs_two_processes = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memfd_create")


def first_batch(training: Training) -> Batch:
    return next(training.loader.updates(Cursor()))[0][0]


def spec_of(model: Transformer) -> ModelSpec:
    n_src, n_tgt = len(model.source.embedding.weight), len(model.output_weight)
    sizes = {"n_src_symbols": n_src, "n_tgt_symbols": n_tgt, "pad_id": model.pad_id}
    return ModelSpec("translation", "transformer", model.config, sizes)


def in_two(config: TrainingConfig, model: Any, n_threads_each: int = 1) -> TwoProcesses:
    return TwoProcesses(config, spec_of(model), model, n_threads_each)


def make_batch(ids: Tensor, n_targets: int) -> Batch:
    return Batch((ids, ids), (ids.masked_fill(ids == 0, -100),), (n_targets,), Place(), torch.arange(len(ids)).numpy())


def first_row(batch: Batch) -> Batch:
    return batch.rows(slice(0, 1))


def gradients_of(gradients: Gradients, model: Model, batch: Batch, times: int = 1) -> tuple[float, float, list[Tensor]]:
    model.zero_grad(set_to_none=True)
    for _ in range(times):
        loss = gradients(batch, batch.n_targets)
    return (
        loss.loss,
        loss.nll["tokens"],
        [parameter.grad for parameter in model.parameters() if parameter.grad is not None],
    )


@needs_two_processes
@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_two_processes_compute_the_gradient_of_the_whole_batch(make_training: Maker, r_drop: float) -> None:
    training = make_training("a", r_drop=r_drop)
    whole, model = first_batch(training), training.model
    single = OneProcess(training.config, model, CPU)
    with closing(in_two(training.config, model)) as halves:
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
    batch, config = make_batch(ids, 9), TrainingConfig()
    whole = gradients_of(OneProcess(config, model, CPU), model, batch)
    with closing(in_two(config, model)) as gradients:
        halves = gradients_of(gradients, model, batch)
    assert halves[:2] == pytest.approx(whole[:2], rel=1e-5)
    for expected, actual in zip(whole[2], halves[2], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


@needs_two_processes
def test_both_processes_compute_in_bfloat16(make_training: Maker) -> None:
    training = make_training("a", precision="bfloat16")
    batch, model = first_batch(training), training.model
    exact, rounded = (OneProcess(config, model, CPU) for config in (TrainingConfig(), training.config))

    def gradient(method: Gradients, part: Batch) -> Tensor:
        model.zero_grad(set_to_none=True)
        method(part, batch.n_targets)
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])

    with closing(in_two(training.config, model)) as halves:
        whole, two = gradient(exact, batch), gradient(halves, batch)
    first_half, second_half = (batch.rows(slice(first, None, 2)) for first in range(2))
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
    with closing(in_two(training.config, model)) as gradients:
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
    local: list[BatchLoss] = []

    def recorded(self: OneProcess, *arguments: Any, of: Any = OneProcess.compute) -> BatchLoss:
        local.append(of(self, *arguments))
        return local[-1]

    monkeypatch.setattr(OneProcess, "compute", recorded)
    with closing(in_two(TrainingConfig(), model)) as gradients:
        both = gradients(make_batch(ids, 8), (8,))
    assert len(local) == 1
    assert abs(both.nll["tokens"] - 2 * local[0].nll["tokens"]) > 1e-3


@needs_two_processes
def test_worker_uses_the_current_weights(make_training: Maker) -> None:
    training = make_training("a")
    batch, model = first_batch(training), training.model
    with closing(in_two(training.config, model)) as gradients:
        before = gradients_of(gradients, model, batch)[0]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5)
        after = gradients_of(gradients, model, batch)[0]
    single = OneProcess(training.config, model, CPU)
    assert after == pytest.approx(gradients_of(single, model, batch)[0], rel=1e-5)
    assert after != pytest.approx(before, rel=1e-3)


@needs_two_processes
@pytest.mark.parametrize(
    ("n_parameters", "n_threads", "kind"),
    [
        (MIN_PARAMETERS_FOR_TWO, 2, TwoProcesses),
        (MIN_PARAMETERS_FOR_TWO, 1, OneProcess),
        (MIN_PARAMETERS_FOR_TWO, 3, OneProcess),
        (MIN_PARAMETERS_FOR_TWO - 1, 2, OneProcess),
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
    with closing(make_gradients(TrainingConfig(), spec_of(model), model, CPU)) as gradients:
        assert type(gradients) is kind
    with closing(make_gradients(TrainingConfig(), spec_of(model), model, torch.device("meta"))) as gradients:
        assert type(gradients) is OneProcess


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
    with closing(make_gradients(TrainingConfig(), spec_of(model), model, CPU)) as gradients:
        assert type(gradients) is OneProcess


@needs_two_processes
def test_thread_count_is_set_during_the_computation_and_restored(
    monkeypatch: pytest.MonkeyPatch, make_training: Maker
) -> None:
    training = make_training("a")
    n_threads = torch.get_num_threads()
    seen: list[int] = []

    def recorded(self: OneProcess, *arguments: Any, of: Any = OneProcess.compute) -> BatchLoss:
        seen.append(torch.get_num_threads())
        return of(self, *arguments)

    monkeypatch.setattr(OneProcess, "compute", recorded)
    with closing(in_two(training.config, training.model, n_threads + 1)) as gradients:
        gradients(first_batch(training), (10,))
    assert seen == [n_threads + 1]
    assert torch.get_num_threads() == n_threads


@needs_two_processes
def test_killed_worker_raises_run_error(make_training: Maker) -> None:
    training = make_training("a")
    batch = first_batch(training)
    with closing(in_two(training.config, training.model)) as gradients:
        gradients(batch, batch.n_targets)
        os.kill(gradients._worker._process.pid, signal.SIGKILL)
        with pytest.raises(
            RunError, match=r"worker process, .*, has ended \(signal 9\); hint: .*resumes from the last"
        ):
            for _ in range(2):  # the first request may still be sent
                gradients(batch, batch.n_targets)


@needs_two_processes
def test_worker_ignores_signals_to_the_process_group(monkeypatch: pytest.MonkeyPatch, make_training: Maker) -> None:
    """Ctrl-C and the SIGTERM of a service manager reach both processes: the training still completes its step."""
    training = make_training("a")
    batch = first_batch(training)
    started: list[int] = []

    def interrupted(self: WorkerProcess, of: Any = WorkerProcess._start) -> None:
        of(self)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(self._process.pid, number)  # at once, while it is still importing torch
        started.append(self._process.pid)

    monkeypatch.setattr(WorkerProcess, "_start", interrupted)
    with closing(in_two(training.config, training.model)) as gradients:
        os.kill(started[0], signal.SIGINT)
        assert gradients(batch, batch.n_targets).loss > 0


PARENT = """
import os, sys, torch
from regard.models import ModelSpec, TransformerConfig
from regard.training import TrainingConfig
from regard.training.gradients.two_processes import TwoProcesses
config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=32, n_heads=2)
spec = ModelSpec("translation", "transformer", config, {"n_src_symbols": 20, "n_tgt_symbols": 20})
gradients = TwoProcesses(TrainingConfig(), spec, spec.build(), 1)
print(gradients._worker._process.pid, flush=True)
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
        in_two(training.config, training.model)
    assert "\n" not in str(error.value)


@needs_two_processes
def test_stale_result_is_not_used_after_an_error_in_the_local_half(
    monkeypatch: pytest.MonkeyPatch, make_training: Maker
) -> None:
    training = make_training("a")
    batch = first_batch(training)
    gradients = in_two(training.config, training.model)

    def full(*_: Any) -> BatchLoss:
        raise RunError("full")

    with monkeypatch.context() as patched, pytest.raises(RunError, match="full"):
        patched.setattr(OneProcess, "compute", full)
        gradients(batch, batch.n_targets)
    with pytest.raises(RunError, match="has ended"):
        gradients(batch, batch.n_targets)


def test_worker_returns_run_errors_as_messages(make_training: Maker) -> None:
    training = make_training("a")

    def full(*_: Any) -> BatchLoss:
        raise RunError("there is no memory", hint="take less")

    request, data = encode_request(first_batch(training), (3,), 1)
    reply = compute(json.loads(request), data, training.model, SimpleNamespace(compute=full))  # type: ignore[arg-type]
    assert reply == {"message": "there is no memory", "hint": "take less"}


def test_a_batch_of_any_tensors_reaches_the_worker_unchanged() -> None:
    inputs = (
        torch.tensor([[1, -2], [3, 2**40]]), torch.rand(2, 3, 1), torch.tensor([True, False]),
        torch.tensor([[7], [255]], dtype=torch.uint8), torch.rand(2, 3).bfloat16(),
        torch.empty(2, 0, dtype=torch.int32),
    )  # fmt: skip
    batch = Batch(inputs, (torch.tensor([5, -100]),), (1, 0), Place(3, 4, 5, 6, 7), torch.arange(2).numpy())
    request, data = encode_request(batch, (9, 1), 12)
    decoded = decode_batch(json.loads(request), data)
    assert (len(decoded.inputs), len(decoded.targets), decoded.place) == (6, 1, batch.place)
    assert decoded.n_targets == batch.n_targets
    for sent, received in zip((*inputs, *batch.targets), (*decoded.inputs, *decoded.targets), strict=True):
        assert received.dtype == sent.dtype
        assert torch.equal(received, sent)


@needs_two_processes
def test_two_processes_can_be_switched_on_and_off(monkeypatch: pytest.MonkeyPatch) -> None:
    model = large_model(monkeypatch)
    off = make_gradients(TrainingConfig(two_processes="off"), spec_of(model), model, CPU)
    assert type(off) is OneProcess
    monkeypatch.setattr(Transformer, "n_parameters", 10)
    with closing(make_gradients(TrainingConfig(two_processes="on"), spec_of(model), model, CPU)) as gradients:
        assert type(gradients) is TwoProcesses
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with pytest.raises(RunError, match=r"two_processes is 'on', but 2 threads .*; hint: resume on the machine"):
        make_gradients(TrainingConfig(two_processes="on"), spec_of(model), model, CPU)


@pytest.fixture
def failing(make_training: Maker, monkeypatch: pytest.MonkeyPatch) -> Callable[[RuntimeError], None]:
    """Computes a gradient with an objective that raises this error."""

    def take(error: RuntimeError) -> None:
        def objective(*_: Any) -> None:
            raise error

        training = make_training("a")
        monkeypatch.setattr(one_process, "term_sums", objective)
        OneProcess(training.config, training.model, CPU)(first_batch(training), (10,))

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
    monkeypatch.setattr(setup, "MATMUL", SimpleNamespace(fp32_precision="by hand"))
    with pytest.raises(RunError, match=r"failed: RuntimeError: .*by hand"):
        in_two(training.config, training.model)
