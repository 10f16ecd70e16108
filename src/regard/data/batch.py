"""A training batch: tensors of any kind, which only the model and its task understand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.random_key import random_key

NO_TARGET = -100  # in `targets`, where nothing is asked


@dataclass(frozen=True)
class Place:
    """Where a batch stands in a run. What is random in a batch, and every curriculum, is a function of it."""

    seed: int = 0  # of the run
    step: int | None = None  # None outside training: curricula are over
    epoch: int = 0
    index: int = 0  # of the batch in its epoch
    part: int = 0  # of the batch in its update, over all processes

    def key(self, name: str, *parts: int | str) -> int:
        """A seed for random numbers of this update, such as those of dropout."""
        return random_key(self.seed, name, -1 if self.step is None else self.step, self.part, *parts)


OUTSIDE_TRAINING = Place()


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs and targets. The first dimension of every tensor runs over the examples."""

    inputs: tuple[Tensor, ...]  # of any dtype: ids, masks, pixels
    targets: tuple[Tensor, ...]  # NO_TARGET where nothing is asked
    n_targets: tuple[int, ...]  # of each term of the loss; in part of a batch still those of the whole
    place: Place
    indices: NDArray[np.int64]  # (B,) numbers of the examples

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device; a GPU copies pinned memory while it computes."""
        if torch.device(device).type == "cuda":
            return self._map(lambda tensor: tensor.pin_memory().to(device, non_blocking=True))
        return self._map(lambda tensor: tensor.to(device))

    def rows(self, rows: slice) -> Batch:
        """Some of the examples."""
        return replace(self._map(lambda tensor: tensor[rows]), indices=self.indices[rows])

    def repeat(self, n: int) -> Batch:
        """The examples n times, one repetition after the other."""
        return self._map(lambda tensor: tensor.repeat(n, *[1] * (tensor.dim() - 1))) if n > 1 else self

    def _map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return replace(self, inputs=tuple(map(change, self.inputs)), targets=tuple(map(change, self.targets)))


class Examples(Protocol):
    """What a model learns from: token pairs, labelled lines, images."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> tuple[NDArray[np.integer], ...]:
        """(n_examples,) for each side, in tokens, without the one symbol that begins or ends a sequence."""
        ...


# The examples with these numbers as a batch: padded, masked or sampled as a pure function of the arguments.
Collator = Callable[[NDArray[np.integer], Place], Batch]
