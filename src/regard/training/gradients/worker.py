"""The worker process: builds the same model over the shared weights, and serves requests until the training ends."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from regard.errors import RunError
from regard.models import Model
from regard.training.config import TrainingConfig
from regard.training.device import keep_freed_memory
from regard.training.gradients.messages import decode_batch, shared_tensors
from regard.training.gradients.one_process import OneProcess
from regard.training.gradients.setup import spec_of
from regard.training.onednn import MATMUL


def main() -> None:
    """Entry point; the arguments are the file descriptors of the connection and of the shared memory."""
    with Connection(int(sys.argv[1])) as training:
        try:
            _serve(training, int(sys.argv[2]))
        except (EOFError, ConnectionError):
            return  # the training has ended
        except Exception as error:
            reason = " ".join(str(error).split())  # on one line
            message = (
                f"the worker process, which computes half of every batch, failed: {type(error).__name__}: {reason}"
            )
            with suppress(ConnectionError):
                _reply(training, {"message": message, "hint": None})


def _serve(training: Connection, memory: int) -> None:
    setup = json.loads(training.recv_bytes())
    config = TrainingConfig.model_validate(setup["training"])
    torch.set_num_threads(setup["n_threads"])
    MATMUL.fp32_precision = setup["fp32_precision"]
    keep_freed_memory()
    model = spec_of(setup).build().train()
    parameters: list[Tensor] = list(model.parameters())
    for parameter, weight, gradient in zip(parameters, *shared_tensors(memory, parameters), strict=True):
        parameter.data, parameter.grad = weight, gradient
    gradients = OneProcess(config, model, torch.device("cpu"))
    _reply(training, {})  # ready
    while True:
        request, data = json.loads(training.recv_bytes()), training.recv_bytes()
        _reply(training, compute(request, data, model, gradients))


def _reply(training: Connection, reply: dict[str, Any]) -> None:
    training.send_bytes(json.dumps(reply).encode())


def compute(request: dict[str, Any], data: bytes, model: Model, gradients: OneProcess) -> dict[str, Any]:
    """The loss of one batch, or the error; the gradients are left in the shared memory."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()
    try:
        n_targets = tuple(request["n_targets_in_update"])
        return gradients.compute(decode_batch(request, data), n_targets, request["dropout_seed"])._asdict()
    except RunError as error:
        return {"message": error.message, "hint": error.hint}
