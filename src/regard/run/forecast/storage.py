"""Memory and disk of a training, by part."""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.data import Place
from regard.engines.ctranslate2.convert import N_POSITIONS, unsupported_reason
from regard.models import Model, named_weights
from regard.nn.cross_entropy import CHUNK_BYTES
from regard.run.build import PreparedRun, checkpoint_limits
from regard.run.forecast.work import Work
from regard.training import TrainingConfig
from regard.training.objectives import term_sums
from regard.training.optimizers import declared_matrices

_FLOAT = 4  # bytes: weights, gradients and averages are float32 in every precision
_PROBED_EXAMPLES = 4
_MAX_PROBED_FLOPS = 1e11


def model_bytes(model: Model, config: TrainingConfig) -> dict[str, int]:
    """What depends on the parameters alone."""
    n = model.n_parameters
    parts = {"weights": _FLOAT * n, "gradients": _FLOAT * n, "optimizer": optimizer_bytes(model, config)}
    return parts | ({"moving average": _FLOAT * n} if config.ema is not None else {})


def optimizer_bytes(model: Model, config: TrainingConfig) -> int:
    """Two averages for Adam, one for Muon's matrices and for momentum."""
    n = model.n_parameters
    if config.optimizer == "sgd":
        return _FLOAT * n if config.momentum else 0
    n_muon = sum(parameter.numel() for parameter in declared_matrices(model)) if config.optimizer == "muon" else 0
    return _FLOAT * (2 * n - n_muon)


class Probe(NamedTuple):
    """Of a forward pass of the heaviest batch, from one of a few of its examples, in the precision of the training."""

    activation_bytes: int  # that the backward pass needs
    n_operations: int  # each of which is a kernel of a GPU


class _Operations(TorchDispatchMode):
    n = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += not func.is_view
        return func(*args, **(kwargs or {}))


def probe(prepared: PreparedRun, work: Work) -> Probe:
    """Computes it on this machine."""
    config = prepared.recipe.training
    n = max(1, min(_PROBED_EXAMPLES, int(_MAX_PROBED_FLOPS * len(work.heaviest) / max(1.0, work.heaviest_flops))))
    first = prepared.loader.collate(work.heaviest, Place(config.seed, step=1)).rows(slice(0, n))
    inputs, targets = (tuple(tensor.clone() for tensor in part) for part in (first.inputs, first.targets))
    probed = replace(first, inputs=inputs, targets=targets)  # without the storage of the whole batch
    model = prepared.spec.build().train()
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", enabled=config.precision == "bfloat16"), _Operations() as operations:  # type: ignore[no-untyped-call]
        sums = term_sums(model, probed, config.smoothing, config.r_drop)
    with torch.no_grad():  # the gradient of the output matrix is computed with the loss
        once = sum(term.weight.nbytes for term in model.terms(probed))
    del sums
    total = sum(storage.nbytes() for storage in saved.values())
    return Probe(once + CHUNK_BYTES + max(0, total - once) * len(work.heaviest) // n, operations.n)


def disk_bytes(prepared: PreparedRun, model: Model, data_bytes: int) -> dict[str, int]:
    """The run directory at its largest: text as ids, checkpoints that are kept, and the model at the end, or one more
    checkpoint before it."""
    config, recipe = prepared.training_config, prepared.recipe
    weights = sum(tensor.nbytes for tensor in named_weights(model).values())
    checkpoint = weights * (2 if config.ema is not None else 1) + optimizer_bytes(model, config)
    n_saves = -(-config.steps // config.save_every)
    n = min(sum(checkpoint_limits(config)), n_saves)
    exported = 0
    if recipe.task == "translation" and unsupported_reason(model) is None:  # with a table of positions
        exported = weights + _FLOAT * (recipe.config.max_length or N_POSITIONS) * recipe.config.width
    vocabulary = sum(map(len, prepared.data.assets.values()))
    model_files = weights + exported + vocabulary
    parts = {"text as numbers": data_bytes, "checkpoints": n * checkpoint, "model": model_files}
    return parts | {"more while a checkpoint is saved": max(0, checkpoint - model_files) if n_saves > n else 0}


def directory_bytes(path: Path) -> int:
    """Of all files below a directory."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def process_bytes() -> int:
    """Memory of this process and of those that it started; what they share counts once. Elsewhere than on Linux, the
    largest so far of this process alone."""
    try:
        return 1024 * sum(map(_proportional_kilobytes, _with_children(os.getpid())))
    except (OSError, AttributeError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def _proportional_kilobytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE).group(1))  # type: ignore[union-attr]


def _with_children(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _with_children(int(child))
