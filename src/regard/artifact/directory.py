"""Reads a model directory except its weights, without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.decoding.options import DecodingOptions
from regard.durable import open_regular_file, read_json_file, verify_directory
from regard.errors import ArtifactError
from regard.text import TokenizerPair, read_tokenizers

FORMAT = 1
MAX_LENGTH_PENALTY = 3.0  # with a larger one, only the length would count
DEFAULT_MAX_LENGTH = 256  # if the model does not define it
COPY_AGAIN = "copy the model directory again from the original"

_MAX_LENGTH = 4_095  # a converted model has position encodings for this length and one begin or end symbol
_MAX_CONFIG_BYTES = 1_000_000


@dataclass(frozen=True)
class Description:
    """The content of a verified model directory, except its weights."""

    directory: Path
    architecture: str
    model: dict[str, Any]  # the configuration of the architecture, not yet validated
    tokenizers: TokenizerPair
    facts: dict[str, Any]  # for example languages, scores, how it was trained, the alignment head
    files: frozenset[str]
    digest: str  # changes with any byte of the directory


def model_directory(path: Path) -> Path:
    """The model directory of a run, or the path itself: `runs/en-de` and `runs/en-de/model` are the same model."""
    inner = path / "model"
    if (inner / "config.json").exists() and not (path / "config.json").exists():
        return inner
    if not (path / "config.json").exists():
        is_run = (path / "recipe.toml").exists()
        hint = "wait until its training has finished" if is_run else "use the path of a run or of a model directory"
        raise ArtifactError(f"there is no model in {path}", hint=hint)
    return path


def describe(path: str | Path) -> Description:
    """Verify every byte of a model directory, or of that of a run, and read everything except the weights."""
    directory = model_directory(Path(path))
    try:
        records = verify_directory(directory).files
        content = read_json_file(directory / "config.json", _MAX_CONFIG_BYTES)
    except ArtifactError as error:
        raise ArtifactError(error.message, hint=error.hint or COPY_AGAIN) from error
    sums = "".join(f"{name} {records[name].sha256}\n" for name in sorted(records))
    if content.get("format") != FORMAT:
        raise ArtifactError(
            f"{directory / 'config.json'} has format {content.get('format')!r}; this version reads {FORMAT}",
            hint="use the version of regard that is named there as written_by",
        )
    architecture, model, facts = (content.get(name) for name in ("architecture", "model", "facts"))
    if not isinstance(architecture, str):
        raise ArtifactError(f"{directory / 'config.json'} has no architecture", hint=COPY_AGAIN)
    if not isinstance(model, dict):
        raise ArtifactError(f"{directory / 'config.json'}: model: must be an object", hint=COPY_AGAIN)
    tokenizers = read_tokenizers(directory)
    facts = facts if isinstance(facts, dict) else {}
    digest = hashlib.sha256(sums.encode()).hexdigest()
    return Description(directory, architecture, model, tokenizers, facts, frozenset(records), digest)


def max_length(facts: Mapping[str, Any], model: Mapping[str, Any]) -> int:
    """The maximum length of a text, in sub-words without bos and eos; a longer text has to be split.

    It is the maximum length in training, limited by the number of learned positions.
    """
    trained, positions = facts.get("max_length"), model.get("max_positions")
    length = trained if isinstance(trained, int) and trained > 0 else DEFAULT_MAX_LENGTH
    if model.get("positions") == "learned" and isinstance(positions, int):
        length = min(length, positions - 1)
    return max(1, min(length, _MAX_LENGTH))


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
