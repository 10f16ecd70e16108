"""Reads the pickled part of a PyTorch file as data. Nothing is imported or called, and Python's unpickler is not used.

A pickle is a program for a small stack machine. `pickletools` splits it into instructions; here, only those that
dictionaries of tensors consist of have an effect. Any other instruction, and any other name, is refused.
"""

from __future__ import annotations

from io import BytesIO
from math import prod
from pickletools import genops
from typing import Any, NamedTuple

from regard.errors import ArtifactError

MAX_BYTES = 8_000_000  # of a pickle; a tensor takes about 200
MAX_INSTRUCTIONS = 1_000_000

_DICT, _TENSOR, _PARAMETER = (
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter",
)
_STORAGES = {f"torch.{kind}Storage": kind for kind in ("Float", "Half", "BFloat16", "Double", "Long", "Int", "Bool")}
_EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = {"BININT", "BININT1", "BININT2", "LONG1", "INT", "LONG", "BINUNICODE", "SHORT_BINUNICODE", "UNICODE"} | {
    "BINSTRING", "SHORT_BINSTRING", "BINFLOAT"
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


class Storage(NamedTuple):
    """A block of numbers in the file: its key, their type (such as "Half"), and how many they are."""

    key: str
    kind: str
    size: int


class StoredTensor(NamedTuple):
    """A tensor whose elements are consecutive numbers of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]


class _Name(NamedTuple):
    """What a pickle would import."""

    name: str


def read_pickle(stream: BytesIO) -> Any:
    """The dictionaries, lists and tensors of a pickle; the stream is then behind it.

    Raises ArtifactError with the name of what it would import, and ValueError if it is damaged.
    """
    machine = _Machine()
    for number, (opcode, argument, _) in enumerate(genops(stream)):
        if number == MAX_INSTRUCTIONS:
            raise ValueError("it has too many instructions")
        machine.run(opcode.name, argument)
    return machine.pop()


class _Machine:
    """The stack, and the values to which later instructions refer by number."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, opcode: str, argument: Any) -> None:
        if opcode in ("PROTO", "FRAME", "STOP"):
            return
        if opcode in _VALUES:
            self.stack.append(argument)
        elif opcode in _CONSTANTS:
            self.stack.append(_CONSTANTS[opcode])
        elif opcode in _EMPTY:
            self.stack.append(_EMPTY[opcode]())
        elif opcode == "MARK":
            self.stack.append(_MARK)
        elif opcode == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif opcode in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif opcode in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        else:
            self._build(opcode, argument)

    def _build(self, opcode: str, argument: Any) -> None:
        """Instructions that make a value from others."""
        if opcode == "TUPLE":
            self.stack.append(tuple(self._pop_to_mark()))
        elif opcode in _TUPLES:
            self.stack[-_TUPLES[opcode] :] = [tuple(self.stack[-_TUPLES[opcode] :])]
        elif opcode in ("APPEND", "APPENDS"):
            items = [self.pop()] if opcode == "APPEND" else self._pop_to_mark()
            self._top(list).extend(items)
        elif opcode in ("SETITEM", "SETITEMS"):
            items = [self.pop(), self.pop()][::-1] if opcode == "SETITEM" else self._pop_to_mark()
            keys = items[::2]
            if not all(isinstance(key, str) for key in keys):
                raise ValueError("a key is not a string")
            self._top(dict).update(zip(keys, items[1::2], strict=True))
        elif opcode in ("GLOBAL", "INST"):
            self.stack.append(_known(str(argument).replace(" ", ".")))
        elif opcode == "STACK_GLOBAL":
            name, module = self.pop(), self.pop()
            self.stack.append(_known(f"{module}.{name}"))
        elif opcode == "BINPERSID":
            self.stack.append(_storage(self.pop()))
        elif opcode == "REDUCE":
            arguments, function = self.pop(), self.pop()
            self.stack.append(_call(function, arguments))
        elif opcode == "BUILD":
            self.pop()  # attributes of a dictionary, such as the versions of its modules
            self._top(dict)
        else:
            raise ArtifactError(f"it has the pickle instruction {opcode}, which no file of weights has")

    def pop(self) -> Any:
        return self.stack.pop()

    def _pop_to_mark(self) -> list[Any]:
        start = len(self.stack) - 1 - self.stack[::-1].index(_MARK)
        items = self.stack[start + 1 :]
        del self.stack[start:]
        return items

    def _top(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise ValueError(f"{kind.__name__} expected")
        return self.stack[-1]


def _known(name: str) -> _Name:
    if name not in (_DICT, _TENSOR, _PARAMETER, *_STORAGES):
        raise ArtifactError(f"it would import {name[:100]!r}, which no file of weights needs")
    return _Name(name)


def _storage(identity: Any) -> Storage:
    match identity:
        case ("storage", _Name(name), str(key), _, int(size), *view) if name in _STORAGES and view in ([], [None]):
            return Storage(key, _STORAGES[name], size)
    raise ValueError("a storage has an unknown form")


def _call(function: Any, arguments: Any) -> Any:
    """What the two functions and the one class that a pickle of weights names would return."""
    match function, arguments:
        case _Name(name), () if name == _DICT:
            return {}
        case _Name(name), (StoredTensor() as tensor, bool(), dict()) if name == _PARAMETER:
            return tensor
        case _Name(name), (Storage() as storage, int(offset), tuple(shape), tuple(stride), *_) if name == _TENSOR:
            return _tensor(storage, offset, shape, stride)
    raise ValueError("a value is built in an unknown way")


def _tensor(storage: Storage, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> StoredTensor:
    if not all(type(n) is int and n >= 0 for n in (offset, *shape, *stride)) or len(shape) > 8 or 0 in shape:
        raise ValueError("a tensor has invalid sizes")
    contiguous = [prod(shape[i + 1 :]) for i in range(len(shape))]
    if any(size > 1 and own != packed for size, own, packed in zip(shape, stride, contiguous, strict=True)):
        raise ValueError("a tensor is not contiguous")
    if offset + prod(shape) > storage.size:
        raise ValueError("a tensor is larger than its storage")
    return StoredTensor(storage, offset, shape)
