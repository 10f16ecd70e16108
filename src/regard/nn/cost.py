"""What a model costs, by formulas: Table 1 of the paper, for whole models.

Operations are those of matrix products, two for each multiplication and addition, as PyTorch's `FlopCounterMode` counts
them. What is computed element by element, such as a softmax, is much less, and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from torch import Tensor, nn

TRAINING_FLOPS = 3  # of a forward pass: a backward pass has two products, for inputs and weights, per forward one


class Cost(NamedTuple):
    """The cost of one example."""

    flops: int  # of the forward pass, with the logits
    sequential: int  # layers, and steps of recurrence, each of which needs the result of the one before
    path: int | None  # layers or steps that connect the two positions farthest from each other; None if they never meet
    output: int = 0  # of `flops`, those of the logits: in training they are computed for targets, never for padding
    # FLOPs of a training step beyond TRAINING_FLOPS times `flops`; below 0 where gradients stop, or a batch shares work
    extra: int = 0

    @property
    def training_flops(self) -> int:
        """Forward and backward, of an example in a batch."""
        return TRAINING_FLOPS * self.flops + self.extra


def product_flops(n: int, *factors: nn.Module | Tensor) -> int:
    """Of n vectors times each of these weights, or times the `matrices` of these modules and of all inside them."""
    return 2 * n * sum(map(_size, factors))


def _size(factor: nn.Module | Tensor) -> int:
    """The number of weights in matrices; embeddings are none."""
    if isinstance(factor, nn.Module) and not isinstance(factor, nn.Linear):
        return sum(m.get_parameter(name).numel() for m in factor.modules() for name in getattr(m, "matrices", ()))
    return (factor.weight if isinstance(factor, nn.Linear) else factor).numel()


def attention_flops(n_queries: int, n_keys: int, d_model: int) -> int:
    """Of the scores and of the weighted means, of all heads together."""
    return 2 * 2 * n_queries * n_keys * d_model


def layers_to_reach(distance: int, reaches: Sequence[int]) -> int | None:
    """How many layers connect two positions this far apart, if each layer sees so many positions far."""
    return next((n for n, total in enumerate(accumulate(reaches), start=1) if total >= distance), None)


def longest(*paths: int | None) -> int | None:
    """The longest path; None if one of them does not exist."""
    return None if None in paths else max(path for path in paths if path is not None)
