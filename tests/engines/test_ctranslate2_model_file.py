"""A converted model from a stranger is refused in words, before CTranslate2 sees it."""

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
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a converted model."""
    tokenizer = Tokenizer(train_tokenizer(["the animal did not cross the street"] * 5, size=280))
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=8, d_ff=8, n_heads=2)
    torch.manual_seed(1)
    model = Transformer(config, tokenizer.size, tokenizer.size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.rand_like(parameter) * 0.1)  # no two alike, so that each is written
    path = tmp_path_factory.mktemp("sound") / "ctranslate2"
    convert(LoadedModel("transformer", config, model, TokenizerPair(tokenizer, tokenizer), {}), path, "float32")
    return {file.name: file.read_bytes() for file in path.iterdir()}


def write(directory: Path, files: dict[str, bytes], **changed: bytes) -> Path:
    directory.mkdir(exist_ok=True)
    for name, data in (files | {"model.bin": changed.get("model", files["model.bin"])}).items():
        (directory / name).write_bytes(data)
    return directory


def shorten_gamma(data: bytes) -> bytes:
    """One value instead of eight: a norm would read past its end."""
    at = data.index(GAMMA) + len(GAMMA)
    return data[:at] + struct.pack("<BIBI", 1, 1, 0, 4) + data[at + 10 : at + 14] + data[at + 10 + 32 :]


def promise_much(data: bytes) -> bytes:
    at = data.index(EMBEDDING) + len(EMBEDDING)
    return data[: at + 1] + struct.pack("<II", 2**31 - 1, 2**31 - 1) + data[at + 9 :]


def put_nan(data: bytes) -> bytes:
    at = data.index(EMBEDDING) + len(EMBEDDING) + 14
    return data[:at] + struct.pack("<f", float("nan")) + data[at + 4 :]


def count_heads(data: bytes) -> bytes:
    name = b"decoder/num_heads\0"
    at = data.index(name) + len(name) + 6
    return data[:at] + struct.pack("<h", 3) + data[at + 2 :]


def rename(data: bytes) -> bytes:
    return data.replace(GAMMA, GAMMA.replace(b"gamma", b"gemma"))


def append(data: bytes) -> bytes:
    return data + b"\0"


@pytest.mark.parametrize("change", [shorten_gamma, promise_much, put_nan, count_heads, rename, append])
def test_weights_that_do_not_fit_are_refused(
    change: Callable[[bytes], bytes], sound: dict[str, bytes], tmp_path: Path
) -> None:
    check_converted(write(tmp_path / "sound", sound))
    changed = write(tmp_path / "changed", sound, model=change(sound["model.bin"]))
    with pytest.raises(ArtifactError, match="converted"):
        CTranslate2Engine(changed, n_threads=1)


def test_any_damage_to_the_structure_is_a_clean_refusal(sound: dict[str, bytes], tmp_path: Path) -> None:
    rng, data = random.Random(1), sound["model.bin"]
    directory = write(tmp_path / "fuzzed", sound)
    refused = 0
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
            refused += 1
    assert refused > 80  # the rest changed a weight to another number


def test_the_files_beside_the_weights_are_checked_too(sound: dict[str, bytes], tmp_path: Path) -> None:
    symbols = json.loads(sound["shared_vocabulary.json"])
    config = json.loads(sound["config.json"])
    changes = [
        {"shared_vocabulary.json": json.dumps(symbols[:-1]).encode()},
        {"shared_vocabulary.json": json.dumps(symbols[::-1]).encode()},
        {"shared_vocabulary.json": b"[" * 100_000},
        {"config.json": json.dumps(config | {"decoder_start_token": "7"}).encode()},
        {"config.json": b"[]"},
        {"vmap.txt": b"one\n"},
    ]
    for number, change in enumerate(changes):
        with pytest.raises(ArtifactError):
            check_converted(write(tmp_path / str(number), sound | change))


def test_links_and_missing_files_are_refused(sound: dict[str, bytes], tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", sound)
    linked = write(tmp_path / "linked", sound)
    (linked / "model.bin").unlink()
    with pytest.raises(ArtifactError, match="missing"):
        check_converted(linked)
    (linked / "model.bin").symlink_to(whole / "model.bin")
    with pytest.raises(ArtifactError, match="link"):
        check_converted(linked)
