"""The weights of a foreign model directory, one tensor at a time: `model.safetensors`, or `pytorch_model.bin`.

Sizes are known before memory is taken, and nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.artifact.directory import read_tensor_shapes
from regard.errors import ArtifactError
from regard.interop.torch_file import ITEM_SIZES, Block, read_torch_file

Shape = tuple[int, ...]

_MAX_HEADER_BYTES = 2_000_000  # of a safetensors file
_DTYPES = {
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Bool": torch.bool,
}


class Weights:
    """Named tensors in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._blocks: dict[str, Block] = {}
        if path.suffix == ".safetensors":
            headers = read_tensor_shapes(path, _MAX_HEADER_BYTES)
            self.shapes: dict[str, Shape] = {name: shape for name, (_, shape) in headers.items()}
            self._file = self._open_safetensors()
        else:
            self._blocks = read_torch_file(path)
            self.shapes = {name: block.shape for name, block in self._blocks.items()}

    def require(self, expected: Mapping[str, Shape], optional: Collection[str] = ()) -> None:
        """Raises ArtifactError unless the file has exactly these tensors, and perhaps others that are `optional`."""
        if missing := expected.keys() - self.shapes.keys():
            raise ArtifactError(f"{self.path} lacks {len(missing)} tensors, e.g. {min(missing)!r}")
        if unknown := self.shapes.keys() - expected.keys() - set(optional):
            raise ArtifactError(f"{self.path} has {len(unknown)} tensors too many, e.g. {min(unknown)[:100]!r}")
        for name, shape in expected.items():
            if self.shapes[name] != shape:
                raise ArtifactError(f"{self.path}: {name!r} is of {self.shapes[name]}; config.json has {shape}")

    def read(self, name: str) -> Tensor:
        """A tensor as float32, in memory of its own."""
        tensor = self._read_block(self._blocks[name]) if self._blocks else self._file.get_tensor(name)
        tensor = tensor.to(torch.float32, copy=not self._blocks)
        if tensor.numel() and not all(isfinite(extreme) for extreme in tensor.aminmax()):
            raise ArtifactError(f"{self.path}: {name!r} has infinite or NaN values")
        return tensor

    def _read_block(self, block: Block) -> Tensor:
        n_bytes = prod(block.shape) * ITEM_SIZES[block.kind]
        data = np.fromfile(self.path, np.uint8, n_bytes, offset=block.position)
        if len(data) != n_bytes:
            raise ArtifactError(f"{self.path} was changed while it was read")
        return torch.from_numpy(data).view(_DTYPES[block.kind]).view(block.shape)

    def _open_safetensors(self) -> Any:
        try:
            return safe_open(self.path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise ArtifactError(f"{self.path} is not a safetensors file: {error}") from error
