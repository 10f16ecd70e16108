"""Writes and loads a model directory, with torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard import __version__
from regard.artifact.directory import COPY_AGAIN, FORMAT, Description, describe, read_tensor_shapes
from regard.durable import commit_directory
from regard.errors import ArtifactError
from regard.models import (
    ARCHITECTURES,
    ModelConfig,
    ModelSpec,
    load_weights,
    named_weights,
    require_matching_tensors,
    write_tensors,
)
from regard.text import TokenizerPair

_MAX_HEADER_BYTES = 1_000_000  # regard writes about 100 per tensor
_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


@dataclass(frozen=True)
class LoadedModel:
    """A trained model, ready to run."""

    architecture: str
    config: ModelConfig
    model: Any  # what the task asks for, such as a TranslationModel
    tokenizers: TokenizerPair  # None for a model that reads no text
    facts: dict[str, Any]  # for example languages, scores, how it was trained, the alignment head
    task: str = "translation"


def save_model(
    directory: Path,
    *,
    spec: ModelSpec,
    weights: dict[str, Tensor],
    assets: Mapping[str, bytes],
    facts: dict[str, Any],
    card: str,
    write_more: Callable[[Path], None] | None = None,
) -> None:
    """Write a model directory atomically, replacing an existing one.

    `assets` are files that the task needs, such as the vocabulary. `write_more` is called with the temporary directory
    and can add files, such as the weights in another format.
    """
    content = {
        "format": FORMAT,
        "written_by": f"regard {__version__}",
        "task": spec.task,
        "architecture": spec.architecture,
        "model": spec.config.model_dump(),
        "size": spec.config.describe(),
        "sizes": dict(spec.sizes),
        "max_length": spec.config.max_length,
        "facts": facts,
    }

    def write(temporary: Path) -> None:
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (temporary / "config.json").write_text(text, encoding="utf-8")
        write_tensors(temporary / "model.safetensors", weights)
        for name, asset in assets.items():
            (temporary / name).write_bytes(asset)
        (temporary / "README.md").write_text(card, encoding="utf-8")
        if write_more is not None:
            write_more(temporary)

    commit_directory(directory, write)


def load_model(path: str | Path, device: torch.device | str = "cpu") -> LoadedModel:
    """Load the model of a run or of a model directory. Raises ArtifactError if it is damaged or invalid."""
    return load_described(describe(path), device)


def load_described(described: Description, device: torch.device | str = "cpu") -> LoadedModel:
    """Load the weights of a model directory that has just been verified; its files are not hashed again."""
    path_to_weights = described.directory / "model.safetensors"
    spec = model_spec(described)
    _require_shapes(path_to_weights, spec)
    weights = _read_weights(path_to_weights)  # memory-mapped, and checked before the model allocates memory
    with torch.random.fork_rng(devices=[]):  # do not disturb the caller's RNG
        model = spec.build()
    load_weights(model, weights)
    has_tokenizers = model.reads_text or described.has_tokenizers
    tokenizers: Any = described.tokenizers if has_tokenizers else None  # raises ArtifactError if they are missing
    return LoadedModel(
        spec.architecture, spec.config, model.to(device).eval(), tokenizers, described.facts, described.task
    )


def model_spec(described: Description) -> ModelSpec:
    """The validated configuration; raises ArtifactError if this version does not have such a model."""
    file = described.directory / "config.json"
    architecture = ARCHITECTURES.get(described.architecture)
    if architecture is None:
        raise ArtifactError(
            f"{file}: unknown architecture {described.architecture!r}",
            hint=f"this version of regard has: {', '.join(ARCHITECTURES)}",
        )
    if described.task not in architecture.models:
        raise ArtifactError(
            f"{file}: {described.architecture} has no model for the task {described.task!r}", hint=COPY_AGAIN
        )
    try:
        config = architecture.config.model_validate(described.model)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ArtifactError(f"{file}: model.{field}: {first['msg']}", hint=COPY_AGAIN) from error
    return ModelSpec(described.task, described.architecture, config, described.sizes)


def _require_shapes(path: Path, spec: ModelSpec) -> None:
    """Check that the header of the weights agrees with config.json, before memory is allocated for either."""
    shapes = read_tensor_shapes(path, _MAX_HEADER_BYTES)
    # each layer has weights; without this check, building even an empty model could take very long
    if spec.config.depth > len(shapes):
        raise ArtifactError(f"{path} has fewer layers than config.json", hint=COPY_AGAIN)
    with torch.device("meta"):
        try:
            given = {name: torch.empty(shape, dtype=_DTYPES[dtype]) for name, (dtype, shape) in shapes.items()}
        except (KeyError, TypeError, RuntimeError) as error:
            raise ArtifactError(f"{path} is not a safetensors file of weights", hint=COPY_AGAIN) from error
        try:
            model = spec.outline()
        except (ValueError, TypeError, RuntimeError) as error:  # TypeError: a size is missing, or there is no such size
            reason = str(error).rpartition("__init__() ")[2].partition("\n")[0]
            raise ArtifactError(
                f"{path.with_name('config.json')}: model and sizes do not fit: {reason}", hint=COPY_AGAIN
            ) from error
        try:
            require_matching_tensors(named_weights(model), given)
        except ArtifactError as error:
            raise ArtifactError(f"{path}: {error.message}", hint=COPY_AGAIN) from error
    n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in given.values())
    if n_bytes > path.stat().st_size:
        raise ArtifactError(f"{path} is shorter than its header says", hint=COPY_AGAIN)


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} is not a safetensors file: {error}", hint=COPY_AGAIN) from error
    for name, tensor in weights.items():
        if tensor.numel() and not all(isfinite(extreme) for extreme in tensor.aminmax()):  # aminmax makes no copy
            raise ArtifactError(f"{path}: {name!r} has infinite or NaN values", hint=COPY_AGAIN)
    return weights
