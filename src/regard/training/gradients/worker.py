"""The helper's own side: it makes the same model over the shared weights, and answers until nobody asks any more."""

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
from regard.training.allocator import keep_freed_memory
from regard.training.config import TrainingConfig
from regard.training.gradients.gradients import Gradients, Together
from regard.training.gradients.two_processes import receive, send, shared
from regard.training.objectives import make_objective
from regard.training.onednn import MATMUL


def main() -> None:
    """Two file descriptors as arguments: the socket's and the memory's."""
    with socket.socket(fileno=int(sys.argv[1])) as training:
        try:
            _serve(training, int(sys.argv[2]))
        except ConnectionError:
            return  # the training has ended
        except Exception as error:
            why = " ".join(str(error).split())  # in one line
            words = f"the process that takes half of every batch failed: {type(error).__name__}: {why}"
            _say(training, {"message": words, "hint": None})


def _serve(training: socket.socket, memory: int) -> None:
    described = receive(training)
    if described is None:
        return
    told = json.loads(described)
    config = TrainingConfig.model_validate(told["training"])
    torch.set_num_threads(told["n_threads"])
    MATMUL.fp32_precision = told["fp32_precision"]
    keep_freed_memory()
    model_type, config_type = MODELS[told["architecture"]]
    shape = config_type.model_validate(told["model"])
    model = model_type(shape, told["n_src_symbols"], told["n_tgt_symbols"], told["pad_id"]).train()
    parameters: list[Tensor] = list(model.parameters())
    for parameter, weight, gradient in zip(parameters, *shared(memory, parameters), strict=True):
        parameter.data, parameter.grad = weight, gradient
    gradients = Together(config, model, make_objective(config), torch.device("cpu"))
    _say(training, {})  # ready
    while (asked := receive(training)) is not None:
        ids = receive(training)
        if ids is None:
            return
        _say(training, answer(json.loads(asked), ids, model, gradients))


def _say(to: socket.socket, words: dict[str, Any]) -> None:
    send(to, json.dumps(words).encode())


def answer(asked: dict[str, Any], ids: bytes, model: Transformer, gradients: Gradients) -> dict[str, Any]:
    """The sums of one batch, or why there are none; the gradient lies in the shared memory."""
    torch.manual_seed(asked["seed"])
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()
    try:
        sums = gradients(_batch(asked["shapes"], ids), asked["n_tokens"])
    except RunError as error:
        return {"message": error.message, "hint": error.hint}
    return {"loss": sums.loss, "nll": sums.nll}


def _batch(shapes: list[list[int]], ids: bytes) -> Batch:
    """As it was sent."""
    numbers = torch.from_numpy(np.frombuffer(ids, dtype=np.int64).copy())
    parts = numbers.split([prod(shape) for shape in shapes])
    src, tgt_in, tgt_out = (part.view(shape) for part, shape in zip(parts, shapes, strict=True))
    return Batch(src, tgt_in, tgt_out, tgt_out.numel(), np.arange(len(src)))
