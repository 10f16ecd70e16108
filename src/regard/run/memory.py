"""Refuses a training that cannot fit into memory, before any memory is taken."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from regard.data import Loader, Place
from regard.errors import RecipeError
from regard.models import ModelSpec
from regard.training import TrainingConfig

_COPIES = 4  # of the weights: themselves, their gradients, and at most two averages of the optimizer
_UPDATES_AHEAD = 4  # that the loader prepares; see data/loader.py
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def require_memory(spec: ModelSpec, config: TrainingConfig, loader: Loader, device: torch.device) -> None:
    """Raises RecipeError if what a training surely needs is more than there is; a real one needs more than that."""
    available = _total_bytes(device)
    n_parameters = spec.outline().n_parameters
    weights = 4 * n_parameters * (_COPIES + (config.ema is not None))
    if weights > available:
        raise _too_large(
            f"a model of {spec.config.describe()} has {n_parameters:,} parameters; training it", weights, available,
            "choose a smaller model, for example with --set model.preset=tiny",
        )  # fmt: skip
    batch = loader.collate(loader.epoch_order(0)[0], Place())
    batch_bytes = sum(tensor.nbytes for tensor in (*batch.inputs, *batch.targets))
    batches = batch_bytes * config.n_batches * _UPDATES_AHEAD
    if batches > available:
        raise _too_large(
            f"training.accumulate = {config.n_batches:,} batches of up to {batch_bytes:,} bytes, "
            f"{_UPDATES_AHEAD} updates ahead,",
            batches, available, "lower training.accumulate or training.max_tokens",
        )  # fmt: skip


def _too_large(what: str, needed: int, available: int, hint: str) -> RecipeError:
    return RecipeError(
        f"{what} needs at least {needed / 1e9:,.1f} GB, and there are {available / 1e9:,.1f} GB", hint=hint
    )


def _total_bytes(device: torch.device) -> int:
    """The memory of the device; for a CPU that of the machine, or of the container."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUP_LIMITS:
        try:
            total = min(total, int(path.read_text()))
        except (OSError, ValueError):  # not in a container, or without a limit ("max")
            continue
    return total
