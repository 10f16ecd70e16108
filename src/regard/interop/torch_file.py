"""Reads `pytorch_model.bin` without torch.load: a dictionary of tensors in one of two containers.

zip, since PyTorch 1.6: NAME/data.pkl is the pickle, and NAME/data/KEY the numbers of each storage, not compressed.
legacy: five pickles (magic number, protocol, system, the dictionary, keys of the storages), then for each key the
number of elements (8 bytes) and the elements.
"""

from __future__ import annotations

import os
import zipfile
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from regard.durable import open_regular_file
from regard.errors import ArtifactError
from regard.interop.pickled import MAX_BYTES, Storage, StoredTensor, read_pickle

ITEM_SIZES = {"Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Bool": 1}

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_LOCAL_HEADER = 30  # bytes of a zip entry before its name


class Block(NamedTuple):
    """Where the elements of a tensor are in the file, and their type."""

    kind: str
    shape: tuple[int, ...]
    position: int  # in bytes


def read_torch_file(path: Path) -> dict[str, Block]:
    """Where each tensor is in the file; every block is inside it. Raises ArtifactError for any other file."""
    with open_regular_file(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        try:
            read = _read_zip if file.read(2) == b"PK" else _read_legacy
            tensors, positions = read(file, n_bytes)
            blocks = {name: _block(tensor, positions, n_bytes) for name, tensor in _named(tensors).items()}
        except ArtifactError as error:
            raise ArtifactError(f"{path} is refused: {error.message}") from error
        except (ValueError, LookupError, TypeError, AttributeError, zipfile.BadZipFile, NotImplementedError) as error:
            raise ArtifactError(f"{path} is damaged, or not a file of weights of PyTorch: {error}") from error
    distinct = set(blocks.values())  # matrices that are shared, such as embeddings, have several names
    if sum(prod(block.shape) * ITEM_SIZES[block.kind] for block in distinct) > n_bytes:
        raise ArtifactError(f"{path} is refused: its tensors overlap")
    return blocks


def _named(value: Any) -> dict[str, StoredTensor]:
    if not isinstance(value, dict) or not value:
        raise ValueError("it has no dictionary of tensors")
    for name, tensor in value.items():
        if not isinstance(tensor, StoredTensor):
            raise ValueError(f"{name[:100]!r} is not a tensor")
    return value


def _block(tensor: StoredTensor, positions: dict[Storage, int], n_bytes: int) -> Block:
    storage, item_size = tensor.storage, ITEM_SIZES[tensor.storage.kind]
    if positions[storage] + storage.size * item_size > n_bytes:
        raise ValueError("a tensor ends behind the file")
    return Block(storage.kind, tensor.shape, positions[storage] + tensor.offset * item_size)


def _read_zip(file: BinaryIO, n_bytes: int) -> tuple[Any, dict[Storage, int]]:
    archive = zipfile.ZipFile(_SmallReads(file))
    entries = {entry.filename: entry for entry in archive.infolist()}
    pickles = [name for name in entries if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1 or len(entries) != len(archive.infolist()):
        raise ValueError("it does not have one data.pkl")
    root = pickles[0].removesuffix("data.pkl")
    for name, entry in entries.items():
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size or entry.flag_bits & 1:
            raise ArtifactError(f"the entry {name[:100]!r} is compressed, which PyTorch never does")

    def content(name: str) -> BytesIO:
        file.seek(_start(file, entries[name]))
        return BytesIO(file.read(min(entries[name].file_size, MAX_BYTES)))

    if (order := root + "byteorder") in entries and content(order).read(20) != b"little":
        raise ValueError("it is of a machine with another byte order")
    tensors = read_pickle(content(pickles[0]))
    positions = {}
    for storage in {tensor.storage for tensor in _named(tensors).values()}:
        entry = entries[f"{root}data/{storage.key}"]
        if entry.file_size != storage.size * ITEM_SIZES[storage.kind]:
            raise ValueError(f"the storage {storage.key[:100]!r} does not have {storage.size} elements")
        positions[storage] = _start(file, entry)
    return tensors, positions


def _start(file: BinaryIO, entry: zipfile.ZipInfo) -> int:
    """Where the content of an entry begins."""
    file.seek(entry.header_offset)
    header = file.read(_LOCAL_HEADER)
    if header[:4] != b"PK\3\4" or len(header) != _LOCAL_HEADER:
        raise ValueError("an entry is missing")
    sizes = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")  # of name, extra field
    return entry.header_offset + _LOCAL_HEADER + sizes


def _read_legacy(file: BinaryIO, n_bytes: int) -> tuple[Any, dict[Storage, int]]:
    file.seek(0)
    stream = BytesIO(file.read(MAX_BYTES))
    if read_pickle(stream) != _MAGIC or read_pickle(stream) != _PROTOCOL:
        raise ValueError("it does not begin with PyTorch's magic number")
    if read_pickle(stream).get("little_endian") is not True:
        raise ValueError("it is of a machine with another byte order")
    tensors, keys = read_pickle(stream), read_pickle(stream)
    storages = {tensor.storage.key: tensor.storage for tensor in _named(tensors).values()}
    if not isinstance(keys, list) or sorted(keys) != sorted(storages):
        raise ValueError("its storages are not those of its tensors")
    positions, position = {}, stream.tell()
    for storage in (storages[key] for key in keys):
        file.seek(position)
        if int.from_bytes(file.read(8), "little") != storage.size:
            raise ValueError(f"the storage {storage.key[:100]!r} does not have {storage.size} elements")
        positions[storage] = position + 8
        position += 8 + storage.size * ITEM_SIZES[storage.kind]
    if position != n_bytes:
        raise ValueError("it does not have the length that its storages add up to")
    return tensors, positions


class _SmallReads:
    """The file, for zipfile: refuses to read a list of entries that would take much memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, n: int = -1) -> bytes:
        data = self._file.read(_MAX_READ + 1 if n < 0 else min(n, _MAX_READ + 1))
        if len(data) > _MAX_READ:
            raise ValueError("it has too many entries")
        return data


_MAX_READ = 2_000_000  # of a zip's list of entries; a model has a few hundred, of about 100 bytes
