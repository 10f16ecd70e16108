"""A model directory with its weights: write it whole, load it in torch."""

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

_MAX_HEADER_BYTES_PER_LAYER = 4_000  # ours have 2,000
_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


@dataclass(frozen=True)
class LoadedModel:
    """A finished model, ready to run."""

    architecture: str
    config: TransformerConfig
    model: Transformer
    tokenizers: TokenizerPair
    facts: dict[str, Any]  # what else config.json says: languages, scores, how it was trained


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
    """Write a model directory, whole or not at all; an older one in its place is replaced.

    `write_more` writes into it as well, before it takes its place: another engine's form of the weights.
    """
    described = {
        "format": FORMAT,
        "written_by": f"regard {__version__}",
        "architecture": architecture,
        "model": config.model_dump(),
        "facts": facts,
    }

    def write(aside: Path) -> None:
        (aside / "config.json").write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        write_tensors(aside / "model.safetensors", weights)
        tokenizers.write(aside)
        (aside / "README.md").write_text(card, encoding="utf-8")
        if write_more is not None:
            write_more(aside)

    commit_directory(directory, write)


def load_model(path: str | Path, device: torch.device | str = "cpu") -> LoadedModel:
    """The model of a run, or of a model directory; an ArtifactError says why it is refused."""
    return load_described(describe(path), device)


def load_described(described: Description, device: torch.device | str = "cpu") -> LoadedModel:
    """Like `load_model`, for a directory that has just been verified: its bytes are not hashed again."""
    path = described.directory
    weights = described.directory / "model.safetensors"
    if described.architecture not in MODELS:
        known = ", ".join(MODELS)
        raise ArtifactError(f"{path}: no architecture is called {described.architecture!r}", hint=f"one of {known}")
    model_type, config_type = MODELS[described.architecture]
    try:
        config = config_type.model_validate(described.model)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        file = described.directory / "config.json"
        raise ArtifactError(f"{file}: model.{where}: {first['msg']}", hint=COPY_AGAIN) from error
    tokenizers = described.tokenizers
    _require_shapes(weights, model_type, config, tokenizers)
    values = _read_weights(weights)  # mapped, and known to be good before a model takes as much memory
    with torch.random.fork_rng(devices=[]):  # the first, random weights are nobody's business
        model = model_type(config, tokenizers.source.size, tokenizers.target.size, tokenizers.source.pad_id)
    load_weights(model, values)
    return LoadedModel(described.architecture, config, model.to(device).eval(), tokenizers, described.facts)


def _require_shapes(
    path: Path, model_type: type[Transformer], config: TransformerConfig, tokenizers: TokenizerPair
) -> None:
    """Compare what config.json promises with the weights' own index, before any memory is taken for either."""
    n_layers = config.n_encoder_layers + config.n_decoder_layers
    shapes = read_tensor_shapes(path, _MAX_HEADER_BYTES_PER_LAYER * (n_layers + 10))
    # every layer has weights of its own: without this, building even an empty model could take long
    if n_layers > len(shapes):
        raise ArtifactError(f"{path} does not have the layers that config.json says", hint=COPY_AGAIN)
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
        raise ArtifactError(f"{path} is shorter than its own index says", hint=COPY_AGAIN)


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} is not a safetensors file: {error}", hint=COPY_AGAIN) from error
    for name, tensor in weights.items():
        if tensor.numel() and not all(isfinite(extreme) for extreme in tensor.aminmax()):  # without a copy
            raise ArtifactError(f"{path}: {name!r} has values that are not numbers", hint=COPY_AGAIN)
    return weights
