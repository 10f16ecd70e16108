"""Checkpoints: everything that a run needs to go on as if it had never been interrupted, bit for bit.

    checkpoints/step-00001000/   model.safetensors, optimizer.safetensors, state.json, manifest.json

A checkpoint remembers which checkpoints of its own run lay beside it and how they scored. Rotation asks that memory,
not the directory: what another run or another person left there is never counted, and never removed.
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
class Saved:
    """One checkpoint of this run: its step, and its validation score if it has one (lower is better).

    A passing one was saved because the run was interrupted, at a step of no schedule. The next save removes it, so
    that an interrupted run ends with the same checkpoints, and the same average of them, as one that was not.
    """

    step: int
    score: float | None
    passing: bool = False


@dataclass(frozen=True)
class Skipped:
    """A checkpoint that was not resumed from, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint. `state` is the loop's own; `saved` are those of its run that were there, itself last."""

    path: Path
    step: int
    state: Mapping[str, Any]
    saved: tuple[Saved, ...]

    def tensors(self, stem: str) -> dict[str, Tensor]:
        """The tensors of `<stem>.safetensors`, in memory of their own."""
        path = self.path / f"{stem}.safetensors"
        if not path.is_file():
            raise ArtifactError(f"{path} is missing")
        try:
            # copies, because the file is mapped: rotation could not free its disk space while training goes on
            return {name: tensor.clone() for name, tensor in load_file(path).items()}
        except SafetensorError as error:
            raise ArtifactError(f"{path} is not a safetensors file: {error}") from error


class Checkpoints:
    """The checkpoints of one run: the newest `keep_last` and the best `keep_best` are kept."""

    def __init__(self, directory: Path, *, keep_last: int, keep_best: int) -> None:
        if keep_last < 1 or keep_best < 0:
            raise ValueError(f"keep_last ({keep_last}) must be at least 1, keep_best ({keep_best}) at least 0")
        self.directory = directory
        self.keep_last = keep_last
        self.keep_best = keep_best
        self._saved: tuple[Saved, ...] = ()

    def steps(self) -> list[int]:
        """The steps that have a directory, good or not, lowest first."""
        entries = self.directory.iterdir() if self.directory.is_dir() else ()
        return sorted(int(match[1]) for entry in entries if (match := _STEP_NAME.fullmatch(entry.name)))

    def resume(self, expected: Mapping[str, Any]) -> tuple[Checkpoint | None, list[Skipped]]:
        """The newest verified checkpoint whose state agrees with `expected`, and the damaged ones that were skipped.

        `expected` is what makes it this run, as `{"recipe": digest}`. Where there are checkpoints but none can be used,
        a RunError says why: a run never starts again from nothing by itself.
        """
        if os.path.lexists(self.directory) and not self.directory.is_dir():
            raise RunError(f"{self.directory} is not a directory", hint="move it away, or mend the link that it is")
        remove_leftovers(self.directory)
        skipped: list[Skipped] = []
        strange: list[str] = []
        for step in reversed(self.steps()):
            name = _step_name(step)
            try:
                checkpoint = self.open(step)
            except ArtifactError as error:
                skipped.append(Skipped(name, error.message))
                continue
            differing = [key for key, value in expected.items() if checkpoint.state.get(key) != value]
            if not differing:
                self._saved = tuple(saved for saved in checkpoint.saved if self._is_whole(saved.step, skipped))
                return checkpoint, skipped
            strange += differing
            skipped.append(Skipped(name, f"{checkpoint.path} was made with another {' and '.join(differing)}"))
        if skipped:
            raise self._nothing_usable(skipped, strange)
        return None, []

    def _is_whole(self, step: int, skipped: list[Skipped]) -> bool:
        """A damaged one is set aside now: at the end of the run it could not be averaged."""
        if step not in self.steps():
            return False
        try:
            self.open(step)
        except ArtifactError as error:
            skipped.append(Skipped(_step_name(step), error.message))
            return False
        return True

    def open(self, step: int) -> Checkpoint:
        """The checkpoint of that step, every byte verified; an ArtifactError says what is wrong with it."""
        path = self.directory / _step_name(step)
        if path.is_symlink():
            raise ArtifactError(f"{path} is a symbolic link")
        verify_directory(path)
        content = read_json_file(path / STATE_NAME, STATE_MAX_BYTES)
        if content.get("format") != STATE_FORMAT:
            raise ArtifactError(f"{path / STATE_NAME} has a format that this version does not read")
        try:
            saved = tuple(Saved(int(at), score, bool(passing)) for at, score, passing in content["saved"])
            state = dict(content["state"])
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{path / STATE_NAME} is not the state of a checkpoint") from error
        if not saved or saved[-1].step != step:
            raise ArtifactError(f"{path} is not of the step in its name")
        return Checkpoint(path, step, state, saved)

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        state: Mapping[str, Any],
        score: float | None = None,
        passing: bool = False,
    ) -> Path:
        """Save `<stem>.safetensors` for each of `tensors`, and the JSON-able `state`; then remove what is not kept.

        `score` is what this step reached in validation, lower is better; `passing` says
        that no schedule asked for this save. A RunError leaves all that was there before.
        """
        score = score if score is not None and math.isfinite(score) else None
        saved = (*(one for one in self._saved if one.step != step), Saved(step, score, passing))
        content = {
            "format": STATE_FORMAT,
            "saved": [[one.step, one.score, one.passing] for one in saved],
            "state": state,
        }
        text = json.dumps(content, allow_nan=False, indent=1)

        def write(aside: Path) -> None:
            for stem, named in tensors.items():
                write_tensors(aside / f"{stem}.safetensors", named)
            (aside / STATE_NAME).write_text(text, encoding="utf-8")

        path = self.directory / _step_name(step)
        commit_directory(path, write)
        self._saved = saved
        self._rotate()
        return path

    def last(self, n: int) -> list[Checkpoint]:
        """The newest n of this run, verified, oldest first."""
        return [self.open(one.step) for one in self._scheduled()[-n:]]

    def best(self, n: int) -> list[Checkpoint]:
        """The n of this run with the best scores, verified, best first."""
        return [self.open(one.step) for one in self._ranked()[:n]]

    def bytes_needed(self, model: nn.Module, n_copies: int) -> int:
        """Disk space still to be taken: `n_copies` of the weights each (3 with Adam, 4 with EMA too), and one aside."""
        n_more = self.keep_last + self.keep_best + 1 - len(self.steps())
        return max(n_more, 1) * n_copies * sum(tensor.nbytes for tensor in named_weights(model).values())

    def _scheduled(self) -> list[Saved]:
        return [one for one in self._saved if not one.passing]

    def _ranked(self) -> list[Saved]:
        scored = [(one.score, one.step, one) for one in self._scheduled() if one.score is not None]
        return [one for _, _, one in sorted(scored, key=lambda entry: entry[:2])]

    def _rotate(self) -> None:
        kept = {self._saved[-1], *self._scheduled()[-self.keep_last :], *self._ranked()[: self.keep_best]}
        for one in self._saved:
            path = self.directory / _step_name(one.step)
            if one not in kept and path.exists():
                remove_directory(path)
        self._saved = tuple(one for one in self._saved if one in kept)

    def _nothing_usable(self, skipped: list[Skipped], strange: list[str]) -> RunError:
        if strange:
            what = " and ".join(dict.fromkeys(strange))
            return RunError(
                f"{self.directory} was made with another {what}",
                hint=f"go on with the {what} as before, or train in another directory",
            )
        return RunError(
            f"none of the {len(skipped)} checkpoints in {self.directory} can be used: {skipped[0].reason}",
            hint="bring back a good copy of one, or remove them all to start from nothing",
        )


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """What the optimiser remembers, as `exp_avg/<parameter>`. Rates are not in it: they follow from the step."""
    return {
        f"{key}/{name}": value
        for name, parameter in _optimised(optimizer, model)
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer_tensors(optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Make the optimiser remember exactly this; for each parameter it must be all that is remembered, or nothing."""
    places = {name: (index, parameter) for index, (name, parameter) in enumerate(_optimised(optimizer, model))}
    state: dict[int, dict[str, Tensor]] = {}
    for full_name, tensor in tensors.items():
        key, _, name = full_name.partition("/")
        if name not in places:
            raise ArtifactError(f"the optimiser's state has {full_name!r}, which belongs to no parameter of this model")
        index, parameter = places[name]
        if tensor.dim() > 0:  # Adam's count of steps has no dimension
            require_matching_tensor(full_name, parameter, tensor)
            # laid out in memory as the parameter is: fused Adam walks through both side by side, whatever their strides
            tensor = torch.empty_like(parameter, requires_grad=False).copy_(tensor)
        state.setdefault(index, {})[key] = tensor
    first = 0
    for group in optimizer.param_groups:
        numbers = range(first, first := first + len(group["params"]))
        if len({frozenset(state[number]) for number in numbers if number in state}) > 1:
            raise ArtifactError("the optimiser's state is incomplete: it has less for some parameters than for others")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _optimised(optimizer: Optimizer, model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """The optimiser's parameters in its own order, with the names that the model gives them."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [(names[id(parameter)], parameter) for group in optimizer.param_groups for parameter in group["params"]]


def _step_name(step: int) -> str:
    return f"step-{step:08d}"
