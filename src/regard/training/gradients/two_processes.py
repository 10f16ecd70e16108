"""Computes the gradients of a batch in two processes, each with its own threads and half of the batch.

When one of the two processes dies, the other finds the connection closed and ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import Pipe
from typing import Any

import torch
from torch import Tensor

from regard.data import Batch
from regard.errors import RunError
from regard.models import Model, ModelSpec
from regard.training.config import TrainingConfig
from regard.training.gradients.messages import encode_request, n_bytes, shared_tensors
from regard.training.gradients.one_process import BatchLoss, OneProcess
from regard.training.gradients.setup import setup_message

_EXIT_SECONDS = 5


def obstacle_to_two_processes(model: Model, device: torch.device) -> str | None:
    """Why the gradients cannot be computed in two processes; None if they can."""
    n_threads = torch.get_num_threads()
    if device.type != "cpu":
        return f"the model is on the {device.type}"
    if not hasattr(os, "memfd_create") or not sys.executable:
        return "the system has no shared memory files"
    if n_threads % 2 or len(os.sched_getaffinity(0)) < n_threads:
        return f"{n_threads} threads cannot be split into two halves with a core each"
    if not all(parameter.dtype == torch.float32 and parameter.requires_grad for parameter in model.parameters()):
        return "the model has parameters that are not float32, or are not trained"
    return None


class TwoProcesses:
    """Each of two processes computes half of the batch with half of the threads.

    This is faster than sharing every operation, because it overlaps the work that only one thread does: dropout,
    embedding lookup, Python. The sum of two gradients does not depend on their order, so the result is reproducible.
    """

    n_processes = 2

    def __init__(self, config: TrainingConfig, spec: ModelSpec, model: Model, n_threads_each: int) -> None:
        self._n_threads_each = n_threads_each
        self._local = OneProcess(config, model, torch.device("cpu"))
        self._worker = WorkerProcess(config, spec, model, n_threads_each)

    def __call__(self, batch: Batch, n_targets: tuple[int, ...]) -> BatchLoss:
        if len(batch.indices) < 2:
            return self._local(batch, n_targets)
        # a batch is sorted by length, so every second example is half of the tokens, not only of the examples
        halves = [batch.rows(slice(first, None, 2)) for first in range(2)]
        seeds = [batch.place.key("dropout", half) for half in range(2)]
        self._worker.submit(halves[1], n_targets, seeds[1])
        try:
            with _threads(self._n_threads_each):
                local = self._local.compute(halves[0], n_targets, seeds[0])
            return local.plus(self._worker.result())
        except BaseException:
            self.close()  # its pending result would be taken for that of the next batch
            raise

    def close(self) -> None:
        self._worker.close()


@contextmanager
def _threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class WorkerProcess:
    """The training's side of the worker process. Raises OSError if it cannot be started."""

    def __init__(self, config: TrainingConfig, spec: ModelSpec, model: Model, n_threads: int) -> None:
        self._parameters: list[Tensor] = list(model.parameters())
        self._start()
        try:
            self._send(json.dumps(setup_message(config, spec, model, n_threads)).encode())
            self._receive()  # it is ready
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        memory = os.memfd_create("regard-gradients")
        # Ctrl-C and SIGTERM reach both processes: the training saves, and then closes the connection
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            os.truncate(memory, n_bytes(self._parameters))
            self._weights, self._gradients = shared_tensors(memory, self._parameters)
            self._connection, of_worker = Pipe()
            with of_worker, ExitStack() as undo:
                undo.push(self._connection)
                self._process = _start_worker(of_worker.fileno(), memory)
                undo.pop_all()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(memory)

    def submit(self, batch: Batch, n_targets: tuple[int, ...], dropout_seed: int) -> None:
        """Starts the computation for this batch with the current weights."""
        with torch.no_grad():
            torch._foreach_copy_(self._weights, self._parameters)
        for message in encode_request(batch, n_targets, dropout_seed):
            self._send(message)

    def result(self) -> BatchLoss:
        """Waits for the loss, and adds every gradient to `grad` of its parameter."""
        reply = self._receive()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(gradient)
            elif gradient.any():  # only the other half of the batch used it
                parameter.grad = gradient.clone()
        return BatchLoss(**reply)

    def close(self) -> None:
        """Ends the process at once; a pending result is lost."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _send(self, message: bytes) -> None:
        try:
            self._connection.send_bytes(message)
        except OSError as error:
            raise self._ended_error() from error

    def _receive(self) -> dict[str, Any]:
        try:
            reply: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise self._ended_error() from error
        if "message" in reply:
            raise RunError(reply["message"], hint=reply["hint"])
        return reply

    def _ended_error(self) -> RunError:
        try:
            code = self._process.wait(timeout=_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        return RunError(
            f"the worker process, which computes half of every batch, has ended ({reason})",
            hint="it may have run out of memory; the same command resumes from the last checkpoint",
        )


def _start_worker(*descriptors: int) -> subprocess.Popen[bytes]:
    """Starts worker.py with the same module path and these file descriptors."""
    return subprocess.Popen(
        [
            sys.executable, "-P", "-c", "from regard.training.gradients.worker import main; main()",
            *map(str, descriptors),
        ],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if isinstance(path, str))},
    )  # fmt: skip
