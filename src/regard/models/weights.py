"""The weights of a model as named tensors."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn, no_grad

from regard.errors import ArtifactError

_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """All tensors of the model's state by name, not copied. A tied weight appears once, under its first name."""
    names: dict[int, str] = {}
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if names.setdefault(id(tensor), name) == name:
            tensors[name] = tensor.detach()
    return tensors


def load_weights(model: nn.Module, given: Mapping[str, Tensor], *, except_for: Sequence[str] = ()) -> None:
    """Copy these values into the model. All names, shapes and dtypes must match.

    With `except_for`, these parts of the model keep their values, and what the model does not have is left out.
    """
    own = named_weights(model)
    if except_for:
        own = {
            name: tensor
            for name, tensor in own.items()
            if not f"{name}.".startswith(tuple(f"{part}." for part in except_for))
        }
        given = {name: tensor for name, tensor in given.items() if name in own}
    require_matching_tensors(own, given)
    with no_grad():
        for name, tensor in given.items():
            own[name].copy_(tensor)


def require_matching_tensors(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    """Raise ArtifactError unless both have the same names, shapes and dtypes. Both may be on the device "meta"."""
    if missing := own.keys() - given.keys():
        raise ArtifactError(f"{len(missing)} tensors of this model are missing in the weights, e.g. {min(missing)!r}")
    if extra := given.keys() - own.keys():
        raise ArtifactError(f"the weights have {len(extra)} tensors that this model does not have, e.g. {min(extra)!r}")
    for name, tensor in given.items():
        require_matching_tensor(name, own[name], tensor)


def require_matching_tensor(name: str, own: Tensor, given: Tensor) -> None:
    """Raise ArtifactError unless both have the same shape and dtype."""
    if own.shape != given.shape or own.dtype != given.dtype:
        raise ArtifactError(
            f"{name!r} is {given.dtype} of {tuple(given.shape)}, this model has {own.dtype} of {tuple(own.shape)}"
        )


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file. Errors of the operating system are raised as OSError."""
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        if (match := _OS_ERROR.search(str(error))) is None:
            raise
        code = int(match[1])  # so that a full disk is the same error as from any other write
        raise OSError(code, os.strerror(code), str(path)) from error
