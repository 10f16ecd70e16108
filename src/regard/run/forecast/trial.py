"""Trial steps of a training on this machine: their time, and the memory that they take."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import torch

from regard.data import Place
from regard.durable import write_file
from regard.run.build import PreparedRun, build_training
from regard.run.forecast.storage import model_bytes, process_bytes
from regard.run.forecast.work import Work, measure_work
from regard.run.plan import TRIAL_STEPS, with_recipe
from regard.run.recipe import merge
from regard.training import Training, Workers, measure_seconds_per_step
from regard.training.loop import train_step, validate_training

# A step with more is timed with smaller batches: a plan takes seconds, even where a step takes minutes.
MAX_TRIAL_FLOPS = 2e11
_REDUCED_STEPS = 4
_UNTRAINED = 0.5  # a validation takes half as long with a trained model, whose translations end
_PROBE_BYTES = 32_000_000  # that are written, to see how long a checkpoint takes


class Trial(NamedTuple):
    """What was measured."""

    seconds_per_step: float
    n_processes: int
    setup_seconds: float  # until the first step: the model, and the second process
    validation_seconds: float
    save_seconds: float
    memory: int  # of all processes together; 0 if the batches were smaller than those of the training
    memory_before: int  # without the weights

    def memory_parts(self, parts: dict[str, int]) -> dict[str, int]:
        """The memory that was measured, as parts of which some are known."""
        if self.n_processes == 2:
            parts = parts | {"those of the second process": parts["weights"] + parts["gradients"]}
        parts = {"program and text": self.memory_before} | parts
        return parts | {"activations and work space": max(0, self.memory - sum(parts.values()))}


def run_trial(prepared: PreparedRun, work: Work, out: Path, device: torch.device, can_validate: bool) -> Trial:
    """Raises RecipeError if the training does not fit into memory."""
    started_at = perf_counter()
    with closing(build_training(prepared, out, device, Workers(), reserve_disk=False)) as training:
        setup = perf_counter() - started_at
        before = process_bytes() - 4 * training.model.n_parameters
        reduced = work.computed_flops > MAX_TRIAL_FLOPS
        seconds = _reduced(training, prepared, work) if reduced else measure_seconds_per_step(training, TRIAL_STEPS)
        if not reduced:
            train_step(training, [training.loader.collate(work.heaviest, Place(training.config.seed, 1))], TRIAL_STEPS)
        memory = 0 if reduced else process_bytes()
        validation = 0.0
        if can_validate and not reduced:
            started_at = perf_counter()
            validate_training(training, use_ema=False)
            validation = _UNTRAINED * (perf_counter() - started_at)
            memory = max(memory, process_bytes())
        saved = sum(model_bytes(training.model, training.config).values()) - 4 * training.model.n_parameters
        n_processes, save = training.gradients.n_processes, _save_seconds(out, saved)
        return Trial(seconds, n_processes, setup, validation, save, memory, before)


def _reduced(training: Training, prepared: PreparedRun, work: Work) -> float:
    """The time of a step from that of smaller ones: what depends on the batch grows with its operations."""
    loader = training.loader
    config = prepared.recipe.training
    share = MAX_TRIAL_FLOPS / work.computed_flops
    times = []
    for max_tokens in (8, max(16, int(share * config.n_batches * config.max_tokens))):
        smaller = with_recipe(
            prepared, merge(prepared.recipe.raw(), {"training": {"max_tokens": max_tokens, "accumulate": 1}})
        )
        training.loader = smaller.loader
        flops = measure_work(smaller).padded_flops
        times.append((flops, measure_seconds_per_step(training, _REDUCED_STEPS)))
    training.loader = loader
    (flops, seconds), (more_flops, more_seconds) = times
    per_flop = max(0.0, more_seconds - seconds) / max(1.0, more_flops - flops)
    return seconds + per_flop * max(0.0, work.padded_flops - flops)


def _save_seconds(out: Path, n_bytes: int) -> float:
    """How long a checkpoint of this size takes to reach the disk."""
    probe = out / "probe"
    started_at = perf_counter()
    write_file(probe, bytes(_PROBE_BYTES))
    seconds = (perf_counter() - started_at) * n_bytes / _PROBE_BYTES
    probe.unlink()
    return seconds
