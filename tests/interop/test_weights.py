"""Weights of other software are read as data: what would execute, overlap or take memory is refused by name."""

import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.errors import ArtifactError
from regard.interop.weights import Weights

MAX_MEMORY = 50_000_000


@pytest.fixture(scope="module")
def tensors() -> dict[str, Tensor]:
    torch.manual_seed(1)
    shared = torch.randn(7, 4)
    return {
        "shared": shared,
        "tied": shared,
        "half": torch.randn(3, 5).half(),
        "bfloat16": torch.randn(6).bfloat16(),
        "double": torch.randn(2, 1, 3).double(),
        "ids": torch.arange(5)[None],
        "scalar": torch.tensor(2.5),
    }


def save_zip(tensors: dict[str, Tensor], path: Path) -> None:
    torch.save(OrderedDict(tensors), path)


def save_legacy(tensors: dict[str, Tensor], path: Path) -> None:
    torch.save(OrderedDict(tensors), path, _use_new_zipfile_serialization=False)


def save_safetensors(tensors: dict[str, Tensor], path: Path) -> None:
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, path)


@pytest.mark.parametrize(
    ("save", "name"),
    [(save_zip, "pytorch_model.bin"), (save_legacy, "pytorch_model.bin"), (save_safetensors, "model.safetensors")],
)
def test_every_container_gives_the_same_numbers(
    save: Callable[[dict[str, Tensor], Path], None], name: str, tensors: dict[str, Tensor], tmp_path: Path
) -> None:
    save(tensors, tmp_path / name)
    weights = Weights(tmp_path / name)
    assert weights.shapes == {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for key, tensor in tensors.items():
        assert torch.equal(weights.read(key), tensor.float())


def test_a_state_dict_of_a_module_is_read(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
    torch.save(dict(module.named_parameters()), tmp_path / "parameters.bin")
    for name in ("pytorch_model.bin", "parameters.bin"):
        weights = Weights(tmp_path / name)
        for key, tensor in module.state_dict().items():
            assert torch.equal(weights.read(key), tensor)


def test_names_and_shapes_that_differ_are_refused(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    save_zip(tensors, tmp_path / "pytorch_model.bin")
    weights = Weights(tmp_path / "pytorch_model.bin")
    shapes = dict(weights.shapes)
    weights.require({name: shape for name, shape in shapes.items() if name != "ids"}, optional=("ids",))
    with pytest.raises(ArtifactError, match=r"too many, e.g\. 'ids'"):
        weights.require({name: shape for name, shape in shapes.items() if name != "ids"})
    with pytest.raises(ArtifactError, match=r"lacks 1 tensors, e.g\. 'more'"):
        weights.require(shapes | {"more": (1,)})
    with pytest.raises(ArtifactError, match="'half' is of"):
        weights.require(shapes | {"half": (5, 3)})


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    save_zip({"bad": torch.tensor([1.0, float("inf")])}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ArtifactError, match="'bad' has infinite"):
        Weights(tmp_path / "pytorch_model.bin").read("bad")


# Hostile files


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def zipped(data: bytes, compression: int = zipfile.ZIP_STORED, **entries: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("model/data.pkl", data)
        for name, content in entries.items():
            archive.writestr(f"model/data/{name}", content)
    return buffer.getvalue()


def opcodes(*parts: bytes) -> bytes:
    return zipped(b"\x80\x02" + b"".join(parts) + b".")


def tensor_pickle(shape: tuple[int, ...], stride: tuple[int, ...], size: int, offset: int = 0, n: int = 1) -> bytes:
    """n tensors in the storage "0", which is said to have `size` elements."""
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" + b"0X\3\0\0\0cpu"
    tensor += number(size) + b"tQ" + number(offset)
    tensor += b"(" + b"".join(map(number, shape)) + b"t(" + b"".join(map(number, stride)) + b"t\x89}tR"
    named = b"".join(b"X\4\0\0\0" + f"{i:04}".encode() + tensor for i in range(n))
    return b"\x80\x02}(" + named + b"u."


def number(value: int) -> bytes:
    return b"\x8a\x08" + value.to_bytes(8, "little", signed=True)


NESTED = b")" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(200))  # 2²⁰⁰ leaves

HOSTILE: dict[str, tuple[bytes, str]] = {
    "system": (zipped(pickle.dumps({"a": Call(os.system, "touch stolen")}, 2)), "posix.system"),
    "eval": (zipped(pickle.dumps({"a": Call(eval, "1+1")}, 4)), "builtins.eval"),
    "instance": (opcodes(b"(X\1\0\0\0xios\nsystem\n"), "os.system"),
    "object": (opcodes(b"(cos\nsystem\nX\1\0\0\0xo"), "os.system"),
    "new object": (opcodes(b"ccollections\nOrderedDict\n)\x81"), "NEWOBJ"),
    "extension": (opcodes(b"\x82\x01"), "EXT1"),
    "call of a tensor": (opcodes(b"ctorch._utils\n_rebuild_tensor_v2\n)R"), "unknown way"),
    "build on a name": (opcodes(b"ccollections\nOrderedDict\n}b"), "dict expected"),
    "item of a list": (opcodes(b"]K\0K\1s"), "not a string|dict expected"),
    "nested key": (opcodes(b"}" + NESTED + b"K\1s"), "not a string"),
    "huge memo": (opcodes(b"}r\xff\xff\xff\xff"), "no dictionary of tensors"),
    "huge string": (opcodes(b"X\xff\xff\xff\x7f"), "damaged"),
    "no tensor": (opcodes(b"}X\1\0\0\0aK\1s"), "'a' is not a tensor"),
    "empty": (b"", "damaged"),
    "not a zip": (b"PK\3\4" + b"\0" * 100, "damaged"),
    "compressed": (zipped(tensor_pickle((4,), (1,), 4), zipfile.ZIP_DEFLATED, **{"0": b"\0" * 16}), "compressed"),
    "storage too short": (zipped(tensor_pickle((4,), (1,), 4), **{"0": b"\0" * 15}), "does not have 4 elements"),
    "no storage": (zipped(tensor_pickle((4,), (1,), 4)), "damaged"),
    "10⁹ elements": (zipped(tensor_pickle((10**9,), (1,), 10**9), **{"0": b"\0" * 16}), "elements"),
    "behind its storage": (zipped(tensor_pickle((4,), (1,), 4, offset=1), **{"0": b"\0" * 16}), "larger than"),
    "expanded": (zipped(tensor_pickle((10**6, 4), (0, 1), 4), **{"0": b"\0" * 16}), "not contiguous"),
    "many dimensions": (zipped(tensor_pickle((1,) * 999, (1,) * 999, 4), **{"0": b"\0" * 16}), "invalid sizes"),
    "negative": (zipped(tensor_pickle((-4,), (1,), 4), **{"0": b"\0" * 16}), "invalid sizes"),
    "many instructions": (zipped(b"\x80\x02" + b"N" * 1_100_000 + b"."), "many instructions"),
    "path outside": (zipped(tensor_pickle((4,), (1,), 4), **{"../../0": b"\0" * 16}), "damaged"),
    "many entries": (zipped(tensor_pickle((4,), (1,), 4), **{str(i): b"" for i in range(35_000)}), "too many entries"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_by_name_without_memory_or_effects(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, reason = HOSTILE[name]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError, match=reason) as error:
            Weights(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(path) in str(error.value)
    assert peak < MAX_MEMORY
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_overlapping_tensors_are_refused(tmp_path: Path) -> None:
    parts = [tensor_pickle((4 - i,), (1,), 4, offset=i) for i in range(4)]
    joined = b"\x80\x02}(" + b"".join(
        part[4:-2].replace(b"0000", f"{i:04}".encode(), 1) for i, part in enumerate(parts)
    )
    (tmp_path / "pytorch_model.bin").write_bytes(zipped(joined + b"u.", **{"0": b"\0" * 16}))
    assert len(Weights(tmp_path / "pytorch_model.bin").shapes) == 4  # small enough, if only a little
    many = b"\x80\x02}(" + b"".join(
        tensor_pickle((1000 - i,), (1,), 1000, offset=i)[4:-2].replace(b"0000", f"{i:04}".encode(), 1)
        for i in range(500)
    )
    (tmp_path / "pytorch_model.bin").write_bytes(zipped(many + b"u.", **{"0": b"\0" * 4000}))
    with pytest.raises(ArtifactError, match="overlap"):
        Weights(tmp_path / "pytorch_model.bin")


def test_a_legacy_file_with_another_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    save_legacy({"a": torch.ones(4)}, path)
    data = path.read_bytes()
    for changed in (data[:-4], data + b"\0", data[:-24] + struct.pack("<q", 10**9) + data[-16:]):
        path.write_bytes(changed)
        with pytest.raises(ArtifactError, match="damaged"):
            Weights(path)
