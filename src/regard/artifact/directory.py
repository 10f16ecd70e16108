"""A model directory without its weights: what can be known of it without torch."""

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
MAX_LENGTH_PENALTY = 3.0  # beyond that only length would count
DEFAULT_MAX_LENGTH = 256  # of a model that does not say
_LONGEST = 4_095  # as far as the waves of a converted model go, with one begin or end symbol
COPY_AGAIN = "copy the model again from where it was made"

_MAX_CONFIG_BYTES = 1_000_000


@dataclass(frozen=True)
class Description:
    """What a verified model directory says of itself."""

    directory: Path
    architecture: str
    model: dict[str, Any]  # the architecture's configuration, not yet checked
    tokenizers: TokenizerPair
    facts: dict[str, Any]  # what else there is to know: scores, how it was trained, the alignment head
    files: frozenset[str]
    digest: str  # changes when any byte of the model does


def model_directory(path: Path) -> Path:
    """`runs/en-de` and `runs/en-de/model` are the same thing."""
    inner = path / "model"
    if (inner / "config.json").exists() and not (path / "config.json").exists():
        return inner
    if not (path / "config.json").exists():
        hint = "is its training finished?" if (path / "recipe.toml").exists() else "name a run, or a model directory"
        raise ArtifactError(f"there is no model in {path}", hint=hint)
    return path


def describe(path: str | Path) -> Description:
    """Verify every byte of a run's model, or of a model directory, and read all but the weights."""
    directory = model_directory(Path(path))
    records = verify_directory(directory).files
    sums = "".join(f"{name} {records[name].sha256}\n" for name in sorted(records))
    content = read_json_file(directory / "config.json", _MAX_CONFIG_BYTES)
    if content.get("format") != FORMAT:
        raise ArtifactError(
            f"{directory / 'config.json'} has format {content.get('format')!r}; this version reads {FORMAT}",
            hint="use the version of regard that its 'written_by' names",
        )
    architecture, model, facts = (content.get(name) for name in ("architecture", "model", "facts"))
    if not isinstance(architecture, str):
        raise ArtifactError(f"{directory / 'config.json'} names no architecture", hint=COPY_AGAIN)
    if not isinstance(model, dict):
        raise ArtifactError(f"{directory / 'config.json'}: model: is not a table of values", hint=COPY_AGAIN)
    tokenizers = read_tokenizers(directory)
    facts = facts if isinstance(facts, dict) else {}
    digest = hashlib.sha256(sums.encode()).hexdigest()
    return Description(directory, architecture, model, tokenizers, facts, frozenset(records), digest)


def max_length(facts: Mapping[str, Any], model: Mapping[str, Any]) -> int:
    """The most sub-words that a text may have, its begin or end symbol not counted; a longer one has to be split.

    What the model was trained on; and learned positions have an end.
    """
    said, positions = facts.get("max_length"), model.get("max_positions")
    longest = said if isinstance(said, int) and said > 0 else DEFAULT_MAX_LENGTH
    if model.get("positions") == "learned" and isinstance(positions, int):
        longest = min(longest, positions - 1)
    return max(1, min(longest, _LONGEST))


def search_options(facts: Mapping[str, Any]) -> DecodingOptions:
    """How this model's translations are searched for: the paper's way, with the penalty that suited its own text."""
    said = facts.get("length_penalty")
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= MAX_LENGTH_PENALTY:
        return DecodingOptions()
    return DecodingOptions(length_penalty=float(said))


def read_tensor_shapes(path: Path, max_bytes: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The dtype (such as "F32") and shape of each tensor in a safetensors file, from its header alone."""
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
