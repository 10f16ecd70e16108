"""What every process of a training has, and the part of a training step that all of them take."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite
from typing import NamedTuple

import torch

from regard.data import Batch, Place
from regard.models import Model, ModelSpec
from regard.training.config import TrainingConfig
from regard.training.gradients import BatchLoss, make_gradients, make_sums
from regard.training.optimizers import clip_gradients, make_optimizer
from regard.training.ranks.workers import Workers


@dataclass(kw_only=True)
class Learner:
    """A model that is trained, alone or together with the same model in other processes."""

    config: TrainingConfig
    spec: ModelSpec
    model: Model  # built from `spec`
    device: torch.device
    workers: Workers = field(default_factory=Workers)

    def __post_init__(self) -> None:
        """Adds the optimizer and the gradient computation that the configuration selects."""
        self.model.to(self.device).train()
        self.optimizer = make_optimizer(self.config, self.model)
        self.gradients = make_gradients(self.config, self.spec, self.model, self.device)
        self.sums = make_sums(list(self.model.parameters()), self.config.exact, self.workers.world_size)

    def close(self) -> None:
        """Ends the second process, if there is one."""
        self.gradients.close()


class StepLoss(NamedTuple):
    """The loss of an update and the norm of its gradient."""

    loss: float
    nll: dict[str, float]  # by term, summed over its targets
    norm: float

    @property
    def is_finite(self) -> bool:
        return isfinite(self.loss) and isfinite(self.norm)


def compute_gradient(
    learner: Learner, own: list[Batch], n_targets: tuple[int, ...], n_batches: int, place: Place
) -> StepLoss:
    """Leaves the gradient of the whole update in `grad` of every parameter; each term is a mean over its targets.

    `own` are the batches of this process; the update has `n_batches`, with `n_targets` of each term, and begins at
    `place`.
    """
    losses: dict[int, BatchLoss] = {}
    for number, batch in enumerate(own):
        part = number if learner.workers.world_size == 1 else batch.place.part
        losses[part] = learner.gradients(batch, n_targets)
        if not learner.sums.add(n_batches):
            losses[part] = losses[part]._replace(loss=inf)
    batch_losses = learner.workers.sum(learner.sums, losses, n_batches)
    loss = sum(float(batch_loss.loss) for batch_loss in batch_losses) + _add_penalty(learner.model, place)
    nll = {name: sum(float(batch_loss.nll[name]) for batch_loss in batch_losses) for name in batch_losses[0].nll}
    return StepLoss(loss, nll, clip_gradients(learner.model, learner.config.clip, each=learner.config.clip_each))


def update_weights(learner: Learner) -> None:
    """The step of the optimizer, with the gradient of `compute_gradient`."""
    learner.optimizer.step()
    learner.optimizer.zero_grad(set_to_none=True)


def _add_penalty(model: Model, place: Place) -> float:
    """Adds the gradient of the model's penalty on its weights, once per update; every rank has the same weights."""
    penalty = model.penalty(place)
    if penalty is None:
        return 0.0
    penalty.backward()
    return float(penalty.detach())
