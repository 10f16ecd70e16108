"""A run directory → its story, whether the run is finished, stopped, or in the middle of a line. Loads no torch."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

from regard.durable import is_locked, open_regular_file, read_json_file, read_regular_file
from regard.errors import ArtifactError, RunError
from regard.report.replay import MAX_CHARACTERS, Chronicle, bounded_values, number
from regard.report.summary import RunStory, State

_MAX_BYTES = 1_000_000


def read_run(path: str | Path) -> RunStory:
    """The story of a run so far."""
    return RunReader(path).read()


class RunReader:
    """Reads a run again and again, and only what is new of its journal each time."""

    def __init__(self, path: str | Path) -> None:
        self.directory = run_directory(Path(path))
        self._chronicle = Chronicle()
        self._read_bytes = 0
        self._journal: tuple[int, int] | None = None  # which file it was

    def read(self) -> RunStory:
        return self.told(self.chronicle(), None)

    def told(self, chronicle: Chronicle, unfinished: State | None) -> RunStory:
        """A chronicle's story, with what else lies in the directory.

        `unfinished` is the state of a run that has no model yet; whoever does not know it leaves that to the lock.
        """
        raw = _bytes_of(self.directory / "recipe.toml")
        facts = _facts(self.directory / "model" / "config.json")
        made = facts is not None and facts.get("recipe") == hashlib.sha256(raw).hexdigest()
        if chronicle.finished or made:
            state: State = "finished"
        else:
            state = unfinished or ("running" if is_locked(self.directory) else "stopped")
        return chronicle.story(name=self.directory.absolute().name, state=state, recipe=_parsed(raw), facts=facts)

    def chronicle(self) -> Chronicle:
        """What the journal tells, up to its last whole line."""
        try:
            file = open_regular_file(self.directory / "journal.jsonl")
        except ArtifactError:
            return self._chronicle
        with file:
            info = os.fstat(file.fileno())
            if self._journal != (info.st_dev, info.st_ino) or info.st_size < self._read_bytes:
                self._chronicle, self._read_bytes = Chronicle(), 0
            self._journal = (info.st_dev, info.st_ino)
            file.seek(self._read_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read_bytes += len(line)
                if isinstance(event := _event(line), dict):
                    self._chronicle.add(event)
        return self._chronicle


def run_directory(path: Path) -> Path:
    """The run that a path is of: `runs/en-de` and `runs/en-de/model` are the same thing."""
    for candidate in (path, path.absolute().parent):
        if (candidate / "recipe.toml").is_file():
            return candidate
        if path.name != "model":
            break
    raise RunError(f"there is no run in {path}", hint="name a directory that `regard train` made")


def _event(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _bytes_of(path: Path) -> bytes:
    try:
        return read_regular_file(path, _MAX_BYTES)
    except (ArtifactError, OSError):
        return b""


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        return {name: _plain(value) for name, value in tomllib.loads(raw.decode()).items()}
    except (ValueError, RecursionError):  # not TOML, not UTF-8, a number without end
        return {}


def _plain(value: Any) -> Any:
    """What TOML has and JSON has not (dates, nan, endless numbers), as text."""
    match value:
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case str() | bool():
            return value
    return value if number(value) is not None else str(value)[:MAX_CHARACTERS]


def _facts(path: Path) -> dict[str, Any] | None:
    """What a finished model says of itself; its weights are not looked at."""
    try:
        facts = read_json_file(path, _MAX_BYTES).get("facts")
    except (ArtifactError, OSError):
        return None
    if not isinstance(facts, dict):
        return None
    return bounded_values(
        {name: value for name, value in facts.items() if name != "profiles"}
    )  # those are for machines
