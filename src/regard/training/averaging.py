"""Two ways to average weights: over checkpoints (section 6.1), and over all steps (EMA)."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from regard.errors import ArtifactError
from regard.models import named_weights, require_matching_tensors


def average(weights: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of the weights of several models, summed in float64; integer tensors are those of the last model.

    `average(checkpoint.tensors("model") for checkpoint in checkpoints.last(5))` has one checkpoint in memory at a time.
    """
    sums: dict[str, Tensor] = {}
    latest: Mapping[str, Tensor] = {}
    n_models = 0
    for model in weights:
        if n_models == 0:
            sums = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in model.items()}
        else:
            require_matching_tensors(latest, model)
        for name, tensor in model.items():
            sums[name] += tensor
        latest = model
        n_models += 1
    if n_models == 0:
        raise ArtifactError("there are no weights to average")
    return {
        name: (sums[name] / n_models).to(tensor.dtype) if tensor.is_floating_point() else tensor
        for name, tensor in latest.items()
    }


class EMA:
    """An exponential moving average of the parameters, updated after every step.

    The decay grows to its full value as min(decay, (1 + step) / (10 + step)), so that the average of a short run
    does not depend on its random initialisation.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay ({decay}) must be at least 0 and below 1")
        self.decay = decay
        self._model = model
        self._live = dict(model.named_parameters())
        self._shadow = {name: parameter.detach().clone() for name, parameter in self._live.items()}

    def update(self, step: int) -> None:
        """Updates the average after step number `step`, counted from 1."""
        update = get_ema_multi_avg_fn(min(self.decay, (1 + step) / (10 + step)))
        update(list(self._shadow.values()), list(self._live.values()), step)

    def weights(self) -> dict[str, Tensor]:
        """The averaged weights by the names of `named_weights`; tensors that are not averaged are the current ones."""
        return {**named_weights(self._model), **self._shadow}

    def tensors(self) -> dict[str, Tensor]:
        """The averages by parameter name, for a checkpoint."""
        return dict(self._shadow)

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores the averages from a checkpoint."""
        require_matching_tensors(self._shadow, tensors)
        for name, tensor in tensors.items():
            self._shadow[name].copy_(tensor)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Inside the `with` block the model has the averaged weights, for validation. Nothing is copied."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, parameter in self._live.items():
            parameter.data, self._shadow[name] = self._shadow[name], parameter.data
