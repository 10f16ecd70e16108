"""Computes the gradients of a batch, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.data import Batch
from regard.errors import RunError
from regard.models import Model
from regard.training.config import TrainingConfig
from regard.training.device import seed_all
from regard.training.objectives import term_sums


class BatchLoss(NamedTuple):
    """What a batch adds to the loss of its update. Tensors on a GPU, which is not waited for after every batch."""

    loss: float | Tensor  # of all terms, each divided by its targets in the whole update
    nll: Mapping[str, float | Tensor]  # by term, summed over its targets

    def plus(self, other: BatchLoss) -> BatchLoss:
        return BatchLoss(self.loss + other.loss, {name: self.nll[name] + other.nll[name] for name in self.nll})


class Gradients(Protocol):
    """Adds the gradient of a batch's loss to `grad` of every parameter."""

    n_processes: int

    def __call__(self, batch: Batch, n_targets: tuple[int, ...]) -> BatchLoss:
        """`n_targets`: of each term in the whole update. The loss of a term is divided by them."""
        ...

    def close(self) -> None:
        """Ends all processes."""


class OneProcess:
    """All threads share every operation."""

    n_processes = 1

    def __init__(self, config: TrainingConfig, model: Model, device: torch.device) -> None:
        self._config, self._model, self._device = config, model, device
        self._value: Callable[[Tensor], float | Tensor] = float if device.type == "cpu" else Tensor.detach

    def __call__(self, batch: Batch, n_targets: tuple[int, ...]) -> BatchLoss:
        return self.compute(batch, n_targets, batch.place.key("dropout"))

    def compute(self, batch: Batch, n_targets: tuple[int, ...], dropout_seed: int) -> BatchLoss:
        """The same with another seed, for part of a batch."""
        config = self._config
        seed_all(dropout_seed, self._device)
        with _out_of_memory_as_run_error(config, self._device):
            with _autocast(config, self._device):
                sums = term_sums(self._model, batch.to(self._device), config.smoothing, config.r_drop)
            parts = [term.scale * term.loss / max(1, n) for term, n in zip(sums, n_targets, strict=True)]
            loss = torch.stack(parts).sum() if len(parts) > 1 else parts[0]
            loss.backward()
        return BatchLoss(self._value(loss.detach()), {term.name: self._value(term.nll) for term in sums})

    def close(self) -> None:
        pass


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
