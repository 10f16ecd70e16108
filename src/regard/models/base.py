"""A model's weights as named tensors, and back, exactly."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn, no_grad

from regard.errors import ArtifactError
from regard.nn import Trace

_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")


class Memory(Protocol):
    """What the encoder made of the source."""

    def select(self, rows: Tensor) -> Self: ...


class State(Protocol):
    """What decoding remembers between two steps."""

    def select(self, rows: Tensor) -> Self:
        """Batch rows in another order, repeated or left out."""
        ...


class TranslationModel(Protocol):
    """`forward` for training, `encode / start / step` for decoding: two roads to the same numbers."""

    pad_id: int

    def forward(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, S), (B, T) → logits (B, T, V)."""
        ...

    def features(self, src: Tensor, tgt_in: Tensor, trace: Trace | None = None) -> Tensor:
        """(B, S), (B, T) → (B, T, D): `forward` without its last, largest product."""
        ...

    @property
    def output_weight(self) -> Tensor:
        """(V, D): logits are `features @ output_weight.T`."""
        ...

    def encode(self, src: Tensor, trace: Trace | None = None) -> Any: ...

    def start(self, memory: Any) -> Any:
        """The state before the first symbol."""
        ...

    def step(self, last: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(B,) last symbols → log-probabilities (B, V) of the next ones, and the new state."""
        ...


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """All that the model's state consists of, by name; tied weights once, under their first name. Not copied."""
    names: dict[int, str] = {}
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if names.setdefault(id(tensor), name) == name:
            tensors[name] = tensor.detach()
    return tensors


def load_weights(model: nn.Module, given: Mapping[str, Tensor]) -> None:
    """Give the model exactly these values; names, shapes and types must all agree."""
    own = named_weights(model)
    require_matching_tensors(own, given)
    with no_grad():
        for name, tensor in given.items():
            own[name].copy_(tensor)


def require_matching_weights(model: nn.Module, given: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not of this model; neither side needs memory (device "meta")."""
    require_matching_tensors(named_weights(model), given)


def require_matching_tensors(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    """Refuse tensors whose names, shapes or types are not those of `own`."""
    if missing := own.keys() - given.keys():
        raise ArtifactError(f"the weights lack {len(missing)} tensors of this model, {min(missing)!r} for one")
    if extra := given.keys() - own.keys():
        raise ArtifactError(f"the weights have {len(extra)} tensors that this model lacks, {min(extra)!r} for one")
    for name, tensor in given.items():
        require_matching_tensor(name, own[name], tensor)


def require_matching_tensor(name: str, own: Tensor, given: Tensor) -> None:
    """Refuse one tensor of another shape or type."""
    if own.shape != given.shape or own.dtype != given.dtype:
        raise ArtifactError(
            f"{name!r} is {given.dtype} of {tuple(given.shape)}, this model has {own.dtype} of {tuple(own.shape)}"
        )


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file; whatever the system refuses is an OSError."""
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        if (match := _SYSTEM_ERROR.search(str(error))) is None:
            raise
        code = int(match[1])  # a full disk should look like one, whoever met it
        raise OSError(code, os.strerror(code), str(path)) from error
