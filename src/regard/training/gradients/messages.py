"""How two processes share a batch, weights and gradients: messages over a socket, and shared memory.

Nothing is pickled.
"""

from __future__ import annotations

import json
import mmap
import socket
import struct
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data import Batch, Place

_ALIGNMENT = 16  # floats: a cache line
_LENGTH = struct.Struct("!Q")


def send(connection: socket.socket, message: bytes) -> None:
    """Sends the length of a message, then the message."""
    connection.sendall(_LENGTH.pack(len(message)) + message)


def receive(connection: socket.socket) -> bytes | None:
    """The next message, or None when the other side has closed the connection."""
    header = _receive_exactly(connection, _LENGTH.size)
    return None if header is None else _receive_exactly(connection, _LENGTH.unpack(header)[0])


def _receive_exactly(connection: socket.socket, n: int) -> bytes | None:
    data = bytearray()
    while len(data) < n:
        chunk = connection.recv(n - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def encode_request(batch: Batch, n_targets: tuple[int, ...], dropout_seed: int) -> tuple[bytes, bytes]:
    """A description as JSON, and the bytes of all tensors."""
    tensors = [tensor.clone(memory_format=torch.contiguous_format) for tensor in (*batch.inputs, *batch.targets)]
    request = {
        "n_targets": batch.n_targets,
        "n_targets_in_update": n_targets,
        "dropout_seed": dropout_seed,
        "place": asdict(batch.place),
        "n_inputs": len(batch.inputs),
        "tensors": [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for tensor in tensors],
    }
    data = b"".join(tensor.view(-1).view(torch.uint8).numpy().tobytes() for tensor in tensors)
    return json.dumps(request).encode(), data


def decode_batch(request: dict[str, Any], data: bytes) -> Batch:
    """The batch of `encode_request`."""
    tensors, start = [], 0
    for dtype, shape in request["tensors"]:
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        end = start + tensor.nbytes
        tensor.view(-1).view(torch.uint8).numpy()[:] = np.frombuffer(data[start:end], dtype=np.uint8)
        tensors.append(tensor)
        start = end
    inputs, targets = tensors[: request["n_inputs"]], tensors[request["n_inputs"] :]
    indices = np.arange(len(inputs[0]))
    return Batch(tuple(inputs), tuple(targets), tuple(request["n_targets"]), Place(**request["place"]), indices)


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
