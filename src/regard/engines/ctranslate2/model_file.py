"""A converted model from a stranger: every name, type, size and number is checked before CTranslate2 reads it.

CTranslate2 trusts the shapes in its file once it has them in memory. Here they have to be those of a Transformer,
whole and nothing but, so that no product reads past the end of a matrix.

`model.bin`: version, name and revision of the layout; then each variable as name, shape, type, size, values; then
aliases, names for variables that are the same.
"""

from __future__ import annotations

import json
import os
import struct
from io import BufferedReader
from math import isfinite, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.artifact.directory import COPY_AGAIN
from regard.durable import open_regular_file, read_json_file, read_regular_file
from regard.errors import ArtifactError
from regard.text.vocabulary import BOS_ID, EOS_ID, UNK_ID

Shape = tuple[int, ...]

_LAYOUT = (6, "TransformerSpec", 7)  # version of the file, name and revision of the layout
_FLOAT32, _INT8, _INT16 = 0, 1, 2
_TYPES: dict[int, np.dtype[Any]] = {_FLOAT32: np.dtype("<f4"), _INT8: np.dtype("<i1"), _INT16: np.dtype("<i2")}
_MAX_JSON_BYTES = 100_000_000
_MAX_VARIABLES = 100_000
_MAX_RANK = 2
# what is not a weight, with the values that it may have
_FIXED = {
    "decoder/alibi": 0,
    "decoder/alibi_use_positive_positions": 0,
    "decoder/scale_alibi": 0,
    "decoder/scale_embeddings": 1,
    "decoder/start_from_zero_embedding": 0,
    "encoder/embeddings_merge": 0,
    "encoder/multi_query_attention": 0,
    "encoder/scale_embeddings": 1,
}
_CHOSEN = ("activation", "num_heads", "pre_norm")  # the same on both sides


class Limits(NamedTuple):
    """What the engine has to know of a converted model."""

    max_positions: int
    n_src_symbols: int
    n_tgt_symbols: int
    aligns: bool  # whether it gives the attention of a chosen head


def check_converted(directory: Path) -> Limits:
    """Refuse a directory that `convert` could not have written."""
    try:
        shapes, numbers = _read_variables(directory / "model.bin")
        limits = _require_transformer(shapes, numbers)
        _require_config(directory, limits)
    except (ValueError, KeyError, IndexError, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise ArtifactError(f"{directory} is not a model that regard converted: {error}", hint=COPY_AGAIN) from error
    return limits


def _read_variables(path: Path) -> tuple[dict[str, Shape], dict[str, int]]:
    """The shape of every weight and alias, and the value of every single number."""
    shapes: dict[str, Shape] = {}
    numbers: dict[str, int] = {}
    with open_regular_file(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        version, name, revision, n_variables = _number(file), _string(file), _number(file), _number(file)
        if (version, name, revision) != _LAYOUT or n_variables > _MAX_VARIABLES:
            raise ValueError("its layout is another")
        for _ in range(n_variables):
            name = _string(file)
            if name in shapes or name in numbers:
                raise ValueError(f"{name} comes twice")
            shape, kind = _shape(file), _read(file, 1)[0]
            size = _number(file)
            if size != prod(shape) * _TYPES[kind].itemsize or size > n_bytes - file.tell():
                raise ValueError(f"{name} does not have the size of its shape")
            values = np.frombuffer(_read(file, size), _TYPES[kind])
            if not shape and kind != _FLOAT32:
                numbers[name] = int(values[0])
            elif kind == _FLOAT32 and values.size and isfinite(values.sum(dtype=np.float64)):
                shapes[name] = shape
            else:
                raise ValueError(f"{name} has values that are not numbers")
        for _ in range(min(_number(file), _MAX_VARIABLES)):
            alias, name = _string(file), _string(file)
            if alias in shapes or alias in numbers:
                raise ValueError(f"{alias} comes twice")
            shapes[alias] = shapes[name]
        if file.read(1):
            raise ValueError("something follows its end")
    return shapes, numbers


def _require_transformer(shapes: dict[str, Shape], numbers: dict[str, int]) -> Limits:
    """Exactly the weights of one Transformer, by the sizes that some of them give."""
    n_src, d_model = shapes["encoder/embeddings_0/weight"]
    n_tgt, _ = shapes["decoder/embeddings/weight"]
    n_positions = shapes["encoder/position_encodings/encodings"][0]
    d_ff = shapes["encoder/layer_0/ffn/linear_0/weight"][0]
    n_layers = {
        side: sum(f"{side}/layer_{i}/ffn/linear_0/weight" in shapes for i in range(len(shapes)))
        for side in ("encoder", "decoder")
    }
    pre_norm, gated = bool(numbers["encoder/pre_norm"]), "encoder/layer_0/ffn/linear_0_noact/weight" in shapes
    expected: dict[str, Shape] = {
        "encoder/embeddings_0/weight": (n_src, d_model),
        "decoder/embeddings/weight": (n_tgt, d_model),
        "decoder/projection/weight": (n_tgt, d_model),
    }
    for side, n in n_layers.items():
        expected[f"{side}/position_encodings/encodings"] = (n_positions, d_model)
        if pre_norm:
            expected |= _norm(f"{side}/layer_norm", d_model)
        for i in range(n):
            expected |= _layer(f"{side}/layer_{i}", d_model, d_ff, gated=gated, crosses=side == "decoder")
    if wrong := sorted(name for name in shapes.keys() | expected.keys() if shapes.get(name) != expected.get(name)):
        raise ValueError(f"{wrong[0]} has the shape {shapes.get(wrong[0])}, not {expected.get(wrong[0])}")
    _require_numbers(numbers, d_model, n_layers["decoder"], gated)
    return Limits(n_positions, n_src, n_tgt, numbers["decoder/alignment_heads"] == 1)


def _require_numbers(numbers: dict[str, int], d_model: int, n_decoder_layers: int, gated: bool) -> None:
    chosen = {f"{side}/{name}": numbers[f"encoder/{name}"] for side in ("encoder", "decoder") for name in _CHOSEN}
    chosen |= {name: numbers[name] for name in ("decoder/alignment_heads", "decoder/alignment_layer")}
    n_heads = numbers["encoder/num_heads"]
    sound = (
        numbers == _FIXED | chosen
        and numbers["decoder/alignment_layer"] in range(n_decoder_layers)
        and numbers["decoder/alignment_heads"] in (0, 1)
        and 0 < n_heads <= d_model
        and d_model % n_heads == 0
        and numbers["encoder/activation"] in ((2,) if gated else (0, 3))  # swish; ReLU, GELU
        and numbers["encoder/pre_norm"] in (0, 1)
    )
    if not sound:
        raise ValueError("its numbers of heads, layers and the like do not fit together")


def _layer(name: str, d_model: int, d_ff: int, *, gated: bool, crosses: bool) -> dict[str, Shape]:
    expected = _linear(f"{name}/self_attention/linear_0", 3 * d_model, d_model)
    expected |= _linear(f"{name}/self_attention/linear_1", d_model, d_model)
    expected |= _norm(f"{name}/self_attention/layer_norm", d_model)
    if crosses:
        for i, rows in enumerate((d_model, 2 * d_model, d_model)):
            expected |= _linear(f"{name}/attention/linear_{i}", rows, d_model)
        expected |= _norm(f"{name}/attention/layer_norm", d_model)
    for inner in ("linear_0", "linear_0_noact") if gated else ("linear_0",):
        expected |= _linear(f"{name}/ffn/{inner}", d_ff, d_model)
    expected |= _linear(f"{name}/ffn/linear_1", d_model, d_ff)
    return expected | _norm(f"{name}/ffn/layer_norm", d_model)


def _linear(name: str, n_out: int, n_in: int) -> dict[str, Shape]:
    return {f"{name}/weight": (n_out, n_in), f"{name}/bias": (n_out,)}


def _norm(name: str, d_model: int) -> dict[str, Shape]:
    return {f"{name}/gamma": (d_model,), f"{name}/beta": (d_model,)}


def _require_config(directory: Path, limits: Limits) -> None:
    """The files beside model.bin: symbols are numbers, the special ones ours, and there is nothing else to read."""
    if limits.n_src_symbols == limits.n_tgt_symbols:
        sides = {"shared_vocabulary.json": limits.n_tgt_symbols}
    else:
        sides = {"source_vocabulary.json": limits.n_src_symbols, "target_vocabulary.json": limits.n_tgt_symbols}
    found = {path.name for path in directory.iterdir()}
    if found != {"model.bin", "config.json", *sides}:
        raise ValueError(f"it has {', '.join(sorted(found))[:200]}")
    for name, n_symbols in sides.items():
        symbols = json.loads(read_regular_file(directory / name, _MAX_JSON_BYTES))
        if symbols != [str(i) for i in range(n_symbols)]:
            raise ValueError(f"{name} does not have the symbols of the weights")
    config = read_json_file(directory / "config.json", _MAX_JSON_BYTES)
    if config != _CONFIG:
        raise ValueError("config.json says something else")


_CONFIG: dict[str, Any] = {
    "add_source_bos": False,
    "add_source_eos": False,
    "bos_token": str(BOS_ID),
    "decoder_start_token": str(BOS_ID),
    "eos_token": str(EOS_ID),
    "layer_norm_epsilon": 1e-5,
    "multi_query_attention": False,
    "unk_token": str(UNK_ID),
}


def _shape(file: BufferedReader) -> Shape:
    rank = _read(file, 1)[0]
    if rank > _MAX_RANK:
        raise ValueError(f"a weight has {rank} dimensions")
    return tuple(_number(file) for _ in range(rank))


def _number(file: BufferedReader) -> int:
    return int.from_bytes(_read(file, 4), "little")


def _string(file: BufferedReader) -> str:
    size = int.from_bytes(_read(file, 2), "little")
    return _read(file, size)[:-1].decode("ascii")


def _read(file: BufferedReader, n_bytes: int) -> bytes:
    data = file.read(n_bytes)
    if len(data) != n_bytes:
        raise ValueError("it ends in the middle")
    return data
