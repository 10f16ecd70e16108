"""What a batch says of the weights: forward and backward, by all threads together or by two processes apart."""

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
from regard.training.gradients.two_processes import Helper, can_help
from regard.training.objectives import Objective, make_objective

APART_FROM = 2_000_000  # parameters; with fewer a step is too short for what it takes to begin and to meet


class Sums(NamedTuple):
    """Over the real target symbols of a batch."""

    loss: float
    nll: float


class Gradients(Protocol):
    """Adds the gradient of a batch's summed loss, divided by `n_tokens`, to every parameter's own."""

    def __call__(self, batch: Batch, n_tokens: int) -> Sums: ...

    def close(self) -> None:
        """Nothing is left running."""


def make_gradients(config: TrainingConfig, model: Transformer, device: torch.device) -> Gradients:
    """The quickest way for this model and this machine."""
    n_threads = torch.get_num_threads()
    if device.type == "cpu" and model.n_parameters >= APART_FROM and can_help(model, n_threads):
        with suppress(OSError):  # no process may be started here
            return Apart(config, model, n_threads // 2)
    return Together(config, model, make_objective(config), device)


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

    def close(self) -> None:
        pass


class Apart:
    """Two processes, each with half of the threads and every second sentence: they meet once, not at every operation.

    Threads that share an operation wait for the slowest of them, and watch while one does what only one can: draw
    dropout, look up embeddings, run Python. The sum of two gradients does not depend on whose came first.
    """

    def __init__(self, config: TrainingConfig, model: Transformer, n_threads_each: int) -> None:
        self._model, self._n_threads_each = model, n_threads_each
        self._own = Together(config, model, make_objective(config), torch.device("cpu"))
        self._helper = Helper(config, model, n_threads_each)

    def __call__(self, batch: Batch, n_tokens: int) -> Sums:
        if len(batch.src) < 2:
            return self._own(batch, n_tokens)
        mine, theirs = (_every_second(batch, first, self._model.pad_id) for first in range(2))
        self._helper.ask(theirs, n_tokens, seed=int(torch.randint(2**62, ())))
        try:
            with _threads(self._n_threads_each):
                own = self._own(mine, n_tokens)
            other = self._helper.answer()
        except BaseException:
            self.close()  # what it still has to say would be taken for the answer to the next batch
            raise
        return Sums(own.loss + other["loss"], own.nll + other["nll"])

    def close(self) -> None:
        self._helper.close()

    @property
    def helper_pid(self) -> int:
        """The other half's process."""
        return self._helper.pid


@contextmanager
def _threads(n: int) -> Iterator[None]:
    usual = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


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
