"""The worker process: builds the same model over the shared weights, and serves requests until the socket is closed."""

from __future__ import annotations

import json
import socket
import sys
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data import Batch
from regard.errors import RunError
from regard.models import MODELS, Transformer
from regard.training.config import TrainingConfig
from regard.training.device import keep_freed_memory
from regard.training.gradients.gradients import Gradients, SingleProcess
from regard.training.gradients.two_processes import receive, send, shared_tensors
from regard.training.objectives import make_objective
from regard.training.onednn import MATMUL


def main() -> None:
    """Entry point; the arguments are the file descriptors of the socket and of the shared memory."""
    with socket.socket(fileno=int(sys.argv[1])) as training:
        try:
            _serve(training, int(sys.argv[2]))
        except ConnectionError:
            return  # the training has ended
        except Exception as error:
            reason = " ".join(str(error).split())  # on one line
            message = (
                f"the worker process, which computes half of every batch, failed: {type(error).__name__}: {reason}"
            )
            _reply(training, {"message": message, "hint": None})


def _serve(training: socket.socket, memory: int) -> None:
    message = receive(training)
    if message is None:
        return
    setup = json.loads(message)
    config = TrainingConfig.model_validate(setup["training"])
    torch.set_num_threads(setup["n_threads"])
    MATMUL.fp32_precision = setup["fp32_precision"]
    keep_freed_memory()
    model_type, config_type = MODELS[setup["architecture"]]
    model_config = config_type.model_validate(setup["model"])
    model = model_type(model_config, setup["n_src_symbols"], setup["n_tgt_symbols"], setup["pad_id"]).train()
    parameters: list[Tensor] = list(model.parameters())
    for parameter, weight, gradient in zip(parameters, *shared_tensors(memory, parameters), strict=True):
        parameter.data, parameter.grad = weight, gradient
    gradients = SingleProcess(config, model, make_objective(config), torch.device("cpu"))
    _reply(training, {})  # ready
    while (request := receive(training)) is not None:
        ids = receive(training)
        if ids is None:
            return
        _reply(training, compute(json.loads(request), ids, model, gradients))


def _reply(training: socket.socket, reply: dict[str, Any]) -> None:
    send(training, json.dumps(reply).encode())


def compute(request: dict[str, Any], ids: bytes, model: Transformer, gradients: Gradients) -> dict[str, Any]:
    """The loss sums of one batch, or the error; the gradients are left in the shared memory."""
    torch.manual_seed(request["seed"])
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()
    try:
        sums = gradients(_decode_batch(request["shapes"], ids), request["n_tokens"])
    except RunError as error:
        return {"message": error.message, "hint": error.hint}
    return {"loss": sums.loss, "nll": sums.nll}


def _decode_batch(shapes: list[list[int]], ids: bytes) -> Batch:
    numbers = torch.from_numpy(np.frombuffer(ids, dtype=np.int64).copy())
    parts = numbers.split([prod(shape) for shape in shapes])
    src, tgt_in, tgt_out = (part.view(shape) for part, shape in zip(parts, shapes, strict=True))
    return Batch(src, tgt_in, tgt_out, tgt_out.numel(), np.arange(len(src)))
