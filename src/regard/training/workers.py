"""Ranks: the processes that share a training, each with its own batches. There is one for now."""

from torch import nn


class Workers:
    """The view of one rank on all ranks; this base class is a training with one rank."""

    rank, world_size = 0, 1

    def sum_counts(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Sums over all ranks."""
        return counts

    def sum_gradients(self, model: nn.Module) -> None:
        """Replaces the gradient of every parameter by its sum over all ranks."""
