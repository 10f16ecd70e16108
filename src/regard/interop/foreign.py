"""A model directory of other software, and what becomes of it.

It may come from an untrusted source: nothing in it is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from regard.durable import read_json_file, read_regular_file
from regard.errors import ArtifactError
from regard.interop.weights import Weights
from regard.models import ModelSpec

T = TypeVar("T")

_MAX_JSON_BYTES = 30_000_000
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first of them is read
_SHARDS = tuple(f"{name}.index.json" for name in _WEIGHTS)


class ForeignModel:
    """A directory in the layout of Hugging Face: config.json, weights, and the files of a tokenizer."""

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            raise ArtifactError(f"{directory} is not a directory", hint="use the path of a downloaded model")
        self.directory = directory
        self.config: dict[str, Any] = self.json("config.json")

    def has(self, name: str) -> bool:
        return (self.directory / name).exists()

    def file(self, name: str) -> Path:
        """The path of a file; a link may only lead to where the cache of Hugging Face keeps its files, ../../blobs."""
        path = self.directory / name
        if not path.is_symlink():
            return path
        blobs = (self.directory / "../../blobs").resolve()
        if path.resolve().parent != blobs:
            raise ArtifactError(f"{path} is a link that leads outside of the model", hint="copy the file itself there")
        return path.resolve()

    def json(self, name: str) -> dict[str, Any]:
        return read_json_file(self.file(name), _MAX_JSON_BYTES)

    def bytes(self, name: str, max_bytes: int) -> bytes:
        return read_regular_file(self.file(name), max_bytes)

    def value(self, key: str, default: T) -> T:
        """A value of config.json, of the type of its default: the one that Hugging Face has for this key."""
        value = self.config.get(key, default)
        if type(default) is float and type(value) is int:
            value = float(value)
        if type(value) is not type(default):
            raise self.refused(f"{key} is {str(value)[:50]!r}, not {type(default).__name__}")
        return value

    def require(self, key: str, default: T, *allowed: T) -> None:
        """Raises ArtifactError if a value of config.json is not one that can be represented."""
        if (value := self.value(key, default)) not in allowed:
            raise self.refused(f"{key} = {value!r} has no counterpart in regard")

    def refused(self, reason: str) -> ArtifactError:
        return ArtifactError(f"{self.directory / 'config.json'}: {reason}")

    @cached_property
    def weights(self) -> Weights:
        for name in _WEIGHTS:
            if self.has(name):
                return Weights(self.file(name))
        if any(map(self.has, _SHARDS)):
            raise ArtifactError(f"{self.directory}: weights in several files are not supported")
        raise ArtifactError(f"{self.directory} has neither {' nor '.join(_WEIGHTS)}")


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A foreign model in our terms: everything that a model directory is made of."""

    spec: ModelSpec
    weights: Mapping[str, Tensor]  # by our names, float32
    assets: Mapping[str, bytes]  # files that the task needs, such as the vocabulary
    facts: Mapping[str, Any]
    tokenizers: Any = None  # a TokenizerPair, for models that read text
    notes: tuple[str, ...] = ()  # what is different from the original, a sentence each
