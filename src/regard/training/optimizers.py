"""Optimizers: the paper's Adam, and Muon for matrices with Adam for the other parameters.

N matrices, R rows, C columns
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from regard.nn import MultiHeadAttention
from regard.training.config import TrainingConfig

NEWTON_SCHULZ_STEPS = 5
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial that moves every singular value towards 1
UPDATE_RMS = 0.2  # root mean square of an update, about Adam's: the same learning rate serves both


def make_optimizer(config: TrainingConfig, model: nn.Module) -> Optimizer:
    """The optimizer of a training configuration. The loop sets the learning rate before every step."""
    adam: dict[str, Any] = {"betas": (config.beta1, config.beta2), "eps": config.epsilon, "fused": True}
    if config.optimizer == "adam":
        return Adam(model.parameters(), lr=0.0, **adam)  # section 5.3
    dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    return Muon(model, momentum=config.momentum, orthogonalize_in=dtype, **adam)


class Muon(Adam):
    """Muon (Jordan et al., 2024) for the weight matrices of linear layers, Adam for embeddings and vectors.

    The momentum of a matrix has a few large singular values and many small ones. Muon orthogonalises it, so that the
    matrix learns in all directions at the same rate. Differences from `torch.optim.Muon`: W_Q, W_K and W_V, which
    share one parameter, are orthogonalised separately; there is no weight decay; the iteration runs in the precision
    `orthogonalize_in`, with all state in float32.
    """

    def __init__(self, model: nn.Module, momentum: float, orthogonalize_in: torch.dtype, **adam: Any) -> None:
        fused, single = _matrices(model)
        matrices = {id(weight) for weight in fused + single}
        rest = [parameter for parameter in model.parameters() if id(parameter) not in matrices]
        groups = [{"params": fused, "n_parts": 3}, {"params": single, "n_parts": 1}, {"params": rest, "n_parts": 0}]
        super().__init__([group for group in groups if group["params"]], lr=0.0, **adam)
        self._momentum, self._dtype = momentum, orthogonalize_in

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update; parameters without a gradient stay as they are."""
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor, float]]] = defaultdict(list)
        for group in self.param_groups:
            for parameter in group["params"] if group["n_parts"] else ():
                if parameter.grad is not None:
                    directions = self._nesterov_momentum(parameter).chunk(group["n_parts"])
                    for matrix, direction in zip(parameter.chunk(group["n_parts"]), directions, strict=True):
                        if len(direction) > direction.shape[1]:
                            matrix, direction = matrix.mT, direction.mT
                        by_shape[direction.shape].append((matrix, direction, group["lr"]))
                    parameter.grad = None  # so that Adam skips it
        for shape, entries in by_shape.items():
            updates = orthogonalize(torch.stack([direction.to(self._dtype) for _, direction, _ in entries]))
            scale = UPDATE_RMS * shape[1] ** 0.5
            for (matrix, _, rate), update in zip(entries, updates, strict=True):
                largest = torch.finfo(matrix.dtype).max  # PyTorch refuses a larger alpha; such weights are never saved
                matrix.add_(update, alpha=-min(rate * scale, largest))
        return super().step(closure)

    def _nesterov_momentum(self, parameter: Tensor) -> Tensor:
        """(R, C): updates the momentum with the gradient, and looks one step ahead."""
        gradient = parameter.grad
        assert gradient is not None
        state = self.state[parameter]
        if not state:  # Adam, which owns the state, expects a step count for every parameter
            state |= {"step": torch.zeros(()), "momentum": torch.zeros_like(parameter)}
        state["step"] += 1
        momentum: Tensor = state["momentum"].lerp_(gradient, 1 - self._momentum)
        return gradient.lerp(momentum, self._momentum)


def orthogonalize(matrices: Tensor) -> Tensor:
    """(N, R, C) with R ≤ C → approximately U Vᵀ of each singular value decomposition, by Newton–Schulz iteration."""
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    x: Tensor = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT  # (N, R, R)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _matrices(model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """The weights of linear layers: those that fuse W_Q, W_K and W_V, and the others."""
    attention = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    fused: list[Tensor] = [module.qkv.weight for module in attention]
    fused_ids = {id(weight) for weight in fused}
    linear = (module.weight for module in model.modules() if isinstance(module, nn.Linear))
    return fused, [weight for weight in linear if id(weight) not in fused_ids]
