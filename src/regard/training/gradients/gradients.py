"""Computes the gradients of a batch, in one process or in two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import torch

from regard.data import Batch
from regard.errors import RunError
from regard.models import Transformer
from regard.training.config import TrainingConfig
from regard.training.gradients.two_processes import WorkerProcess, can_use_two_processes
from regard.training.objectives import Objective, make_objective

MIN_PARAMETERS_FOR_TWO = 2_000_000  # with fewer, a step is too short for the cost of synchronisation


class LossSums(NamedTuple):
    """Sums over the target tokens of a batch."""

    loss: float
    nll: float


class Gradients(Protocol):
    """Adds the gradient of a batch's summed loss, divided by `n_tokens`, to `grad` of every parameter."""

    def __call__(self, batch: Batch, n_tokens: int) -> LossSums: ...

    def close(self) -> None:
        """Ends all processes."""


def make_gradients(config: TrainingConfig, model: Transformer, device: torch.device) -> Gradients:
    """The faster way for this model and this machine."""
    n_threads = torch.get_num_threads()
    is_large = model.n_parameters >= MIN_PARAMETERS_FOR_TWO
    if device.type == "cpu" and is_large and can_use_two_processes(model, n_threads):
        with suppress(OSError):  # the system does not allow another process
            return TwoProcesses(config, model, n_threads // 2)
    return SingleProcess(config, model, make_objective(config), device)


class SingleProcess:
    """All threads share every operation."""

    def __init__(self, config: TrainingConfig, model: Transformer, objective: Objective, device: torch.device) -> None:
        self._config, self._model, self._objective, self._device = config, model, objective, device

    def __call__(self, batch: Batch, n_tokens: int) -> LossSums:
        with _out_of_memory_as_run_error(self._config, self._device):
            with _autocast(self._config, self._device):
                sums = self._objective(self._model, batch.to(self._device))
            (sums.loss / n_tokens).backward()
        return LossSums(float(sums.loss.detach()), float(sums.nll))

    def close(self) -> None:
        pass


class TwoProcesses:
    """Two processes, each with half of the threads and every second sentence, synchronised once per batch.

    Threads that share an operation wait for the slowest one, and idle during work that only one thread does: dropout,
    embedding lookup, Python. The sum of two gradients does not depend on their order, so the result is reproducible.
    """

    def __init__(self, config: TrainingConfig, model: Transformer, n_threads_each: int) -> None:
        self._model, self._n_threads_each = model, n_threads_each
        self._local = SingleProcess(config, model, make_objective(config), torch.device("cpu"))
        self._worker = WorkerProcess(config, model, n_threads_each)

    def __call__(self, batch: Batch, n_tokens: int) -> LossSums:
        if len(batch.src) < 2:
            return self._local(batch, n_tokens)
        local_half, worker_half = (_every_second(batch, first, self._model.pad_id) for first in range(2))
        self._worker.submit(worker_half, n_tokens, seed=int(torch.randint(2**62, ())))
        try:
            with _threads(self._n_threads_each):
                local = self._local(local_half, n_tokens)
            remote = self._worker.result()
        except BaseException:
            self.close()  # its pending result would be taken for that of the next batch
            raise
        return LossSums(local.loss + remote["loss"], local.nll + remote["nll"])

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


def _every_second(batch: Batch, first: int, pad_id: int) -> Batch:
    """Every second sentence. A batch is sorted by length, so this is half of the tokens, not only of the sentences."""
    tgt_out = batch.tgt_out[first::2]
    return replace(
        batch,
        src=batch.src[first::2],
        tgt_in=batch.tgt_in[first::2],
        tgt_out=tgt_out,
        n_tokens=int((tgt_out != pad_id).sum()),
        indices=batch.indices[first::2],
    )


def _autocast(config: TrainingConfig, device: torch.device) -> Any:
    if config.precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


@contextmanager
def _out_of_memory_as_run_error(config: TrainingConfig, device: torch.device) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)):
            raise
        raise RunError(
            f"not enough memory on the {device.type} for a batch of this model",
            hint=f"lower training.max_tokens (now {config.max_tokens:,}), or use a smaller model.preset",
        ) from error
