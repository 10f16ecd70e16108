"""A worker process that computes the gradients of half a batch: tensors in shared memory, messages over a socket.

Nothing is pickled. When one of the two processes dies, the other finds its socket closed and ends.
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

_ALIGNMENT = 16  # floats: a cache line
_LENGTH = struct.Struct("!Q")
_EXIT_SECONDS = 5


def can_use_two_processes(model: Transformer, n_threads: int) -> bool:
    """Whether the system supports it, every thread has a core, and the model is one that the worker can rebuild."""
    if not hasattr(os, "memfd_create") or not sys.executable or n_threads % 2:
        return False
    is_registered = any(model_type is type(model) for model_type, _ in MODELS.values())
    is_float32 = all(parameter.dtype == torch.float32 and parameter.requires_grad for parameter in model.parameters())
    return is_registered and is_float32 and len(os.sched_getaffinity(0)) >= n_threads


class WorkerProcess:
    """The training's side of the worker process. Raises OSError if it cannot be started."""

    def __init__(self, config: TrainingConfig, model: Transformer, n_threads: int) -> None:
        self._parameters: list[Tensor] = list(model.parameters())
        self._start()
        try:
            self._send(json.dumps(_setup_message(config, model, n_threads)).encode())
            self._receive()  # it is ready
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        memory = os.memfd_create("regard-gradients")
        # Ctrl-C and SIGTERM reach both processes: the training saves, and then closes the socket
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            os.truncate(memory, n_bytes(self._parameters))
            self._weights, self._gradients = shared_tensors(memory, self._parameters)
            self._socket, worker_socket = socket.socketpair()
            with worker_socket, ExitStack() as undo:
                undo.push(self._socket)
                self._process = _start_worker(worker_socket.fileno(), memory)
                undo.pop_all()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(memory)

    @property
    def pid(self) -> int:
        return self._process.pid

    def submit(self, batch: Batch, n_tokens: int, seed: int) -> None:
        """Starts the computation for this batch with the current weights."""
        with torch.no_grad():
            torch._foreach_copy_(self._weights, self._parameters)
        ids = [batch.src, batch.tgt_in, batch.tgt_out]
        request = {"n_tokens": n_tokens, "seed": seed, "shapes": [list(tensor.shape) for tensor in ids]}
        self._send(json.dumps(request).encode())
        self._send(b"".join(tensor.contiguous().numpy().tobytes() for tensor in ids))

    def result(self) -> dict[str, float]:
        """Waits for the sums, and adds every gradient to `grad` of its parameter."""
        sums = self._receive()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(gradient)
        return sums

    def close(self) -> None:
        """Ends the process at once; a pending result is lost."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _send(self, message: bytes) -> None:
        try:
            send(self._socket, message)
        except OSError as error:
            raise self._ended_error() from error

    def _receive(self) -> dict[str, Any]:
        try:
            message = receive(self._socket)
        except OSError as error:
            raise self._ended_error() from error
        if message is None:
            raise self._ended_error()
        reply: dict[str, Any] = json.loads(message)
        if "message" in reply:
            raise RunError(reply["message"], hint=reply["hint"])
        return reply

    def _ended_error(self) -> RunError:
        try:
            code = self._process.wait(timeout=_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        return RunError(
            f"the worker process, which computes half of every batch, has ended ({reason})",
            hint="it may have run out of memory; the same command resumes from the last checkpoint",
        )


def _start_worker(*descriptors: int) -> subprocess.Popen[bytes]:
    """Starts worker.py with the same module path and these file descriptors."""
    return subprocess.Popen(
        [
            sys.executable, "-P", "-c", "from regard.training.gradients.worker import main; main()",
            *map(str, descriptors),
        ],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if isinstance(path, str))},
    )  # fmt: skip


def _setup_message(config: TrainingConfig, model: Transformer, n_threads: int) -> dict[str, Any]:
    """Everything that the worker needs to build the same model."""
    architecture = next(name for name, (model_type, _) in MODELS.items() if model_type is type(model))
    return {
        "architecture": architecture,
        "model": model.config.model_dump(mode="json"),
        "n_src_symbols": model.source.embedding.weight.shape[0],
        "n_tgt_symbols": model.output_weight.shape[0],
        "pad_id": model.pad_id,
        "training": config.model_dump(mode="json"),
        "n_threads": n_threads,
        "fp32_precision": MATMUL.fp32_precision,  # as set by fast_matmul
    }


def n_bytes(parameters: list[Tensor]) -> int:
    """Size of the shared memory for weights and gradients."""
    return 2 * 4 * sum(map(_aligned_size, parameters))


def _aligned_size(parameter: Tensor) -> int:
    return -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT


def shared_tensors(memory: int, parameters: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Views of the memory behind a file descriptor: one per weight, and one per gradient."""
    floats = torch.frombuffer(mmap.mmap(memory, n_bytes(parameters)), dtype=torch.float32)
    chunks = floats.split([_aligned_size(parameter) for parameter in parameters] * 2)
    views = [chunk[: like.numel()].view(like.shape) for chunk, like in zip(chunks, parameters * 2, strict=True)]
    return views[: len(parameters)], views[len(parameters) :]


def send(connection: socket.socket, message: bytes) -> None:
    """Sends the length of a message, then the message."""
    connection.sendall(_LENGTH.pack(len(message)) + message)


def receive(connection: socket.socket) -> bytes | None:
    """The next message, or None when the other side has closed the connection."""
    header = _receive_exactly(connection, _LENGTH.size)
    return None if header is None else _receive_exactly(connection, _LENGTH.unpack(header)[0])


def _receive_exactly(connection: socket.socket, n: int) -> bytes | None:
    data = bytearray()
    while len(data) < n:
        chunk = connection.recv(n - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)
