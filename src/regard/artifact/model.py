"""Writes and loads a model directory, with torch."""

from __future__ import annotations

import json
from collections.abc import Callable
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
from regard.models import MODELS, Transformer, TransformerConfig, load_weights, require_matching_weights, write_tensors
from regard.text import TokenizerPair

_MAX_HEADER_BYTES_PER_LAYER = 4_000  # regard writes about 2,000
_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


@dataclass(frozen=True)
class LoadedModel:
    """A trained model, ready to run."""

    architecture: str
    config: TransformerConfig
    model: Transformer
    tokenizers: TokenizerPair
    facts: dict[str, Any]  # for example languages, scores, how it was trained, the alignment head


def save_model(
    directory: Path,
    *,
    architecture: str,
    config: TransformerConfig,
    weights: dict[str, Tensor],
    tokenizers: TokenizerPair,
    facts: dict[str, Any],
    card: str,
    write_more: Callable[[Path], None] | None = None,
) -> None:
    """Write a model directory atomically, replacing an existing one.

    `write_more` is called with the temporary directory and can add files, such as the weights in another format.
    """
    content = {
        "format": FORMAT,
        "written_by": f"regard {__version__}",
        "architecture": architecture,
        "model": config.model_dump(),
        "facts": facts,
    }

    def write(temporary: Path) -> None:
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (temporary / "config.json").write_text(text, encoding="utf-8")
        write_tensors(temporary / "model.safetensors", weights)
        tokenizers.write(temporary)
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
    if described.architecture not in MODELS:
        raise ArtifactError(
            f"{described.directory}: unknown architecture {described.architecture!r}",
            hint=f"this version of regard has: {', '.join(MODELS)}",
        )
    model_type, config_type = MODELS[described.architecture]
    try:
        config = config_type.model_validate(described.model)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        file = described.directory / "config.json"
        raise ArtifactError(f"{file}: model.{field}: {first['msg']}", hint=COPY_AGAIN) from error
    tokenizers = described.tokenizers
    _require_shapes(path_to_weights, model_type, config, tokenizers)
    weights = _read_weights(path_to_weights)  # memory-mapped, and checked before the model allocates memory
    with torch.random.fork_rng(devices=[]):  # do not disturb the caller's RNG
        model = model_type(config, tokenizers.source.size, tokenizers.target.size, tokenizers.source.pad_id)
    load_weights(model, weights)
    return LoadedModel(described.architecture, config, model.to(device).eval(), tokenizers, described.facts)


def _require_shapes(
    path: Path, model_type: type[Transformer], config: TransformerConfig, tokenizers: TokenizerPair
) -> None:
    """Check that the header of the weights agrees with config.json, before memory is allocated for either."""
    n_layers = config.n_encoder_layers + config.n_decoder_layers
    shapes = read_tensor_shapes(path, _MAX_HEADER_BYTES_PER_LAYER * (n_layers + 10))
    # each layer has weights; without this check, building even an empty model could take very long
    if n_layers > len(shapes):
        raise ArtifactError(f"{path} has fewer layers than config.json", hint=COPY_AGAIN)
    with torch.device("meta"):
        try:
            given = {name: torch.empty(shape, dtype=_DTYPES[dtype]) for name, (dtype, shape) in shapes.items()}
        except (KeyError, TypeError, RuntimeError) as error:
            raise ArtifactError(f"{path} is not a safetensors file of weights", hint=COPY_AGAIN) from error
        try:
            require_matching_weights(model_type(config, tokenizers.source.size, tokenizers.target.size), given)
        except (ArtifactError, ValueError) as error:
            raise ArtifactError(f"{path}: {getattr(error, 'message', error)}", hint=COPY_AGAIN) from error
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
