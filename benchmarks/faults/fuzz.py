"""Row 15: thousands of damaged model directories. Each is refused with a clear error, or loads and works."""

import json
import os
import random
import resource
import select
import signal
import struct
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from faults.harness import Figure, Harness, put, reseal
from regard.artifact import LoadedModel, load_model
from regard.errors import UserError

HANG_SECONDS = 20.0
MEMORY_BYTES = 6 * 2**30  # address space of a child
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), "", "relu", "F32", "\ud800", "\0", "x" * 5000, [], [[]], [-1], [2**40, 2**40], {}, {"a": 1},
)  # fmt: skip


@dataclass
class Count:
    """Results of the cases."""

    n_refused: int = 0
    n_loaded: int = 0
    bad: list[str] = field(default_factory=list)


def fuzzed_models(harness: Harness) -> Figure:
    """10,000 cases for each of three files; a case depends only on its number, so it can be repeated."""
    n_cases = harness.times(10_000, 300)
    model = harness.save_model(harness.fresh())
    load_and_use(model)
    counts = {name: _fuzz(model, name, n_cases) for name in MUTATIONS}
    totals = ", ".join(f"{name} {count.n_refused:,} + {count.n_loaded:,}" for name, count in counts.items())
    bad = [f"{name} {case}" for name, count in counts.items() for case in count.bad]
    text = f"{len(bad)} crashes, hangs or tracebacks in {len(counts)} × {n_cases:,} (refused + loaded: {totals})"
    return Figure(text + (f"; e.g. {bad[0][:300]}" if bad else ""), not bad)


def load_and_use(directory: Path) -> None:
    """Load a model and use it, to see that it works."""
    loaded: LoadedModel = load_model(directory)
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    ids = [*source.encode("3 1 4 1 5 é ▁ 漢"), source.eos_id]
    source.sample_many([ids], 0.1, seed=1)
    with torch.inference_mode():
        logits = loaded.model(torch.tensor([ids]), torch.tensor([[target.bos_id, 5, 6]]))
    target.decode(logits[0].argmax(-1).tolist())
    target.decode(list(range(target.size)))


def _fuzz(model: Path, name: str, n_cases: int) -> Count:
    """All cases of one file, in a child process; after a crash or a hang, a new child continues with the next case."""
    original, count, first = (model / name).read_bytes(), Count(), 0
    while first < n_cases:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                _all_cases(model, name, original, range(first, n_cases), writer)
            finally:
                os._exit(1)
        os.close(writer)
        first = _listen(reader, first, count)
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if first < n_cases:
            count.bad.append(f"case {first}: crashed or hung (status {status})")
            first += 1
    put(model / name, original)
    reseal(model)
    return count


def _listen(reader: int, first: int, count: Count) -> int:
    """Count a child's results until it ends or sends nothing for too long; returns the next case."""
    with os.fdopen(os.dup(reader), "rb", buffering=0) as results:
        pending = b""
        while select.select([results], [], [], HANG_SECONDS)[0] and (data := results.read(65_536)):
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                result = line.decode()
                count.n_refused += result == "refused"
                count.n_loaded += result == "loaded"
                if result not in ("refused", "loaded"):
                    count.bad.append(f"case {first}: {result}")
                first += 1
    return first


def _all_cases(model: Path, name: str, original: bytes, cases: range, writer: int) -> None:
    """Run in a child: write one line per case."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hides SentencePiece's messages
    for case in cases:
        put(model / name, MUTATIONS[name](original, random.Random(f"{name} {case}")))
        reseal(model)
        os.write(writer, (_result(model) + "\n").encode("utf-8", "backslashreplace"))


def _result(model: Path) -> str:
    try:
        load_and_use(model)
    except UserError as error:
        return "refused" if str(error).count("\n") == 0 else f"an error of several lines: {str(error)[:300]!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:300]!r}"
    return "loaded"


def _mutated_config(data: bytes, rng: random.Random) -> bytes:
    """Usually a JSON object with one to three changes; sometimes arbitrary bytes."""
    if rng.random() < 0.3:
        return _mutated_bytes(data, rng)
    described = json.loads(data)
    for _ in range(rng.randint(1, 3)):
        _mutate_json(described, rng)
    return json.dumps(described).encode()


def _mutated_weights(data: bytes, rng: random.Random) -> bytes:
    """Change the header (names, shapes, offsets), its length, or cut off the tensors."""
    size = struct.unpack("<Q", data[:8])[0]
    raw, values = data[8 : 8 + size], data[8 + size :]
    if rng.random() < 0.3:
        raw = _mutated_bytes(raw, rng)
    else:
        index = json.loads(raw)
        for _ in range(rng.randint(1, 3)):
            _mutate_json(index, rng)
        raw = json.dumps(index).encode()
    length = len(raw)
    if rng.random() < 0.1:
        length = rng.choice((0, 1, length - 1, length + 1, len(data), 2**31, 2**63 - 1, 2**64 - 1))
    cut = rng.randrange(len(values)) if rng.random() < 0.1 else len(values)
    return struct.pack("<Q", length) + raw + values[:cut]


def _mutate_json(value: dict[str, Any], rng: random.Random) -> None:
    """Change one value at a random place."""
    place: Any = value
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        if not keys:
            return
        key = rng.choice(list(keys))
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.8:
            place = place[key]
            continue
        break
    match rng.randrange(5):
        case 0 if isinstance(place, dict):
            del place[key]
        case 1 if isinstance(place, dict):
            place[str(rng.choice(ODD_VALUES))[:50]] = deepcopy(place[key])
        case 2 if isinstance(place[key], int):
            place[key] += rng.choice((-1, 1, 8, 2**20))
        case _:
            place[key] = deepcopy(rng.choice(ODD_VALUES))  # a case depends only on its number


def _mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip bits; replace, insert, delete or repeat bytes; cut off the end."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        start = rng.randrange(len(out) + 1)
        part = out[start : start + rng.choice((1, 2, 4, 8, 64, 1024))]
        match rng.randrange(7):
            case 0 | 1:
                if part:
                    out[start] ^= 1 << rng.randrange(8)
            case 2:
                out[start : start + len(part)] = rng.randbytes(len(part))
            case 3:
                out[start:start] = rng.choice((b"\xff", b"\0", b"\x80", b"[", b'"', b"\xff" * 9 + b"\x01"))
            case 4:
                del out[start : start + len(part)]
            case 5:
                out[start:start] = part
            case _:
                del out[start : None if rng.random() < 0.2 else start + 1]
    return bytes(out)


MUTATIONS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "config.json": _mutated_config,
    "model.safetensors": _mutated_weights,
    "tokenizer.model": _mutated_bytes,
}
