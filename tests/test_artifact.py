"""Model directories: saving and loading is exact; damaged or malicious ones cannot run code, hang or fill memory."""

import hashlib
import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.artifact import describe, load_model, max_length, save_model
from regard.errors import ArtifactError
from regard.models import ARCHITECTURES, ModelSpec, Transformer, TransformerConfig, named_weights
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

CONFIG = TransformerConfig(n_encoder_layers=1, n_decoder_layers=2, d_model=16, d_ff=24, n_heads=2)
FILES = ("config.json", "model.safetensors", "tokenizer.model", "README.md", "manifest.json")
PARSED = FILES[:3]  # the model card is verified, but not parsed
SRC, TGT = torch.tensor([[5, 6, 7]]), torch.tensor([[2, 8]])


def make_tokenizer(text: str, size: int) -> Tokenizer:
    return Tokenizer(train_tokenizer([text, text[::-1]] * 5, size=size))


@pytest.fixture(scope="module")
def joint() -> TokenizerPair:
    tokenizer = make_tokenizer("the animal did not cross the street", 290)
    return TokenizerPair(tokenizer, tokenizer)


def save(path: Path, tokenizers: TokenizerPair, config: TransformerConfig = CONFIG, **changes: Any) -> Transformer:
    """Save a model with random weights."""
    torch.manual_seed(1)
    model = Transformer(config, tokenizers.source.size, tokenizers.target.size).eval()
    spec = ModelSpec("translation", "transformer", config, tokenizers.sizes)
    values: dict[str, Any] = {"spec": spec, "weights": named_weights(model), "assets": tokenizers.files()}
    save_model(path, **(values | {"facts": {}, "card": "# A model\n"} | changes))
    return model


@pytest.fixture
def saved(tmp_path: Path, joint: TokenizerPair) -> Path:
    save(tmp_path / "run" / "model", joint)
    return tmp_path / "run" / "model"


def update_manifest(directory: Path) -> None:
    """Make the manifest agree with the files, as an attacker would."""
    files = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name != "manifest.json":
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            name = path.relative_to(directory).as_posix()
            files[name] = {"size": path.stat().st_size, "sha256": digest}
    (directory / "manifest.json").write_text(json.dumps({"format": 1, "files": files}))


def rewrite_config(directory: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads((directory / "config.json").read_text())
    change(content)
    (directory / "config.json").write_text(json.dumps(content))
    update_manifest(directory)


def assert_refused(directory: Path, match: str | None = None) -> None:
    with pytest.raises(ArtifactError, match=match):
        load_model(directory)


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a model is built on another device than "meta", where tensors have no memory."""

    class WithoutMemory(Transformer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            assert torch.empty(0).device.type == "meta", "memory was allocated for a model that should be refused"
            super().__init__(*args, **kwargs)

    entry = ARCHITECTURES["transformer"]._replace(models={"translation": WithoutMemory})
    monkeypatch.setitem(ARCHITECTURES, "transformer", entry)


def test_a_loaded_model_equals_the_saved_one(saved: Path, tmp_path: Path, joint: TokenizerPair) -> None:
    facts = {"languages": ["en", "de"], "bleu": 31.5}
    model = save(tmp_path / "other", joint, facts=facts)
    loaded = load_model(tmp_path / "other")
    assert (loaded.architecture, loaded.config, loaded.facts) == ("transformer", CONFIG, facts)
    assert describe(saved).size == CONFIG.describe()
    assert loaded.tokenizers.joint
    assert loaded.tokenizers.source.to_bytes() == joint.source.to_bytes()
    assert loaded.model.pad_id == joint.source.pad_id
    assert torch.equal(loaded.model(SRC, TGT), model(SRC, TGT))
    assert {path.name for path in saved.iterdir()} == set(FILES)


def test_two_vocabularies_are_saved_and_loaded(tmp_path: Path, joint: TokenizerPair) -> None:
    pair = TokenizerPair(joint.source, make_tokenizer("das Tier ging nicht über die Straße", 300))
    assert pair.source.size != pair.target.size
    config = CONFIG.model_copy(update={"tie": "target"})
    model = save(tmp_path / "model", pair, config)
    loaded = load_model(tmp_path / "model")
    assert not loaded.tokenizers.joint
    assert loaded.tokenizers.target.to_bytes() == pair.target.to_bytes()
    assert torch.equal(loaded.model(SRC, TGT), model(SRC, TGT))


def test_a_run_its_model_directory_and_a_copy_load_the_same_model(saved: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(saved, tmp_path / "elsewhere")
    run, inner, copied = (load_model(path).model(SRC, TGT) for path in (saved.parent, str(saved), copy))
    assert torch.equal(run, inner)
    assert torch.equal(run, copied)


def test_saving_again_replaces_the_model_and_leaves_no_temporary_files(saved: Path, joint: TokenizerPair) -> None:
    save(saved, joint, CONFIG.model_copy(update={"d_ff": 40}))
    assert load_model(saved).config.d_ff == 40
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_the_old_model_remains_if_saving_fails(saved: Path, joint: TokenizerPair) -> None:
    with pytest.raises(UnicodeEncodeError):
        save(saved, joint, CONFIG.model_copy(update={"d_ff": 40}), card="\ud800")
    assert load_model(saved).config.d_ff == 24


def test_a_missing_model_raises_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="there is no model") as error:
        load_model(tmp_path)
    assert "model directory" in str(error.value.hint)
    (tmp_path / "recipe.toml").write_text("")
    with pytest.raises(ArtifactError, match="there is no model") as error:
        load_model(tmp_path)
    assert "finished" in str(error.value.hint)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_refused(saved: Path, name: str) -> None:
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[: len(data) // 2])
    assert_refused(saved, name)


@pytest.mark.parametrize("name", FILES[:4])
def test_a_flipped_bit_is_refused(saved: Path, name: str) -> None:
    data = bytearray((saved / name).read_bytes())
    data[len(data) // 2] ^= 1
    (saved / name).write_bytes(data)
    assert_refused(saved, f"{name} is damaged")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused(saved: Path, name: str) -> None:
    (saved / name).unlink()
    assert_refused(saved, "no model in" if name == "config.json" else f"{name} is missing")


@pytest.mark.parametrize("name", ["extra.txt", "tokenizer.model.py", ".hidden"])
def test_an_added_file_is_refused(saved: Path, name: str) -> None:
    (saved / name).write_text("hello")
    assert_refused(saved, "added later")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_anything_but_a_regular_file_is_refused_without_blocking(
    saved: Path, tmp_path: Path, name: str, kind: str
) -> None:
    real = (saved / name).rename(tmp_path / "real")
    if kind == "link":
        (saved / name).symlink_to(real)
    elif kind == "fifo":
        os.mkfifo(saved / name)
    else:
        (saved / name).mkdir()
        (saved / name / "inner").write_bytes(real.read_bytes())
    assert_refused(saved)


class RunsCode:
    """Runs code when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("protocol", [0, 5])
@pytest.mark.parametrize("name", [*FILES, "source.model", "optimizer.pt", "pytorch_model.bin"])
def test_a_pickle_under_any_name_is_never_loaded(saved: Path, tmp_path: Path, name: str, protocol: int) -> None:
    marker = tmp_path / "ran"
    payload = pickle.dumps(RunsCode(marker), protocol)
    (saved / name).write_bytes(payload)
    if name != "manifest.json":
        update_manifest(saved)
    try:
        load_model(saved)
        assert name not in PARSED
    except ArtifactError:
        assert name in (*PARSED, "manifest.json")
    assert not marker.exists()
    pickle.loads(payload)  # shows that the payload works
    assert marker.exists()


def test_a_file_for_torch_load_is_refused(saved: Path, tmp_path: Path) -> None:
    torch.save({"weights": RunsCode(tmp_path / "ran")}, saved / "model.safetensors")
    update_manifest(saved)
    assert_refused(saved)
    assert not (tmp_path / "ran").exists()


HUGE = [
    {"d_model": 65_536, "d_ff": 1_048_576},
    {"n_encoder_layers": 1000, "n_decoder_layers": 1000, "d_model": 65_536},
    {"positions": "learned", "max_positions": 1_048_576, "d_model": 65_536},
    {"d_model": 2**62},
    {"n_decoder_layers": 10**9},
    {"d_ff": 10**400},
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("huge", HUGE, ids=lambda huge: "-".join(huge))
def test_huge_dimensions_are_refused_before_memory_is_allocated(
    saved: Path, no_memory: None, huge: dict[str, int]
) -> None:
    rewrite_config(saved, lambda content: content["model"].update(huge))
    assert_refused(saved)


def test_more_layers_than_weights_are_refused_before_a_model_is_built(saved: Path) -> None:
    rewrite_config(saved, lambda content: content["model"].update(n_encoder_layers=900, n_decoder_layers=900))
    assert_refused(saved, "has fewer layers than config.json")


def write_header(path: Path, header: object, data: bytes = b"") -> None:
    """Write a safetensors file with any header."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)


@pytest.mark.timeout(120)
def test_a_header_that_claims_more_than_the_file_has_is_refused_before_memory_is_allocated(
    saved: Path, no_memory: None
) -> None:
    config = CONFIG.model_copy(update={"d_model": 65_536, "d_ff": 1_048_576})
    with torch.device("meta"):
        weights = named_weights(Transformer(config, 290, 290))
    header, end = {}, 0
    for name, tensor in weights.items():
        start, end = end, end + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [start, end]}
    write_header(saved / "model.safetensors", header, b"\0" * 64)
    rewrite_config(saved, lambda content: content.update(model=config.model_dump()))
    assert_refused(saved)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        [],
        {"a": 1},
        {"a": {"dtype": "F32", "shape": [2**62, 2**62]}},
        {"a": {"dtype": "F32", "shape": [-1]}},
        {"a": {"dtype": "F32", "shape": ["1"]}},
        {"a": {"dtype": "F99", "shape": [1]}},
        {"a": {"dtype": [], "shape": [1]}},
    ],
    ids=repr,
)
def test_an_invalid_header_of_the_weights_is_refused(saved: Path, no_memory: None, header: object) -> None:
    write_header(saved / "model.safetensors", header)
    update_manifest(saved)
    assert_refused(saved)


@pytest.mark.parametrize("start", [b"", b"\1", *(struct.pack("<Q", size) for size in (0, 10**9, 2**63))])
def test_a_header_of_impossible_size_is_refused(saved: Path, no_memory: None, start: bytes) -> None:
    (saved / "model.safetensors").write_bytes(start)
    update_manifest(saved)
    assert_refused(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinite_weights_are_refused_with_their_name(saved: Path, value: float) -> None:
    weights = load_file(saved / "model.safetensors")
    weights["decoder.1.feed_forward.inner.bias"][3] = value
    save_file(weights, saved / "model.safetensors")
    update_manifest(saved)
    assert_refused(saved, r"decoder\.1\.feed_forward\.inner\.bias")


@pytest.mark.parametrize("how", ["lacking", "extra", "shape", "type"])
def test_weights_that_do_not_match_the_configuration_are_refused(saved: Path, no_memory: None, how: str) -> None:
    weights, name = load_file(saved / "model.safetensors"), "encoder.0.self_attention.out.weight"
    if how == "lacking":
        del weights[name]
    elif how == "extra":
        weights["encoder.1.self_attention.out.weight"] = weights[name].clone()
    else:
        weights[name] = weights[name].half() if how == "type" else weights[name][:-1].clone()
    save_file(weights, saved / "model.safetensors")
    update_manifest(saved)
    assert_refused(saved, r"0\.self_attention" if how != "extra" else r"1\.self_attention")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": "perceptron"}, "unknown architecture 'perceptron'"),
        ({"architecture": ["transformer"]}, "has no architecture"),
        ({"format": 2}, "has format 2"),
        ({"format": None}, "has format None"),
        ({"model": {"d_modle": 16}}, "d_modle"),
        ({"model": {"n_heads": 3, "d_model": 16}}, "multiple of n_heads"),
        ({"model": None}, "model"),
        ({"model": []}, "model"),
    ],
)
def test_an_invalid_configuration_is_refused(saved: Path, change: dict[str, Any], message: str) -> None:
    rewrite_config(saved, lambda content: content.update(change))
    assert_refused(saved, message)


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000, b" " * 1_000_001])
def test_a_config_that_is_not_a_json_object_is_refused(saved: Path, data: bytes) -> None:
    (saved / "config.json").write_bytes(data)
    update_manifest(saved)
    assert_refused(saved, r"config\.json")


@pytest.mark.parametrize("data", [None, b"", b"not a model", bytes(1000)])
def test_a_wrong_or_invalid_tokenizer_is_refused(saved: Path, no_memory: None, data: bytes | None) -> None:
    other = make_tokenizer("abcdefghijkl", 280).to_bytes()
    (saved / "tokenizer.model").write_bytes(other if data is None else data)
    update_manifest(saved)
    assert_refused(saved)


@pytest.mark.parametrize("part", [b"\x0a\x00", b"\x12\x00", b"\xf8\x0f\x00", b"\x0a\xff\xff\xff\xff\x7f"], ids=repr)
def test_a_tokenizer_of_a_million_empty_parts_is_refused_before_it_is_parsed(
    saved: Path, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(model: bytes) -> None:
        raise AssertionError("the tokenizer was parsed")

    monkeypatch.setattr("regard.text.tokenizer.Tokenizer", parse)
    (saved / "tokenizer.model").write_bytes(part * 1_500_000)
    update_manifest(saved)
    assert_refused(saved, "was not written by regard")


def test_a_header_that_is_too_large_is_refused_before_it_is_parsed(saved: Path) -> None:
    write_header(saved / "model.safetensors", {str(number): {} for number in range(100_000)})
    update_manifest(saved)
    assert_refused(saved, r"model\.safetensors is not a safetensors file; hint")


def test_two_vocabularies_for_shared_embeddings_are_refused(saved: Path) -> None:
    (saved / "tokenizer.model").rename(saved / "source.model")
    (saved / "target.model").write_bytes(make_tokenizer("das Tier ging", 280).to_bytes())
    update_manifest(saved)
    assert_refused(saved)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_loading_a_model_does_not_disturb_the_callers_rng(tmp_path: Path, joint: TokenizerPair, positions: str) -> None:
    save(tmp_path / "model", joint, CONFIG.model_copy(update={"positions": positions}))
    torch.manual_seed(7)
    before = torch.get_rng_state()
    load_model(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("facts", "limit", "length"),
    [
        ({"max_length": 40}, None, 40),
        ({"max_length": 40}, 16, 15),
        ({"max_length": 10}, 16, 10),
        ({}, None, 256),
        ({"max_length": "many"}, None, 256),
        ({}, 1, 1),
    ],
)
def test_max_length_is_that_of_training_limited_by_the_model(
    facts: dict[str, Any], limit: int | None, length: int
) -> None:
    assert max_length(facts, limit) == length


@pytest.mark.parametrize("old", [False, True])
def test_learned_positions_limit_the_length_also_in_directories_of_0_1_0(
    tmp_path: Path, joint: TokenizerPair, old: bool
) -> None:
    save(tmp_path / "model", joint, CONFIG.model_copy(update={"positions": "learned", "max_positions": 16}))
    if old:
        rewrite_config(
            tmp_path / "model", lambda content: [content.pop(key) for key in ("task", "sizes", "max_length")]
        )
    described = describe(tmp_path / "model")
    assert described.max_length == 16
    assert described.sizes == joint.sizes
    assert (described.task, load_model(tmp_path / "model").config.max_positions) == ("translation", 16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": {"n_src_symbols": 7}}, r"sizes\.n_src_symbols is 7, but the vocabulary has"),
        ({"sizes": {"n_src_symbols": -1}}, "sizes: must be numbers"),
        ({"sizes": {"n_src_symbols": 10**30}}, "sizes: must be numbers"),
        ({"sizes": {"n_src_symbols": 290.0}}, "sizes: must be numbers"),
        ({"sizes": {"pad_id": False}}, "sizes: must be numbers"),
        ({"sizes": {"pad_id": 1}}, r"sizes\.pad_id is 1, but the vocabulary has 0"),
        ({"sizes": ["a"]}, "sizes: must be numbers"),
        ({"sizes": None}, "sizes: must be numbers"),
        ({"sizes": {}}, "missing 2 required positional arguments: 'n_src_symbols' and 'n_tgt_symbols'"),
        ({"sizes": {"n_layers": 3}}, "unexpected keyword argument 'n_layers'"),
        ({"task": "answering"}, "transformer has no model for the task 'answering'"),
        ({"task": None}, "transformer has no model for the task 'None'"),
        ({"task": ["translation"]}, "transformer has no model for the task"),
        ({"architecture": "perceptron"}, "unknown architecture 'perceptron'"),
    ],
)
def test_sizes_and_tasks_that_do_not_fit_are_refused(
    saved: Path, no_memory: None, change: dict[str, Any], message: str
) -> None:
    rewrite_config(saved, lambda content: content.update(change))
    with pytest.raises(ArtifactError, match=message) as error:
        load_model(saved)
    assert error.value.message.startswith(f"{saved / 'config.json'}: ")
    assert "\n" not in str(error.value)
