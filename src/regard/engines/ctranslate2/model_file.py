"""Checks a converted model that may come from an untrusted source, before CTranslate2 reads it.

CTranslate2 trusts the shapes in `model.bin`. Here they have to be exactly those of a Transformer, so that no matrix
product reads past the end of a matrix.

Format of `model.bin`: version of the file, name and revision of the spec; the number of variables, and each as name,
shape, type, size and values; the number of aliases, and each as alias and name of a variable.
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

_SPEC = (6, "TransformerSpec", 7)  # version of the file, name and revision of the spec
_FLOAT32, _INT8, _INT16 = 0, 1, 2
_TYPES: dict[int, np.dtype[Any]] = {_FLOAT32: np.dtype("<f4"), _INT8: np.dtype("<i1"), _INT16: np.dtype("<i2")}
_MAX_JSON_BYTES = 100_000_000
_MAX_VARIABLES = 100_000
_MAX_RANK = 2
# integers that are not weights, with their only allowed values
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
_SHARED = ("activation", "num_heads", "pre_norm")  # equal in encoder and decoder


class ConvertedModel(NamedTuple):
    """Sizes of a converted model."""

    max_positions: int
    n_src_symbols: int
    n_tgt_symbols: int
    has_alignment_head: bool


def check_converted(directory: Path) -> ConvertedModel:
    """Raise ArtifactError for a directory that `convert` cannot have written."""
    try:
        shapes, numbers = _read_variables(directory / "model.bin")
        converted = _require_transformer(shapes, numbers)
        _require_config(directory, converted)
    except (ValueError, KeyError, IndexError, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise ArtifactError(f"{directory} is not a model converted by regard: {error}", hint=COPY_AGAIN) from error
    return converted


def _read_variables(path: Path) -> tuple[dict[str, Shape], dict[str, int]]:
    """The shape of every weight and alias, and the value of every integer."""
    shapes: dict[str, Shape] = {}
    numbers: dict[str, int] = {}
    with open_regular_file(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        version, name, revision, n_variables = _number(file), _string(file), _number(file), _number(file)
        if (version, name, revision) != _SPEC or n_variables > _MAX_VARIABLES:
            raise ValueError("it has an unknown format")
        for _ in range(n_variables):
            name = _string(file)
            if name in shapes or name in numbers:
                raise ValueError(f"{name} occurs twice")
            shape, kind = _shape(file), _read(file, 1)[0]
            size = _number(file)
            if size != prod(shape) * _TYPES[kind].itemsize or size > n_bytes - file.tell():
                raise ValueError(f"the size of {name} does not match its shape")
            values = np.frombuffer(_read(file, size), _TYPES[kind])
            if not shape and kind != _FLOAT32:
                numbers[name] = int(values[0])
            elif kind == _FLOAT32 and values.size and isfinite(values.sum(dtype=np.float64)):
                shapes[name] = shape
            else:
                raise ValueError(f"{name} has values that are not finite float32 numbers")
        for _ in range(min(_number(file), _MAX_VARIABLES)):
            alias, name = _string(file), _string(file)
            if alias in shapes or alias in numbers:
                raise ValueError(f"{alias} occurs twice")
            shapes[alias] = shapes[name]
        if file.read(1):
            raise ValueError("there are bytes after its end")
    return shapes, numbers


def _require_transformer(shapes: dict[str, Shape], numbers: dict[str, int]) -> ConvertedModel:
    """Require exactly the weights of a Transformer, whose sizes follow from some of the weights."""
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
    if "decoder/projection/bias" in shapes:
        expected["decoder/projection/bias"] = (n_tgt,)
    for side, n in n_layers.items():
        expected[f"{side}/position_encodings/encodings"] = (n_positions, d_model)
        if pre_norm:
            expected |= _norm(f"{side}/layer_norm", d_model)
        for i in range(n):
            expected |= _layer(f"{side}/layer_{i}", d_model, d_ff, gated=gated, has_cross_attention=side == "decoder")
    for name in sorted(shapes.keys() | expected.keys()):
        if shapes.get(name) != expected.get(name):
            raise ValueError(f"{name} has the shape {shapes.get(name)}, not {expected.get(name)}")
    _require_numbers(numbers, d_model, n_layers["decoder"], gated)
    return ConvertedModel(n_positions, n_src, n_tgt, numbers["decoder/alignment_heads"] == 1)


def _require_numbers(numbers: dict[str, int], d_model: int, n_decoder_layers: int, gated: bool) -> None:
    free = {f"{side}/{name}": numbers[f"encoder/{name}"] for side in ("encoder", "decoder") for name in _SHARED}
    free |= {name: numbers[name] for name in ("decoder/alignment_heads", "decoder/alignment_layer")}
    n_heads = numbers["encoder/num_heads"]
    is_valid = (
        numbers == _FIXED | free
        and numbers["decoder/alignment_layer"] in range(n_decoder_layers)
        and numbers["decoder/alignment_heads"] in (0, 1)
        and 0 < n_heads <= d_model
        and d_model % n_heads == 0
        and numbers["encoder/activation"] in ((2,) if gated else (0, 2, 3))  # ReLU, swish, GELU
        and numbers["encoder/pre_norm"] in (0, 1)
    )
    if not is_valid:
        raise ValueError("its numbers of heads and layers, or its options, are invalid")


def _layer(name: str, d_model: int, d_ff: int, *, gated: bool, has_cross_attention: bool) -> dict[str, Shape]:
    expected = _linear(f"{name}/self_attention/linear_0", 3 * d_model, d_model)
    expected |= _linear(f"{name}/self_attention/linear_1", d_model, d_model)
    expected |= _norm(f"{name}/self_attention/layer_norm", d_model)
    if has_cross_attention:
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


def _require_config(directory: Path, converted: ConvertedModel) -> None:
    """Check the files beside model.bin: tokens are the ids as strings, the special ones are ours, no other file."""
    if converted.n_src_symbols == converted.n_tgt_symbols:
        vocabularies = {"shared_vocabulary.json": converted.n_tgt_symbols}
    else:
        vocabularies = {
            "source_vocabulary.json": converted.n_src_symbols,
            "target_vocabulary.json": converted.n_tgt_symbols,
        }
    names = {path.name for path in directory.iterdir()}
    if names != {"model.bin", "config.json", *vocabularies}:
        raise ValueError(f"it has the files {', '.join(sorted(names))[:200]}")
    for name, n_symbols in vocabularies.items():
        tokens = json.loads(read_regular_file(directory / name, _MAX_JSON_BYTES))
        if tokens != [str(i) for i in range(n_symbols)]:
            raise ValueError(f"{name} does not match the weights")
    if read_json_file(directory / "config.json", _MAX_JSON_BYTES) != _CONFIG:
        raise ValueError("config.json has other values")


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
        raise ValueError("it is truncated")
    return data
