"""Checkpoints: everything that a run needs to resume with the same result, to the bit.

    checkpoints/step-00001000/   model.safetensors, optimizer.safetensors, state.json, manifest.json

A checkpoint lists the other checkpoints of its run and their scores. Rotation uses this list, not the directory:
files of another run, or of a person, are never counted and never removed.
"""

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.durable import commit_directory, read_json_file, remove_directory, remove_leftovers, verify_directory
from regard.errors import ArtifactError, RunError
from regard.models import named_weights, require_matching_tensor, write_tensors

STATE_NAME = "state.json"
STATE_FORMAT = 1
STATE_MAX_BYTES = 10_000_000

_STEP_NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class SavedStep:
    """A checkpoint of this run: its step, and its validation score if it has one (lower is better).

    One with `interrupted` was saved outside the schedule, because the run was interrupted. The next save removes it,
    so that an interrupted run ends with the same checkpoints, and the same average, as one without interruption.
    """

    step: int
    score: float | None
    interrupted: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint. `state` belongs to the loop; `saved` lists the checkpoints of the run, this one last."""

    path: Path
    step: int
    state: Mapping[str, Any]
    saved: tuple[SavedStep, ...]
    pinned: int | None = None

    def tensors(self, stem: str) -> dict[str, Tensor]:
        """A copy of the tensors in `<stem>.safetensors`."""
        path = self.path / f"{stem}.safetensors"
        if not path.is_file():
            raise ArtifactError(f"{path} is missing")
        try:
            # copied, because a mapped file keeps its disk space after rotation has removed it
            return {name: tensor.clone() for name, tensor in load_file(path).items()}
        except SafetensorError as error:
            raise ArtifactError(f"{path} is not a safetensors file: {error}") from error


class Checkpoints:
    """The checkpoints of one run; keeps the newest `keep_last`, the best `keep_best`, and the last pinned one."""

    def __init__(self, directory: Path, *, keep_last: int, keep_best: int, pins: bool = False) -> None:
        if keep_last < 1 or keep_best < 0:
            raise ValueError(f"keep_last ({keep_last}) must be at least 1, keep_best ({keep_best}) at least 0")
        self.directory = directory
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.pins = pins
        self.pinned: int | None = None
        """The step of the last checkpoint that was saved with `pin`; it is kept until another one is."""
        self._saved: tuple[SavedStep, ...] = ()

    def steps(self) -> list[int]:
        """The steps that have a directory, valid or not, lowest first."""
        entries = self.directory.iterdir() if self.directory.is_dir() else ()
        return sorted(int(match[1]) for entry in entries if (match := _STEP_NAME.fullmatch(entry.name)))

    def resume(self, expected: Mapping[str, Any]) -> tuple[Checkpoint | None, dict[str, str]]:
        """The newest valid checkpoint whose state agrees with `expected`, and the reason for each one that was skipped.

        `expected` identifies the run: `{"recipe": digest}`. Raises RunError if there are checkpoints but none can be
        used: a run never silently starts again from step 0.
        """
        if os.path.lexists(self.directory) and not self.directory.is_dir():
            raise RunError(
                f"{self.directory} is not a directory", hint="move it away; if it is a symbolic link, fix its target"
            )
        remove_leftovers(self.directory)
        skipped: dict[str, str] = {}
        mismatches: list[str] = []
        steps = self.steps()
        for step in reversed(steps):
            checkpoint = self._open_or_skip(step, skipped)
            if checkpoint is None:
                continue
            differing = [key for key, value in expected.items() if checkpoint.state.get(key) != value]
            if not differing:
                # damaged ones are excluded now: at the end of the run they could not be averaged
                present = (saved for saved in checkpoint.saved if saved.step in steps)
                self._saved = tuple(saved for saved in present if self._open_or_skip(saved.step, skipped) is not None)
                self.pinned = checkpoint.pinned if checkpoint.pinned in {saved.step for saved in self._saved} else None
                return checkpoint, skipped
            mismatches += differing
            skipped[checkpoint.path.name] = f"{checkpoint.path} belongs to another {' and '.join(differing)}"
        if skipped:
            raise self._none_usable(skipped, mismatches)
        return None, {}

    def _open_or_skip(self, step: int, skipped: dict[str, str]) -> Checkpoint | None:
        try:
            return self.open(step)
        except ArtifactError as error:
            skipped[_step_name(step)] = error.message
            return None

    def open(self, step: int) -> Checkpoint:
        """The checkpoint of a step, every byte verified; raises ArtifactError if it is damaged."""
        path = self.directory / _step_name(step)
        if path.is_symlink():
            raise ArtifactError(f"{path} is a symbolic link")
        verify_directory(path)
        content = read_json_file(path / STATE_NAME, STATE_MAX_BYTES)
        if content.get("format") != STATE_FORMAT:
            raise ArtifactError(f"{path / STATE_NAME} has a format that this version cannot read")
        try:
            saved = tuple(SavedStep(int(at), score, bool(interrupted)) for at, score, interrupted in content["saved"])
            state = dict(content["state"])
            pinned = None if content.get("pinned") is None else int(content["pinned"])  # 0.1.0 had none
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{path / STATE_NAME} is not a checkpoint state") from error
        if not saved or saved[-1].step != step:
            raise ArtifactError(f"{path} holds another step than its name says")
        return Checkpoint(path, step, state, saved, pinned)

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        state: Mapping[str, Any],
        score: float | None = None,
        interrupted: bool = False,
        pin: bool = False,
    ) -> Path:
        """Writes `<stem>.safetensors` for each of `tensors`, and `state` as JSON; then removes old checkpoints.

        `score` is the validation score of this step, lower is better; `interrupted` marks a save outside the
        schedule; `pin` keeps it. If it fails with a RunError, all earlier checkpoints are still there.
        """
        score = score if score is not None and math.isfinite(score) else None
        saved = (*(entry for entry in self._saved if entry.step != step), SavedStep(step, score, interrupted))
        pinned = step if pin else self.pinned
        content = {
            "format": STATE_FORMAT,
            "pinned": pinned,
            "saved": [[entry.step, entry.score, entry.interrupted] for entry in saved],
            "state": state,
        }
        text = json.dumps(content, allow_nan=False, indent=1)

        def write(temporary: Path) -> None:
            for stem, named in tensors.items():
                write_tensors(temporary / f"{stem}.safetensors", named)
            (temporary / STATE_NAME).write_text(text, encoding="utf-8")

        path = self.directory / _step_name(step)
        commit_directory(path, write)
        self._saved, self.pinned = saved, pinned
        self._rotate()
        return path

    def last(self, n: int) -> list[Checkpoint]:
        """The newest n checkpoints of this run, verified, oldest first."""
        return [self.open(entry.step) for entry in self._scheduled()[-n:]]

    def best(self, n: int) -> list[Checkpoint]:
        """The n checkpoints of this run with the best scores, verified, best first."""
        return [self.open(entry.step) for entry in self._ranked()[:n]]

    def bytes_needed(self, model: nn.Module, n_copies: int) -> int:
        """Disk space still needed, for `n_copies` of the weights per checkpoint: 3 with Adam, 4 with EMA."""
        n_more = self.keep_last + self.keep_best + self.pins + 1 - len(self.steps())
        return max(n_more, 1) * n_copies * sum(tensor.nbytes for tensor in named_weights(model).values())

    def rewind(self, step: int) -> Checkpoint:
        """Goes back to a checkpoint of this run: removes all that came after it, the newest first."""
        checkpoint = self.open(step)
        for entry in sorted(self._saved, key=lambda entry: -entry.step):
            if entry.step > step:
                remove_directory(self.directory / _step_name(entry.step))
        self._saved = tuple(entry for entry in self._saved if entry.step <= step)
        return checkpoint

    def _scheduled(self) -> list[SavedStep]:
        return [entry for entry in self._saved if not entry.interrupted]

    def _ranked(self) -> list[SavedStep]:
        scored = [(entry.score, entry.step, entry) for entry in self._scheduled() if entry.score is not None]
        return [entry for _, _, entry in sorted(scored, key=lambda key: key[:2])]

    def _rotate(self) -> None:
        to_keep = {self._saved[-1], *self._scheduled()[-self.keep_last :], *self._ranked()[: self.keep_best]}
        to_keep |= {entry for entry in self._saved if entry.step == self.pinned}
        for entry in self._saved:
            path = self.directory / _step_name(entry.step)
            if entry not in to_keep and path.exists():
                remove_directory(path)
        self._saved = tuple(entry for entry in self._saved if entry in to_keep)

    def _none_usable(self, skipped: dict[str, str], mismatches: list[str]) -> RunError:
        if mismatches:
            what = " and ".join(dict.fromkeys(mismatches))
            return RunError(
                f"the checkpoints in {self.directory} belong to another {what}",
                hint=f"resume with the original {what}, or train in another directory",
            )
        return RunError(
            f"none of the {len(skipped)} checkpoints in {self.directory} can be used: {next(iter(skipped.values()))}",
            hint="restore one from a backup, or remove them all to start again from step 0",
        )


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The state of the optimizer, as `exp_avg/<parameter>`. Learning rates are left out: they follow from the step."""
    return {
        f"{key}/{name}": value
        for name, parameter in _named_parameters(optimizer, model)
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer_tensors(optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restores the state of the optimizer; each parameter must have its complete state, or none."""
    places = {name: (index, parameter) for index, (name, parameter) in enumerate(_named_parameters(optimizer, model))}
    state: dict[int, dict[str, Tensor]] = {}
    for full_name, tensor in tensors.items():
        key, _, name = full_name.partition("/")
        if name not in places:
            raise ArtifactError(f"the optimizer state has {full_name!r}, which is not a parameter of this model")
        index, parameter = places[name]
        if tensor.dim() > 0:  # Adam's step count is a scalar
            require_matching_tensor(full_name, parameter, tensor)
            # same memory layout as the parameter: fused Adam ignores the strides
            tensor = torch.empty_like(parameter, requires_grad=False).copy_(tensor)
        state.setdefault(index, {})[key] = tensor
    first = 0
    for group in optimizer.param_groups:
        numbers = range(first, first := first + len(group["params"]))
        if len({frozenset(state[number]) for number in numbers if number in state}) > 1:
            raise ArtifactError("the optimizer state is incomplete: some parameters have less of it than others")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _named_parameters(optimizer: Optimizer, model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """The parameters in the order of the optimizer, with their names in the model."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [(names[id(parameter)], parameter) for group in optimizer.param_groups for parameter in group["params"]]


def _step_name(step: int) -> str:
    return f"step-{step:08d}"
