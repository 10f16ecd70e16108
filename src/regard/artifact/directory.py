"""A model directory without its weights: what can be known of it without torch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.durable import read_json_file, read_regular_file, verify_directory
from regard.errors import ArtifactError
from regard.text import Tokenizer, TokenizerPair

FORMAT = 1
AGAIN = "copy the model again from where it was made"

_MAX_CONFIG_BYTES = 1_000_000
_MAX_TOKENIZER_BYTES = 100_000_000


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
        raise ArtifactError(f"{directory / 'config.json'} names no architecture", hint=AGAIN)
    if not isinstance(model, dict):
        raise ArtifactError(f"{directory / 'config.json'}: model: is not a table of values", hint=AGAIN)
    tokenizers = _read_tokenizers(directory, frozenset(records))
    facts = facts if isinstance(facts, dict) else {}
    digest = hashlib.sha256(sums.encode()).hexdigest()
    return Description(directory, architecture, model, tokenizers, facts, frozenset(records), digest)


def _read_tokenizers(directory: Path, files: frozenset[str]) -> TokenizerPair:
    def read(name: str) -> Tokenizer:
        return Tokenizer(read_regular_file(directory / name, _MAX_TOKENIZER_BYTES))

    if "tokenizer.model" in files:
        joint = read("tokenizer.model")
        return TokenizerPair(joint, joint)
    if {"source.model", "target.model"} <= files:
        return TokenizerPair(read("source.model"), read("target.model"))
    raise ArtifactError(f"{directory} has no tokenizer.model", hint=AGAIN)
