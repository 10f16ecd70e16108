"""A second process that finds the gradient of half a batch: shared memory for the numbers, a socket for the words.

Nothing is pickled, and nothing is left behind: when one side is gone, the other finds its socket closed.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from regard.data import Batch
from regard.errors import RunError
from regard.models import MODELS, Transformer
from regard.training.config import TrainingConfig
from regard.training.onednn import MATMUL

_ALIGNED = 16  # floats: a cache line
_LENGTH = struct.Struct("!Q")
_SECONDS_TO_END = 5


def can_help(model: Transformer, n_threads: int) -> bool:
    """Where the system has what it takes, two halves of the threads a core each, and the model nothing odd."""
    if not hasattr(os, "memfd_create") or not sys.executable or n_threads % 2:
        return False
    known = any(kind is type(model) for kind, _ in MODELS.values())
    plain = all(one.dtype == torch.float32 and one.requires_grad for one in model.parameters())
    return known and plain and len(os.sched_getaffinity(0)) >= n_threads


class Helper:
    """The process, seen from the training: it is asked, and answers. An OSError where it can not be started."""

    def __init__(self, config: TrainingConfig, model: Transformer, n_threads: int) -> None:
        self._parameters: list[Tensor] = list(model.parameters())
        self._start()
        try:
            self._send(json.dumps(_described(config, model, n_threads)).encode())
            self._told()  # that it is ready
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        memory = os.memfd_create("regard-gradients")
        # Ctrl-C, or a service manager's SIGTERM, reaches both: the training saves, and then closes the socket
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            os.truncate(memory, n_bytes(self._parameters))
            self._weights, self._gradients = shared(memory, self._parameters)
            self._socket, theirs = socket.socketpair()
            with theirs, ExitStack() as undo:
                undo.push(self._socket)
                self._process = _run(theirs.fileno(), memory)
                undo.pop_all()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
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
        told = self._told()
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

    def _told(self) -> dict[str, Any]:
        try:
            found = receive(self._socket)
        except OSError as error:
            raise self._gone() from error
        if found is None:
            raise self._gone()
        told: dict[str, Any] = json.loads(found)
        if "message" in told:
            raise RunError(told["message"], hint=told["hint"])
        return told

    def _gone(self) -> RunError:
        try:
            code = self._process.wait(timeout=_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return RunError(
            f"the process that takes half of every batch has ended ({how})",
            hint="was there too little memory? The same command goes on from the last checkpoint",
        )


def _run(*inherited: int) -> subprocess.Popen[bytes]:
    """The helper's own side (helping.py), with the same modules to be found, and these file descriptors."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", "from regard.training.gradients.worker import main; main()", *map(str, inherited)],
        pass_fds=inherited,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(one for one in sys.path if isinstance(one, str))},
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
        "fp32_precision": MATMUL.fp32_precision,  # as quick_products has set it
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
