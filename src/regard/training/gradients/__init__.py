"""The gradients of a batch, computed in one process or in two."""

import torch

from regard.errors import RunError
from regard.models import Model, ModelSpec
from regard.training.config import TrainingConfig
from regard.training.gradients.one_process import BatchLoss, Gradients, OneProcess
from regard.training.gradients.sums import Sums, make_sums
from regard.training.gradients.two_processes import TwoProcesses, obstacle_to_two_processes

__all__ = ["BatchLoss", "Gradients", "Sums", "make_gradients", "make_sums"]

MIN_PARAMETERS_FOR_TWO = 2_000_000  # with fewer, a step is too short for the cost of synchronisation


def make_gradients(config: TrainingConfig, spec: ModelSpec, model: Model, device: torch.device) -> Gradients:
    """As `training.two_processes` says; "auto" is the faster way for this model and this machine."""
    is_large = model.n_parameters >= MIN_PARAMETERS_FOR_TWO
    if config.two_processes == "off" or config.exact or (config.two_processes == "auto" and not is_large):
        return OneProcess(config, model, device)
    obstacle = obstacle_to_two_processes(model, device)
    if obstacle is None:
        try:
            return TwoProcesses(config, spec, model, torch.get_num_threads() // 2)
        except OSError as error:
            obstacle = f"the worker process cannot be started: {error.strerror}"
    if config.two_processes == "on":
        raise RunError(
            f"training.two_processes is 'on', but {obstacle}",
            hint="resume on the machine where the run began, or train in another directory with "
            "--set training.two_processes=off",
        )
    return OneProcess(config, model, device)
