"""An invalid converted model raises ArtifactError before CTranslate2 reads it."""

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.artifact import LoadedModel
from regard.engines.ctranslate2.convert import convert
from regard.engines.ctranslate2.engine import CTranslate2Engine
from regard.engines.ctranslate2.model_file import check_converted
from regard.errors import ArtifactError
from regard.models import Transformer, TransformerConfig
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

GAMMA = b"decoder/layer_0/ffn/layer_norm/gamma\0"
EMBEDDING = b"decoder/embeddings/weight\0"


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a converted model."""
    tokenizer = Tokenizer(train_tokenizer(["the animal did not cross the street"] * 5, size=280))
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=8, d_ff=8, n_heads=2)
    torch.manual_seed(1)
    model = Transformer(config, tokenizer.size, tokenizer.size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.rand_like(parameter) * 0.1)  # no two equal, so that none becomes an alias
    path = tmp_path_factory.mktemp("valid") / "ctranslate2"
    convert(LoadedModel("transformer", config, model, TokenizerPair(tokenizer, tokenizer), {}), path, "float32")
    return {file.name: file.read_bytes() for file in path.iterdir()}


def write(directory: Path, files: dict[str, bytes], **changed: bytes) -> Path:
    directory.mkdir(exist_ok=True)
    for name, data in (files | {"model.bin": changed.get("model", files["model.bin"])}).items():
        (directory / name).write_bytes(data)
    return directory


def shorten_gamma(data: bytes) -> bytes:
    """One value instead of eight: LayerNorm would read past its end."""
    at = data.index(GAMMA) + len(GAMMA)
    return data[:at] + struct.pack("<BIBI", 1, 1, 0, 4) + data[at + 10 : at + 14] + data[at + 10 + 32 :]


def claim_huge_shape(data: bytes) -> bytes:
    at = data.index(EMBEDDING) + len(EMBEDDING)
    return data[: at + 1] + struct.pack("<II", 2**31 - 1, 2**31 - 1) + data[at + 9 :]


def insert_nan(data: bytes) -> bytes:
    at = data.index(EMBEDDING) + len(EMBEDDING) + 14
    return data[:at] + struct.pack("<f", float("nan")) + data[at + 4 :]


def change_n_heads(data: bytes) -> bytes:
    name = b"decoder/num_heads\0"
    at = data.index(name) + len(name) + 6
    return data[:at] + struct.pack("<h", 3) + data[at + 2 :]


def rename_weight(data: bytes) -> bytes:
    return data.replace(GAMMA, GAMMA.replace(b"gamma", b"gemma"))


def append_byte(data: bytes) -> bytes:
    return data + b"\0"


@pytest.mark.parametrize(
    "change", [shorten_gamma, claim_huge_shape, insert_nan, change_n_heads, rename_weight, append_byte]
)
def test_invalid_weights_raise_artifact_error(
    change: Callable[[bytes], bytes], valid: dict[str, bytes], tmp_path: Path
) -> None:
    check_converted(write(tmp_path / "valid", valid))
    changed = write(tmp_path / "changed", valid, model=change(valid["model.bin"]))
    with pytest.raises(ArtifactError, match="converted"):
        CTranslate2Engine(changed, n_threads=1)


def test_damaged_files_load_or_raise_artifact_error(valid: dict[str, bytes], tmp_path: Path) -> None:
    rng, data = random.Random(1), valid["model.bin"]
    directory = write(tmp_path / "fuzzed", valid)
    n_refused = 0
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        if rng.random() < 0.3:
            del changed[rng.randrange(len(changed)) :]
        (directory / "model.bin").write_bytes(changed)
        try:
            check_converted(directory)
        except ArtifactError:
            n_refused += 1
    assert n_refused > 80  # in the others, only the value of a weight changed


def test_invalid_files_beside_the_weights_raise_artifact_error(valid: dict[str, bytes], tmp_path: Path) -> None:
    tokens = json.loads(valid["shared_vocabulary.json"])
    config = json.loads(valid["config.json"])
    changes = [
        {"shared_vocabulary.json": json.dumps(tokens[:-1]).encode()},
        {"shared_vocabulary.json": json.dumps(tokens[::-1]).encode()},
        {"shared_vocabulary.json": b"[" * 100_000},
        {"config.json": json.dumps(config | {"decoder_start_token": "7"}).encode()},
        {"config.json": b"[]"},
        {"vmap.txt": b"one\n"},
    ]
    for number, change in enumerate(changes):
        with pytest.raises(ArtifactError):
            check_converted(write(tmp_path / str(number), valid | change))


def test_symbolic_links_and_missing_files_raise_artifact_error(valid: dict[str, bytes], tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", valid)
    linked = write(tmp_path / "linked", valid)
    (linked / "model.bin").unlink()
    with pytest.raises(ArtifactError, match="missing"):
        check_converted(linked)
    (linked / "model.bin").symlink_to(whole / "model.bin")
    with pytest.raises(ArtifactError, match="link"):
        check_converted(linked)
