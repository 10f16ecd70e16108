"""Reads the summary of a run from its directory, also while the run is being written. Imports no torch."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

from regard.durable import is_locked, open_regular_file, read_json_file, read_regular_file
from regard.errors import ArtifactError, RunError
from regard.report.replay import MAX_CHARACTERS, Replay, limit_sizes, number
from regard.report.summary import RunSummary, State

_MAX_BYTES = 1_000_000


class RunReader:
    """Reads a run repeatedly; each time only the new part of its journal is read."""

    def __init__(self, path: str | Path) -> None:
        self.directory = run_directory(Path(path))
        self._replay = Replay()
        self._n_read = 0
        self._journal: tuple[int, int] | None = None  # device and inode

    def read(self) -> RunSummary:
        return self.summarise(self.replay())

    def summarise(self, replay: Replay, unfinished: State | None = None) -> RunSummary:
        """The summary of a replay together with the recipe and the facts of the model.

        `unfinished` is the state of a run without a model; by default "running" if it is locked, else "stopped".
        """
        recipe = _read_bytes(self.directory / "recipe.toml")
        facts = _read_facts(self.directory / "model" / "config.json")
        has_model = facts is not None and facts.get("recipe") == hashlib.sha256(recipe).hexdigest()
        if replay.finished or (has_model and not is_locked(self.directory)):  # a finished run can be given more time
            state: State = "finished"
        else:
            state = unfinished or ("running" if is_locked(self.directory) else "stopped")
        name = self.directory.absolute().name
        return replay.summary(name=name, state=state, recipe=_parse_recipe(recipe), facts=facts)

    def replay(self) -> Replay:
        """The events of the journal, up to its last complete line."""
        try:
            file = open_regular_file(self.directory / "journal.jsonl")
        except ArtifactError:
            return self._replay
        with file:
            info = os.fstat(file.fileno())
            if self._journal != (info.st_dev, info.st_ino) or info.st_size < self._n_read:
                self._replay, self._n_read = Replay(), 0
            self._journal = (info.st_dev, info.st_ino)
            file.seek(self._n_read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._n_read += len(line)
                if isinstance(event := _parse_event(line), dict):
                    self._replay.add(event)
        return self._replay


def run_directory(path: Path) -> Path:
    """The directory of a run; `runs/en-de` and `runs/en-de/model` are the same run."""
    for candidate in (path, path.absolute().parent):
        if (candidate / "recipe.toml").is_file():
            return candidate
        if path.name != "model":
            break
    raise RunError(f"there is no run in {path}", hint="name a directory written by `regard train`")


def _parse_event(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _read_bytes(path: Path) -> bytes:
    try:
        return read_regular_file(path, _MAX_BYTES)
    except (ArtifactError, OSError):
        return b""


def _parse_recipe(raw: bytes) -> dict[str, Any]:
    try:
        return {name: _json_value(value) for name, value in tomllib.loads(raw.decode()).items()}
    except (ValueError, RecursionError):  # invalid TOML or UTF-8, an endless number
        return {}


def _json_value(value: Any) -> Any:
    """Values that TOML has and JSON does not (dates, nan, very large numbers) as text."""
    match value:
        case dict():
            return {name: _json_value(inner) for name, inner in value.items()}
        case list():
            return [_json_value(inner) for inner in value]
        case str() | bool():
            return value
    return value if number(value) is not None else str(value)[:MAX_CHARACTERS]


def _read_facts(path: Path) -> dict[str, Any] | None:
    """The facts of a finished model, without its language profiles; its weights are not read."""
    try:
        facts = read_json_file(path, _MAX_BYTES).get("facts")
    except (ArtifactError, OSError):
        return None
    if not isinstance(facts, dict):
        return None
    return limit_sizes({name: value for name, value in facts.items() if name != "profiles"})
