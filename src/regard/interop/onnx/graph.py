"""Writes an ONNX file. It is a message of protocol buffers, so no other package is needed.

Names and numbers of the fields are those of onnx.proto: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.text.protobuf import BYTES, FIXED32, VARINT, write_field

IR_VERSION, OPSET = 8, 17  # onnxruntime 1.12 and later read them; 17 has LayerNormalization

_TYPES = {"float32": 1, "int64": 7, "bool": 9}
_FLOAT, _INT, _GRAPH, _INTS = 1, 2, 5, 7  # types of an attribute
_MAX_BYTES = 2**31 - 1

Array = NDArray[Any]
Dims = Sequence[int | str]  # a name is a size that may vary


class Graph:
    """Nodes that are added one after the other. The name of a value is a string."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._parts: list[bytes] = []  # fields of the message
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}
        self._n_values = 0

    def input(self, name: str, dtype: str, dims: Dims) -> str:
        self._parts.append(_message(11, _value_info(name, dtype, dims)))
        return name

    def output(self, value: str, name: str, dtype: str, dims: Dims) -> None:
        """Declares a value as an output with this name. Without dims it is that of a branch."""
        self.add("Identity", value, name=name)
        self._parts.append(_message(12, _value_info(name, dtype, dims)))

    def constant(self, array: Array | float | int | Sequence[int], name: str | None = None) -> str:
        """A tensor that is stored in the file. Equal small ones are stored once."""
        tensor = np.asarray(array)
        if tensor.dtype != np.bool_:
            tensor = tensor.astype(np.float32 if tensor.dtype.kind == "f" else np.int64)
        key = (str(tensor.dtype), tensor.tobytes() if name is None else name.encode(), tensor.shape)
        if key not in self._constants:
            self._constants[key] = name = name or f"constant_{len(self._constants)}"
            dims = b"".join(write_field(1, VARINT, size) for size in tensor.shape)
            data = write_field(9, BYTES, np.ascontiguousarray(tensor).tobytes())
            content = dims + write_field(2, VARINT, _TYPES[str(tensor.dtype)]) + _text(8, name) + data
            self._parts.append(_message(5, content))
        return self._constants[key]

    def add(self, op: str, *inputs: str, name: str | None = None, n: int = 1, **attributes: Any) -> Any:
        """A node; its output, or the `n` outputs."""
        names = [name] if name else [f"{self.name}_{self._n_values + i}" for i in range(n)]
        self._n_values += n
        content = b"".join(_text(1, value) for value in inputs) + b"".join(_text(2, value) for value in names)
        content += _text(4, op) + b"".join(_message(5, _attribute(*item)) for item in attributes.items())
        self._parts.append(_message(1, content))
        return names[0] if n == 1 else names

    def to_bytes(self) -> bytes:
        return b"".join(self._parts) + _text(2, self.name)


def write_model(graph: Graph, metadata: Mapping[str, str] | None = None) -> bytes:
    """The content of an .onnx file."""
    content = write_field(1, VARINT, IR_VERSION) + _text(2, "regard") + _message(7, graph.to_bytes())
    content += _message(8, write_field(2, VARINT, OPSET))
    for key, value in (metadata or {}).items():
        content += _message(14, _text(1, key) + _text(2, value))
    assert len(content) <= _MAX_BYTES, "an .onnx file has less than 2 GB"
    return content


def _message(number: int, content: bytes) -> bytes:
    return write_field(number, BYTES, content)


def _text(number: int, text: str) -> bytes:
    return write_field(number, BYTES, text.encode())


def _attribute(name: str, value: Any) -> bytes:
    content = _text(1, name)
    if isinstance(value, Graph):
        return content + _message(6, value.to_bytes()) + write_field(20, VARINT, _GRAPH)
    if isinstance(value, float):
        return content + write_field(2, FIXED32, struct.pack("<f", value)) + write_field(20, VARINT, _FLOAT)
    if isinstance(value, int):
        return content + write_field(3, VARINT, value % 2**64) + write_field(20, VARINT, _INT)
    numbers = b"".join(write_field(8, VARINT, number % 2**64) for number in value)
    return content + numbers + write_field(20, VARINT, _INTS)


def _value_info(name: str, dtype: str, dims: Dims) -> bytes:
    sizes = b"".join(
        _message(1, _text(2, size) if isinstance(size, str) else write_field(1, VARINT, size)) for size in dims
    )
    tensor = write_field(1, VARINT, _TYPES[dtype]) + _message(2, sizes)
    return _text(1, name) + _message(2, _message(1, tensor))
