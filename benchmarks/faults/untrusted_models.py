"""Rows 12, 13 and 14: model directories made to run code, read other files, or exhaust memory."""

import io
import json
import os
import pickle
import shutil
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from faults.child import Outcome, in_child
from faults.harness import Figure, Harness, put, reseal
from faults.saves import RUN, tensors_of
from regard.artifact import load_model
from regard.models import Transformer, TransformerConfig, named_weights
from regard.run import read_recipe
from regard.training import Checkpoints

MAX_SECONDS = 1.0
MAX_MB = 256.0  # 2,000 layers, the most that a configuration allows, take 200 even without weights
MB = 1024 * 1024
# about 36 MB of weights, so that holding them twice is noticed
LARGE = TransformerConfig(n_encoder_layers=4, n_decoder_layers=4, d_model=256, d_ff=2048, n_heads=4)

EVIL_NAMES = (
    "../secret", "../../secret", "a/../../secret", "/etc/hostname", "//etc/hostname", "./config.json", "..", ".", "",
    "a//b", "a/b/c", "..\\secret", "a\0b", "manifest.json", "C:\\secret", "~/secret",
)  # fmt: skip

Change = Callable[[Path], Any]


class Evil:
    """Makes a directory when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def pickles_under_every_name(harness: Harness) -> Figure:
    """Row 12: a pickle that runs code, under each file name."""
    marker = harness.folder / "executed"
    payloads = _payloads(marker)
    load_model(harness.save_model(harness.fresh()))  # so that the children need not import anything
    pickle.loads(payloads[0])
    assert marker.is_dir(), "the payload does not work"
    marker.rmdir()
    n_tried = n_executed = 0
    bad = []
    for payload in payloads:
        for place in _places_for_pickles(harness, payload):
            outcome = in_child(place)
            n_tried += 1
            n_executed += marker.exists()
            if outcome.how not in ("refused", "done"):
                bad.append(outcome.message)
            shutil.rmtree(marker, ignore_errors=True)
    return Figure(f"{n_executed} executions in {n_tried} loads" + _failures(bad), n_executed == 0 and not bad)


def paths_and_special_files(harness: Harness) -> Figure:
    """Row 13: paths outside the directory, links, FIFOs, sockets and devices."""
    n_ok, slowest_seconds, bad = 0, 0.0, []
    cases = [*_evil_names(), *_special_files(harness)]
    for name, change in cases:
        outcome = _load_changed(harness, change, sealed=False)
        slowest_seconds = max(slowest_seconds, outcome.seconds)
        was_refused = outcome.how == "refused" and outcome.seconds < MAX_SECONDS
        n_ok += was_refused
        if not was_refused:
            bad.append(f"{name}: {outcome.how} {outcome.message}")
    text = f"{n_ok}/{len(cases)} refused, slowest {slowest_seconds:.2f} s" + _failures(bad)
    return Figure(text, n_ok == len(cases))


def models_that_need_too_much_memory(harness: Harness) -> Figure:
    """Row 14: peak memory until the refusal, above the size of the files."""
    over: dict[str, float] = {}
    bad = []
    base = harness.save_model(harness.fresh(), LARGE)
    load_model(base)  # so that the memory of imports is not counted in the children
    for change, words in [*_huge_models(), *_wrong_weights()]:
        directory = _copy(harness, base)
        change(directory)
        reseal(directory)
        size_mb = sum(file.stat().st_size for file in directory.iterdir()) / MB
        outcome = in_child(lambda directory=directory: load_model(directory), limit_seconds=60)
        over[words] = max(0.0, outcome.grown_mb - size_mb)
        if outcome.how != "refused" or over[words] > MAX_MB:
            bad.append(f"{words}: {outcome.how}, {over[words]:.0f} MB over {size_mb:.0f}, {outcome.message}")
        shutil.rmtree(directory)
    (most, second) = sorted(over, key=over.__getitem__)[:-3:-1]
    text = f"{len(over) - len(bad)}/{len(over)} refused, {over[most]:.0f} MB over the file's size ({most}), "
    return Figure(f"{text}the others at most {over[second]:.0f}{_failures(bad)}", not bad)


def _failures(bad: list[str]) -> str:
    return f"; {len(bad)} BAD, e.g. {bad[0][:300]}" if bad else ""


def _copy(harness: Harness, base: Path) -> Path:
    return Path(shutil.copytree(base, harness.fresh()))


def _load_changed(harness: Harness, change: Change, *, sealed: bool = True) -> Outcome:
    directory = harness.save_model(harness.fresh())
    change(directory)
    if sealed:
        reseal(directory)
    outcome = in_child(lambda: load_model(directory), limit_seconds=10 * MAX_SECONDS)
    shutil.rmtree(directory)
    return outcome


def _payloads(marker: Path) -> list[bytes]:
    """Plain pickles, and torch's two file formats that contain pickles."""
    plain = [pickle.dumps(Evil(marker), protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    torches = []
    for zipped in (True, False):
        buffer = io.BytesIO()
        torch.save({"weights": Evil(marker)}, buffer, _use_new_zipfile_serialization=zipped)
        torches.append(buffer.getvalue())
    return plain + torches


def _places_for_pickles(harness: Harness, payload: bytes) -> Iterator[Callable[[], Any]]:
    """Every function that reads untrusted files, with the payload under each file name."""
    model = harness.save_model(harness.fresh())
    others = ["source.model", "target.model", "pytorch_model.bin", "model.pt", "optimizer.pt", "ctranslate2/model.bin"]
    for name in [*sorted(file.name for file in model.iterdir()), *others]:
        directory = _copy(harness, model)
        (directory / name).parent.mkdir(exist_ok=True)
        put(directory / name, payload)
        if name != "manifest.json":
            reseal(directory)
        yield lambda directory=directory: load_model(directory)
    kept = harness.fresh()
    step = Checkpoints(kept, keep_last=1, keep_best=0).save(10, tensors_of(1), RUN)
    for name in sorted(file.name for file in step.iterdir()):
        run = _copy(harness, kept)
        put(run / step.name / name, payload)
        if name != "manifest.json":
            reseal(run / step.name)
        yield lambda run=run: _read_checkpoint(run)
    recipe = harness.fresh()
    recipe.write_bytes(payload)
    yield lambda: read_recipe(recipe)


def _read_checkpoint(run: Path) -> None:
    checkpoint, _ = Checkpoints(run, keep_last=1, keep_best=0).resume(RUN)
    assert checkpoint is not None
    for stem in ("model", "optimizer"):
        checkpoint.tensors(stem)


def _evil_names() -> Iterator[tuple[str, Change]]:
    """Names in the manifest that lead outside the directory, with a correct entry."""
    for name in EVIL_NAMES:

        def change(directory: Path, name: str = name) -> None:
            manifest = json.loads((directory / "manifest.json").read_text())
            manifest["files"][name] = next(iter(manifest["files"].values()))
            (directory / "manifest.json").write_text(json.dumps(manifest))

        yield f"manifest names {name!r}", change


def _special_files(harness: Harness) -> Iterator[tuple[str, Change]]:
    """Each file replaced by a link (to a good copy), a FIFO, a socket, a directory or a device."""
    zero, null = os.makedev(1, 5), os.makedev(1, 3)
    makers: dict[str, Callable[[Path], Any]] = {
        "absolute link": lambda path: path.symlink_to(_moved(harness, path)),
        "relative link": lambda path: path.symlink_to(os.path.relpath(_moved(harness, path), path.parent)),
        "link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
        "link to /dev/zero": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
        "FIFO": lambda path: (path.unlink(), os.mkfifo(path)),
        "socket": lambda path: (path.unlink(), os.mknod(path, stat.S_IFSOCK | 0o666)),
        "directory": lambda path: (path.unlink(), path.mkdir()),
        "character device (zero)": lambda path: (path.unlink(), os.mknod(path, stat.S_IFCHR | 0o666, zero)),
        "character device (null)": lambda path: (path.unlink(), os.mknod(path, stat.S_IFCHR | 0o666, null)),
        "block device": lambda path: (path.unlink(), os.mknod(path, stat.S_IFBLK | 0o666, os.makedev(7, 0))),
    }
    for name in ("config.json", "model.safetensors", "tokenizer.model", "README.md", "manifest.json"):
        for kind, make in makers.items():
            if "device" not in kind or os.geteuid() == 0:
                yield f"{name} is a {kind}", lambda directory, make=make, name=name: make(directory / name)
    yield "a linked directory", lambda directory: (directory / "ctranslate2").symlink_to("/etc")
    yield "an added link", lambda directory: (directory / "passwords").symlink_to("/etc/passwd")
    yield "an added FIFO", lambda directory: os.mkfifo(directory / "more")


def _moved(harness: Harness, path: Path) -> Path:
    return Path(shutil.move(path, harness.fresh()))


def _huge_models() -> Iterator[tuple[Change, str]]:
    """Configurations and safetensors headers that declare far more than there is."""
    huge: list[dict[str, Any]] = [
        {"d_model": 65_536, "d_ff": 1_048_576},
        {"n_encoder_layers": 1000, "n_decoder_layers": 1000},
        {"n_encoder_layers": 1000, "n_decoder_layers": 1000, "d_model": 65_536, "d_ff": 1_048_576},
        {"positions": "learned", "max_positions": 1_048_576},
        {"d_model": 2**62},
        {"n_decoder_layers": 10**9},
        {"d_ff": 10**400},
        {"n_heads": 1024, "d_model": 65_536},
    ]
    for values in huge:
        yield lambda directory, values=values: _set_config(directory, values), f"config {list(values)}"
    yield lambda directory: _declare_huge(directory), "config and index agree on 500 GB"
    for size in (0, 10**9, 2**40, 2**63 - 1, 2**64 - 1):
        yield (
            lambda directory, size=size: put(directory / "model.safetensors", struct.pack("<Q", size) + b"{}"),
            f"index of {size} bytes",
        )
    entry = '"%d":{"shape":[],"dtype":"F32"}'
    for n_tensors in (1_000_000, 1_000, 140_000):
        index = ("{" + ",".join(entry % number for number in range(n_tensors)) + "}").encode()
        yield lambda directory, index=index: _write_index(directory, index), f"index of {n_tensors} tensors"
    layers = {"n_encoder_layers": 1000, "n_decoder_layers": 1000}
    yield lambda directory: (_set_config(directory, layers), _write_index(directory, index)), "both of 2,000 layers"
    yield lambda directory: _write_index(directory, b"[" * 5_000_000), "index of a million brackets"
    yield lambda directory: put(directory / "config.json", b"[" * 900_000), "config of brackets"
    yield lambda directory: put(directory / "config.json", b" " * 50_000_000), "config of 50 MB"
    for words, part in (("pieces", b"\x0a\x00"), ("specs", b"\x12\x00"), ("unknown fields", b"\xf8\x0f\x00")):
        file = part * 10_000_000
        yield lambda directory, file=file: put(directory / "tokenizer.model", file), f"tokenizer of {words}"
    symbols = b"\x12\x80\x80\x80\x05" + b"\xf2\x01\x00" * (5 * 2**21 // 3 + 1)
    yield lambda directory: put(directory / "tokenizer.model", symbols), "tokenizer of control symbols"


def _wrong_weights() -> Iterator[tuple[Change, str]]:
    """Weights that do not match the model, or are not finite."""
    name = "encoder.0.feed_forward.inner.weight"
    changes: dict[str, Callable[[dict[str, torch.Tensor]], Any]] = {
        "lacking": lambda weights: weights.pop(name),
        "extra": lambda weights: weights.update(more=torch.zeros(1)),
        "shape": lambda weights: weights.update({name: weights[name][:-1].clone()}),
        "transposed": lambda weights: weights.update({name: weights[name].T.contiguous()}),
        "half": lambda weights: weights.update({name: weights[name].half()}),
        "NaN": lambda weights: weights[name].view(-1)[-1:].fill_(float("nan")),
        "Inf": lambda weights: weights[name].view(-1)[-1:].fill_(float("inf")),
        "-Inf in the last": lambda weights: weights[max(weights)].view(-1)[-1:].fill_(float("-inf")),
    }
    for words, change in changes.items():
        yield lambda directory, change=change: _rewrite_weights(directory, change), f"weights {words}"


def _set_config(directory: Path, values: dict[str, Any]) -> None:
    described = json.loads((directory / "config.json").read_text())
    described["model"] |= values
    put(directory / "config.json", json.dumps(described).encode())


def _declare_huge(directory: Path) -> None:
    """A configuration and a header that match each other, without weights."""
    values = {"d_model": 65_536, "d_ff": 1_048_576}
    _set_config(directory, values)
    with torch.device("meta"):
        weights = named_weights(Transformer(LARGE.model_copy(update=values), 280, 280))
    index, end = {}, 0
    for name, tensor in weights.items():
        start, end = end, end + 4 * tensor.numel()
        index[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [start, end]}
    _write_index(directory, json.dumps(index).encode())


def _write_index(directory: Path, raw: bytes) -> None:
    put(directory / "model.safetensors", struct.pack("<Q", len(raw)) + raw + bytes(64))


def _rewrite_weights(directory: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    path = directory / "model.safetensors"
    weights = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(weights)
    path.unlink()
    save_file(weights, path)
