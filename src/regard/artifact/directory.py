"""Reads a model directory except its weights, without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.decoding.options import DecodingOptions
from regard.durable import open_regular_file, read_json_file, read_regular_file, verify_directory
from regard.errors import ArtifactError
from regard.text import TOKENIZER_FILES, TokenizerPair, read_tokenizers

FORMAT = 1
MAX_LENGTH_PENALTY = 3.0  # with a larger one, only the length would count
DEFAULT_MAX_LENGTH = 256  # if the model does not define it
COPY_AGAIN = "copy the model directory again from the original"

_MAX_LENGTH = 4_095  # a converted model has position encodings for this length and one begin or end symbol
_MAX_CONFIG_BYTES = 1_000_000
_MAX_SIZE = 2**31


@dataclass(frozen=True)
class Description:
    """The content of a verified model directory, except its weights."""

    directory: Path
    task: str
    architecture: str
    model: dict[str, Any]  # the configuration of the architecture, not yet validated
    size: str | None  # the same in a few words; 0.1.0 did not store it
    sizes: dict[str, int]  # sizes of the model that come from its data
    max_length: int | None  # of a sequence, with its begin or end token; None if the model has no limit
    facts: dict[str, Any]  # for example languages, scores, how it was trained, the alignment head
    files: frozenset[str]
    digest: str  # changes with any byte of the directory

    @property
    def has_tokenizers(self) -> bool:
        return bool(self.files & TOKENIZER_FILES)

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        """Of a model that reads text."""
        return read_tokenizers(self.directory)

    def read_asset(self, name: str, max_bytes: int) -> bytes:
        """A file of the model directory that its task has put there, such as the names of its classes."""
        if name not in self.files:
            raise ArtifactError(f"{self.directory / name} is missing", hint=COPY_AGAIN)
        return read_regular_file(self.directory / name, max_bytes)


def model_directory(path: Path) -> Path:
    """The model directory of a run, or the path itself: `runs/en-de` and `runs/en-de/model` are the same model."""
    inner = path / "model"
    if (inner / "config.json").exists() and not (path / "config.json").exists():
        return inner
    if not (path / "config.json").exists():
        hint = "use the path of a run or of a model directory"
        if (path / "recipe.toml").exists():
            hint = "wait until its training has finished"
        elif runs := sorted(path.glob("*/model")):
            hint = f"it has several runs; use one of them, such as {runs[0].parent}"
        raise ArtifactError(f"there is no model in {path}", hint=hint)
    return path


def describe(path: str | Path) -> Description:
    """Verify every byte of a model directory, or of that of a run, and read everything except the weights."""
    directory = model_directory(Path(path))
    try:
        records = verify_directory(directory)
        content = read_json_file(directory / "config.json", _MAX_CONFIG_BYTES)
    except ArtifactError as error:
        raise ArtifactError(error.message, hint=error.hint or COPY_AGAIN) from error
    sums = "".join(f"{name} {records[name].sha256}\n" for name in sorted(records))
    if content.get("format") != FORMAT:
        raise ArtifactError(
            f"{directory / 'config.json'} has format {content.get('format')!r}; this version reads {FORMAT}",
            hint="use the version of regard that is named there as written_by",
        )
    architecture, model, size, facts = (content.get(name) for name in ("architecture", "model", "size", "facts"))
    if not isinstance(architecture, str):
        raise ArtifactError(f"{directory / 'config.json'} has no architecture", hint=COPY_AGAIN)
    if not isinstance(model, dict):
        raise ArtifactError(f"{directory / 'config.json'}: model: must be an object", hint=COPY_AGAIN)
    described = Description(
        directory,
        task=str(content.get("task", "translation")),  # 0.1.0 had no other
        architecture=architecture,
        model=model,
        size=size if isinstance(size, str) else None,
        sizes=_sizes(directory, content.get("sizes", {})),
        max_length=_max_length(content),
        facts=facts if isinstance(facts, dict) else {},
        files=frozenset(records),
        digest=hashlib.sha256(sums.encode()).hexdigest(),
    )
    _check_vocabulary(described, stores_sizes="task" in content)
    return described


def _max_length(content: dict[str, Any]) -> int | None:
    """0.1.0 did not store it: there, learned positions were the only limit."""
    limit = content.get("max_length")
    if "task" not in content and content["model"].get("positions") == "learned":
        limit = content["model"].get("max_positions")
    return limit if isinstance(limit, int) else None


def _sizes(directory: Path, sizes: Any) -> dict[str, int]:
    if not isinstance(sizes, dict) or not all(type(size) is int and 0 <= size < _MAX_SIZE for size in sizes.values()):
        raise ArtifactError(f"{directory / 'config.json'}: sizes: must be numbers", hint=COPY_AGAIN)
    return sizes


def _check_vocabulary(described: Description, *, stores_sizes: bool) -> None:
    """Reads the tokenizers, if there are any. Sizes must agree with them; 0.1.0 did not store any others."""
    if not described.has_tokenizers and stores_sizes:
        return
    sizes = described.tokenizers.sizes | {"n_symbols": described.tokenizers.source.size}  # of one side only
    if differing := [name for name, size in sizes.items() if described.sizes.get(name, size) != size]:
        raise ArtifactError(
            f"{described.directory / 'config.json'}: sizes.{differing[0]} is {described.sizes[differing[0]]}, "
            f"but the vocabulary has {sizes[differing[0]]}",
            hint=COPY_AGAIN,
        )
    if not stores_sizes:
        described.sizes.update(described.tokenizers.sizes)


def max_length(facts: Mapping[str, Any], limit: int | None) -> int:
    """The maximum length of a text, in sub-words without bos and eos; a longer text has to be split.

    It is the maximum length in training. `limit` is that of the model, with bos or eos.
    """
    trained = facts.get("max_length")
    length = trained if isinstance(trained, int) and trained > 0 else DEFAULT_MAX_LENGTH
    return max(1, min(length, _MAX_LENGTH, _MAX_LENGTH if limit is None else limit - 1))


def search_options(facts: Mapping[str, Any]) -> DecodingOptions:
    """The default decoding options: those of the paper, with the length penalty chosen on the validation text."""
    penalty = facts.get("length_penalty")
    if isinstance(penalty, bool) or not isinstance(penalty, int | float) or not 0 <= penalty <= MAX_LENGTH_PENALTY:
        return DecodingOptions()
    return DecodingOptions(length_penalty=float(penalty))


def read_tensor_shapes(path: Path, max_bytes: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The dtype (such as "F32") and shape of each tensor in a safetensors file, from its header only."""
    with open_regular_file(path) as file:
        size = int.from_bytes(file.read(8), "little")
        if size > max_bytes:
            raise ArtifactError(f"{path} is not a safetensors file", hint=COPY_AGAIN)
        raw = file.read(size)
    try:
        header = {name: entry for name, entry in json.loads(raw).items() if name != "__metadata__"}
        return {name: (str(entry["dtype"]), tuple(map(int, entry["shape"]))) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ArtifactError(f"{path} is not a safetensors file of weights", hint=COPY_AGAIN) from error
