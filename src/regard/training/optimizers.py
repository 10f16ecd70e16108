"""What turns gradients into steps: the paper's Adam, and Muon for the matrices with Adam for the rest.

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

_ITERATIONS = 5
_A, _B, _C = 3.4445, -4.7750, 2.0315  # of the polynomial that draws every singular value towards 1
_LIKE_ADAM = 0.2  # size of an element of an update, about Adam's: one rate serves both


def make_optimizer(config: TrainingConfig, model: nn.Module) -> Optimizer:
    """As the configuration says. The rate is set before every step."""
    settings: dict[str, Any] = {"betas": (config.beta1, config.beta2), "eps": config.epsilon, "fused": True}
    if config.optimizer == "adam":
        return Adam(model.parameters(), lr=0.0, **settings)  # section 5.3
    inside = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    return Muon(model, momentum=config.momentum, inside=inside, **settings)


class Muon(Adam):
    """Matrices inside the layers move along their momentum, made orthogonal; embeddings and vectors as Adam says.

    Momentum of a matrix has a few large singular values and many small ones; an orthogonal step lets it learn in all
    directions alike (Jordan et al., 2024). That is found in the precision `inside`; all that is kept is float32.
    """

    def __init__(self, model: nn.Module, momentum: float, inside: torch.dtype, **adam: Any) -> None:
        joined, single = _matrices(model)
        apart = {id(one) for one in joined + single}
        rest = [one for one in model.parameters() if id(one) not in apart]
        groups = [{"params": joined, "n_parts": 3}, {"params": single, "n_parts": 1}, {"params": rest, "n_parts": 0}]
        super().__init__([group for group in groups if group["params"]], lr=0.0, **adam)
        self._momentum, self._inside = momentum, inside

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update; a parameter without a gradient stays as it is."""
        alike: dict[torch.Size, list[tuple[Tensor, Tensor, float]]] = defaultdict(list)
        for group in self.param_groups:
            for parameter in group["params"] if group["n_parts"] else ():
                if parameter.grad is not None:
                    wanted = self._wanted(parameter).chunk(group["n_parts"])
                    for matrix, one in zip(parameter.chunk(group["n_parts"]), wanted, strict=True):
                        tall = len(one) > one.shape[1]
                        where, what = (matrix.mT, one.mT) if tall else (matrix, one)
                        alike[what.shape].append((where, what, group["lr"]))
                    parameter.grad = None  # Adam has nothing to do here
        for shape, several in alike.items():
            updates = orthogonal(torch.stack([what.to(self._inside) for _, what, _ in several]))
            size = _LIKE_ADAM * shape[1] ** 0.5
            for (matrix, _, rate), update in zip(several, updates, strict=True):
                largest = torch.finfo(matrix.dtype).max  # of what torch multiplies by; such weights are never saved
                matrix.add_(update, alpha=-min(rate * size, largest))
        return super().step(closure)

    def _wanted(self, parameter: Tensor) -> Tensor:
        """(R, C): the momentum with this step's gradient in it, looking one step ahead (Nesterov)."""
        gradient = parameter.grad
        assert gradient is not None
        remembered = self.state[parameter]
        if not remembered:  # Adam, which keeps the state, wants every parameter's steps counted
            remembered |= {"step": torch.zeros(()), "momentum": torch.zeros_like(parameter)}
        remembered["step"] += 1
        momentum: Tensor = remembered["momentum"].lerp_(gradient, 1 - self._momentum)
        return gradient.lerp(momentum, self._momentum)


def orthogonal(matrices: Tensor) -> Tensor:
    """(N, R, C), R ≤ C → about U Vᵀ of each one's singular value decomposition, by Newton–Schulz iterations."""
    x: Tensor = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(_ITERATIONS):
        square = x @ x.mT  # (N, R, R)
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=_B, alpha=_C), x, beta=_A)
    return x


def _matrices(model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """The weights of linear layers: those that are W_Q, W_K and W_V in one, and the others."""
    attention = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    joined: list[Tensor] = [module.qkv.weight for module in attention]
    known = {id(one) for one in joined}
    linear = (module.weight for module in model.modules() if isinstance(module, nn.Linear))
    return joined, [weight for weight in linear if id(weight) not in known]
