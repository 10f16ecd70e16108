"""How two processes share a batch (as bytes, nothing is pickled), and weights and gradients (in shared memory)."""

from __future__ import annotations

import json
import mmap
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from regard.data import Batch, Place

_ALIGNMENT = 16  # floats: a cache line


def encode_request(batch: Batch, n_targets: tuple[int, ...], dropout_seed: int) -> tuple[bytes, bytes]:
    """A description as JSON, and all tensors in the format of safetensors."""
    request = {
        "n_targets": batch.n_targets,
        "n_targets_in_update": n_targets,
        "dropout_seed": dropout_seed,
        "place": asdict(batch.place),
        "n_inputs": len(batch.inputs),
    }
    tensors = enumerate((*batch.inputs, *batch.targets))
    # cloned, because safetensors refuses tensors that share memory
    copies = {str(number): tensor.clone(memory_format=torch.contiguous_format) for number, tensor in tensors}
    return json.dumps(request).encode(), save(copies)


def decode_batch(request: dict[str, Any], data: bytes) -> Batch:
    """The batch of `encode_request`."""
    by_number = load(data)
    tensors = tuple(by_number[str(number)] for number in range(len(by_number)))
    inputs, targets = tensors[: request["n_inputs"]], tensors[request["n_inputs"] :]
    return Batch(inputs, targets, tuple(request["n_targets"]), Place(**request["place"]), np.arange(len(inputs[0])))


def n_bytes(parameters: list[Tensor]) -> int:
    """Size of the shared memory for weights and gradients."""
    return 2 * 4 * sum(map(_aligned_size, parameters))


def _aligned_size(parameter: Tensor) -> int:
    return -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT


def shared_tensors(memory: int, parameters: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Views of the memory behind a file descriptor: one per weight, and one per gradient."""
    floats = torch.frombuffer(mmap.mmap(memory, n_bytes(parameters)), dtype=torch.float32)
    chunks = floats.split([_aligned_size(parameter) for parameter in parameters] * 2)
    views = [chunk[: like.numel()].view(like.shape) for chunk, like in zip(chunks, parameters * 2, strict=True)]
    return views[: len(parameters)], views[len(parameters) :]
