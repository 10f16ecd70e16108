"""What a batch says of the weights: forward and backward, by all threads together or by two halves of them apart."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from threading import Barrier
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.data import Batch
from regard.errors import RunError
from regard.models import Transformer
from regard.nn import drawing_from
from regard.training.config import TrainingConfig
from regard.training.objectives import Objective, Outcome

APART_FROM = 256  # d_model; of a narrower model a step has many short operations, which take turns in Python's lock


class Sums(NamedTuple):
    """Over the real target symbols of a batch."""

    loss: float
    nll: float


class Gradients(Protocol):
    """Adds the gradient of a batch's summed loss, divided by `n_tokens`, to every parameter's own."""

    def __call__(self, batch: Batch, n_tokens: int) -> Sums: ...


def make_gradients(config: TrainingConfig, model: Transformer, objective: Objective, device: torch.device) -> Gradients:
    """The quickest way for this model and this machine."""
    n_threads = torch.get_num_threads()
    wide = model.config.d_model >= APART_FROM
    if device.type == "cpu" and wide and n_threads % 2 == 0:
        return Apart(config, model, objective, n_threads // 2)
    return Together(config, model, objective, device)


class Together:
    """All threads share every operation."""

    def __init__(self, config: TrainingConfig, model: Transformer, objective: Objective, device: torch.device) -> None:
        self._config, self._model, self._objective, self._device = config, model, objective, device

    def __call__(self, batch: Batch, n_tokens: int) -> Sums:
        with _memory(self._config, self._device):
            with _autocast(self._config, self._device):
                outcome = self._objective(self._model, batch.to(self._device))
            (outcome.loss / n_tokens).backward()
        return Sums(float(outcome.loss.detach()), float(outcome.nll))


class Apart:
    """Two halves of the threads, each with every second sentence: they meet once a batch, not at every operation.

    Where all share an operation they wait for its slowest thread, and watch while one does what only one can: draw
    dropout, look up embeddings. The sum of two gradients does not depend on whose came first.
    """

    def __init__(self, config: TrainingConfig, model: Transformer, objective: Objective, n_threads_each: int) -> None:
        self._config, self._model, self._objective = config, model, objective
        self._device = torch.device("cpu")
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        n_threads = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(2, initializer=_take_threads, initargs=(n_threads_each,))
        meeting = Barrier(2)  # so that both have begun
        list(self._pool.map(lambda _: meeting.wait(), range(2)))
        torch.set_num_threads(n_threads)  # theirs would be that of every thread to come

    def __call__(self, batch: Batch, n_tokens: int) -> Sums:
        halves = [_every_second(batch, first, self._model.pad_id) for first in range(min(2, len(batch.src)))]
        seeds = torch.randint(2**62, (len(halves),)).tolist()
        with _memory(self._config, self._device):
            found = list(self._pool.map(self._half, halves, [n_tokens] * len(halves), seeds))
        for gradients, _ in found:
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        return Sums(
            sum(float(outcome.loss.detach()) for _, outcome in found), sum(float(outcome.nll) for _, outcome in found)
        )

    def _half(self, batch: Batch, n_tokens: int, seed: int) -> tuple[tuple[Tensor | None, ...], Outcome]:
        with drawing_from(seed), _autocast(self._config, self._device):
            outcome = self._objective(self._model, batch)
        return torch.autograd.grad(outcome.loss / n_tokens, self._parameters, allow_unused=True), outcome


def _take_threads(n: int) -> None:
    """So many for the operations of this thread; torch gives a thread the usual number when it is first asked for it,
    which is not to come later."""
    torch.get_num_threads()
    torch.set_num_threads(n)


def _every_second(batch: Batch, first: int, pad_id: int) -> Batch:
    """Of a batch, whose sentences come by length: half of the work, not only of the sentences."""
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
def _memory(config: TrainingConfig, device: torch.device) -> Iterator[None]:
    """A RunError where there is not enough of it."""
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)):
            raise
        raise RunError(
            f"there is not enough memory on the {device.type} for a batch of this model",
            hint=f"lower training.max_tokens (it is {config.max_tokens:,}), or take a smaller model.preset",
        ) from error
