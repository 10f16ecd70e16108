"""The processes that share a training; this module is a training with one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from regard.data import Batch, Cursor
from regard.training.gradients import BatchLoss, Sums

if TYPE_CHECKING:
    from regard.training.learner import Learner
    from regard.training.stop import Stop

Updates = Iterator[tuple[list[Batch], Cursor]]


class Workers:
    """What rank 0, which decides and writes, asks of all ranks. This base class is a training with one process."""

    rank, world_size = 0, 1
    device: torch.device | None = None  # of this rank; None: not chosen yet

    @contextmanager
    def job(self, learner: Learner, stop: Stop | None = None) -> Iterator[None]:
        """Inside the `with` block all ranks have the weights and the optimizer state of rank 0, and take its steps.

        A stop signal that reaches any rank is passed to `stop`.
        """
        yield

    def deal(self, updates: Updates) -> Updates:
        """The same updates; the batches of other ranks are sent to them."""
        return updates

    def begin_step(self, learner: Learner, update: list[Batch], n_targets: tuple[int, ...]) -> list[Batch]:
        """Tells the other ranks to take a step; returns the batches of this rank."""
        return update

    def sum(self, sums: Sums, losses: Mapping[int, BatchLoss], n_batches: int) -> list[BatchLoss]:
        """Sums the gradients over all batches of all ranks; returns the losses of these batches, in their order."""
        _, used = sums.pack()
        sums.unpack(used)
        return [losses[part] for part in range(n_batches)]

    def align(self, learner: Learner) -> bool:
        """Whether all ranks have the same weights; if not, they get those of rank 0."""
        return True

    @contextmanager
    def all_threads(self) -> Iterator[None]:
        """Inside the `with` block only rank 0 computes, and may use the cores of all ranks on its machine."""
        yield
