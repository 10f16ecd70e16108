"""A second process that finds the gradient of half a batch: shared memory for the numbers, a socket for the words.

Nothing is pickled, and nothing is left behind: when one side is gone, the other finds its socket closed.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import subprocess
import sys
from typing import Any

import torch
from torch import Tensor

from regard.data import Batch
from regard.errors import RunError
from regard.models import MODELS, Transformer
from regard.training.config import TrainingConfig

_ALIGNED = 16  # floats: a cache line
_LENGTH = struct.Struct("!Q")
_WITHOUT = "OMP_NUM_THREADS=1 does without it"
_RUN = "from regard.training.helping import main; main()"


def can_help() -> bool:
    """Where the system has what it takes."""
    return hasattr(os, "memfd_create") and bool(sys.executable)


class Helper:
    """The process, seen from the training: it is asked, and answers."""

    def __init__(self, config: TrainingConfig, model: Transformer, n_threads: int) -> None:
        self._parameters: list[Tensor] = [one for one in model.parameters() if one.requires_grad]
        try:
            self._start()
        except OSError as error:
            raise RunError(f"no process could be started for half of every batch: {error}", hint=_WITHOUT) from error
        self._send(json.dumps(_described(config, model, n_threads)).encode())

    def _start(self) -> None:
        memory = os.memfd_create("regard-gradients")
        try:
            os.truncate(memory, n_bytes(self._parameters))
            self._weights, self._gradients = shared(memory, self._parameters)
            self._socket, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _RUN, str(theirs.fileno()), str(memory)],
                    pass_fds=(theirs.fileno(), memory),
                    stdin=subprocess.DEVNULL,
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                )
        finally:
            os.close(memory)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, batch: Batch, n_tokens: int, seed: int) -> None:
        """It begins with this batch, and with the weights as they are now."""
        with torch.no_grad():
            torch._foreach_copy_(self._weights, self._parameters)
        ids = [batch.src, batch.tgt_in, batch.tgt_out]
        asked = {"n_tokens": n_tokens, "seed": seed, "shapes": [list(one.shape) for one in ids]}
        self._send(json.dumps(asked).encode())
        self._send(b"".join(one.contiguous().numpy().tobytes() for one in ids))

    def answer(self) -> dict[str, float]:
        """What it found: the sums, and every parameter's gradient, which is added to its own."""
        try:
            found = receive(self._socket)
        except OSError as error:
            raise self._gone() from error
        if found is None:
            raise self._gone()
        told: dict[str, Any] = json.loads(found)
        if "message" in told:
            raise RunError(told["message"], hint=told["hint"])
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(gradient)
        return told

    def close(self) -> None:
        """It ends, at once: what it might still find, nobody needs."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _send(self, message: bytes) -> None:
        try:
            send(self._socket, message)
        except OSError as error:
            raise self._gone() from error

    def _gone(self) -> RunError:
        self._process.kill()  # should it only have closed its socket
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return RunError(
            f"the process that takes half of every batch has ended ({how})",
            hint=f"was there too little memory? The same command goes on from the last checkpoint; {_WITHOUT}",
        )


def _described(config: TrainingConfig, model: Transformer, n_threads: int) -> dict[str, Any]:
    """All that the helper has to know to make the same model."""
    architecture = next(name for name, (kind, _) in MODELS.items() if kind is type(model))
    return {
        "architecture": architecture,
        "model": model.config.model_dump(mode="json"),
        "n_src_symbols": model.source.embedding.weight.shape[0],
        "n_tgt_symbols": model.output_weight.shape[0],
        "pad_id": model.pad_id,
        "training": config.model_dump(mode="json"),
        "n_threads": n_threads,
    }


def n_bytes(parameters: list[Tensor]) -> int:
    """Of the memory that weights and gradients share."""
    return 2 * 4 * sum(map(_room, parameters))


def _room(parameter: Tensor) -> int:
    return -(-parameter.numel() // _ALIGNED) * _ALIGNED


def shared(memory: int, parameters: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """In the memory behind a file descriptor: a place for every weight, and one for every gradient."""
    floats = torch.frombuffer(mmap.mmap(memory, n_bytes(parameters)), dtype=torch.float32)
    places = iter(floats.split([_room(one) for one in parameters] * 2))
    found = [next(places)[: one.numel()].view(one.shape) for one in parameters * 2]
    return found[: len(parameters)], found[len(parameters) :]


def send(to: socket.socket, message: bytes) -> None:
    """Its length, and itself."""
    to.sendall(_LENGTH.pack(len(message)) + message)


def receive(of: socket.socket) -> bytes | None:
    """The next message, or None when there will be none."""
    head = _exactly(of, _LENGTH.size)
    return None if head is None else _exactly(of, _LENGTH.unpack(head)[0])


def _exactly(of: socket.socket, n: int) -> bytes | None:
    found = bytearray()
    while len(found) < n:
        part = of.recv(n - len(found))
        if not part:
            return None
        found += part
    return bytes(found)
