"""A model directory without its weights: what can be known of it without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.decoding.options import DecodingOptions
from regard.durable import read_json_file, read_regular_file, verify_directory
from regard.errors import ArtifactError
from regard.text import Tokenizer, TokenizerPair

FORMAT = 1
MAX_LENGTH_PENALTY = 3.0  # beyond that only length would count
DEFAULT_MAX_LENGTH = 256  # of a model that does not say
_LONGEST = 4_095  # as far as the waves of a converted model go, with one begin or end symbol
AGAIN = "copy the model again from where it was made"

_MAX_CONFIG_BYTES = 1_000_000
_MAX_TOKENIZER_BYTES = 30_000_000
_MAX_PIECES = 1_000_000
_PIECE, _SPECS = 0x0A, (0x12, 0x1A, 0x22, 0x2A)  # tags of sentencepiece_model.proto: field 1, and 2 to 5
_MAX_SPEC_BYTES = 2_000_000  # of what a tokenizer says of itself beside its pieces


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


def _read_tokenizers(directory: Path, files: frozenset[str]) -> TokenizerPair:
    def read(name: str) -> Tokenizer:
        model = read_regular_file(directory / name, _MAX_TOKENIZER_BYTES)
        if not _is_modest(model):
            raise ArtifactError(f"{directory / name} is damaged, or not a tokenizer of ours", hint=AGAIN)
        return Tokenizer(model)

    if "tokenizer.model" in files:
        joint = read("tokenizer.model")
        return TokenizerPair(joint, joint)
    if {"source.model", "target.model"} <= files:
        return TokenizerPair(read("source.model"), read("target.model"))
    raise ArtifactError(f"{directory} has no tokenizer.model", hint=AGAIN)


def _is_modest(model: bytes) -> bool:
    """Whether a SentencePiece model has no more parts than it should, counted before they take memory.

    It is a protocol buffer: parts, each a tag, a length and so many bytes. An empty piece is 2 bytes of file
    and 80 of memory.
    """
    n_pieces, n_spec_bytes, at = 0, 0, 0
    while at < len(model) and n_pieces <= _MAX_PIECES and n_spec_bytes <= _MAX_SPEC_BYTES:
        tag, length, shift = model[at], 0, 0
        at += 1
        while at < len(model) and shift < 35:
            length |= (model[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if model[at - 1] < 0x80:
                break
        at += length
        if tag == _PIECE:
            n_pieces += 1
        elif tag in _SPECS:
            n_spec_bytes += length + 2
        else:
            return False
    return at == len(model) and n_pieces <= _MAX_PIECES and n_spec_bytes <= _MAX_SPEC_BYTES
