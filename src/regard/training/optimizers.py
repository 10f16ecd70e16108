"""Optimizers: the paper's Adam, Muon for matrices with Adam for the other parameters, and SGD.

A module declares its matrices for Muon: `matrices = {"qkv.weight": 3}` is a parameter that stacks three of them.

N matrices, R rows, C columns
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from regard.errors import RecipeError
from regard.training.config import TrainingConfig

MUON_MOMENTUM = 0.95

NEWTON_SCHULZ_STEPS = 5
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial that moves every singular value towards 1
UPDATE_RMS = 0.2  # root mean square of an update, about Adam's: the same learning rate serves both


def make_optimizer(config: TrainingConfig, model: nn.Module) -> Optimizer:
    """The optimizer of a training configuration. `set_rate` sets the learning rate before every step."""
    groups = _groups(config, model)
    if config.optimizer == "sgd":
        return DecoupledSGD(groups, momentum=config.momentum or 0.0)
    adam: dict[str, Any] = {"betas": (config.beta1, config.beta2), "eps": config.epsilon, "fused": True}
    if config.optimizer == "adam":
        return AdamW(groups, lr=0.0, **adam)  # section 5.3; without weight decay AdamW is Adam
    momentum = MUON_MOMENTUM if config.momentum is None else config.momentum
    dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    return Muon(groups, momentum=momentum, orthogonalize_in=dtype, **adam)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Sets the learning rate of every group: `rate` times the factor of the group."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate_factor"]


@torch.no_grad()
def clip_gradients(model: nn.Module, max_norm: float | None, *, each: bool) -> float:
    """Scales gradients down to a norm of `max_norm`: together, or each parameter's. Returns the norm of all before."""
    if max_norm is None or not each:
        return float(nn.utils.clip_grad_norm_(model.parameters(), float("inf") if max_norm is None else max_norm))
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norms = torch.stack(torch._foreach_norm(gradients))
    torch._foreach_mul_(gradients, list((max_norm / norms.clamp_min(1e-30)).clamp(max=1.0).unbind()))
    return float(norms.norm())


class DecoupledSGD(SGD):
    """Gradient descent, with momentum if it is above 0. Weight decay shrinks the weights, not the gradients."""

    def __init__(self, groups: list[dict[str, Any]], momentum: float) -> None:
        # `SGD` would add a "weight_decay" to the gradient, and so to the momentum
        renamed = [group | {"weight_decay": 0.0, "decoupled_decay": group["weight_decay"]} for group in groups]
        super().__init__(renamed, lr=0.0, momentum=momentum)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update; parameters without a gradient stay as they are."""
        for group in self.param_groups:
            for parameter in group["params"] if group["decoupled_decay"] else ():
                if parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * group["decoupled_decay"])
        return super().step(closure)


class Muon(AdamW):
    """Muon (Jordan et al., 2024) for the matrices that modules declare, Adam for embeddings and vectors.

    The momentum of a matrix has a few large singular values and many small ones. Muon orthogonalises it, so that the
    matrix learns in all directions at the same rate. Differences from `torch.optim.Muon`: W_Q, W_K and W_V, which
    share one parameter, are orthogonalised separately; the iteration runs in the precision `orthogonalize_in`, with
    all state in float32.
    """

    def __init__(
        self, groups: list[dict[str, Any]], momentum: float, orthogonalize_in: torch.dtype, **adam: Any
    ) -> None:
        super().__init__(groups, lr=0.0, **adam)
        self._momentum, self._dtype = momentum, orthogonalize_in

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update; parameters without a gradient stay as they are."""
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor, float]]] = defaultdict(list)
        for group in self.param_groups:
            for parameter in group["params"] if group["n_parts"] else ():
                if parameter.grad is not None:
                    if group["weight_decay"]:
                        parameter.mul_(1 - group["lr"] * group["weight_decay"])
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


def declared_matrices(model: nn.Module) -> dict[nn.Parameter, int]:
    """The parameters that modules declare as matrices, and how many matrices each of them stacks."""
    declared: dict[nn.Parameter, int] = {}
    for module in model.modules():
        for name, n_parts in getattr(module, "matrices", {}).items():
            where = f"{type(module).__name__}.matrices: {name!r}"
            try:
                parameter = module.get_parameter(name)
            except AttributeError as error:
                raise ValueError(f"{where} is not a parameter") from error
            if parameter.dim() != 2 or n_parts < 1 or len(parameter) % n_parts:
                raise ValueError(f"{where} of shape {tuple(parameter.shape)} cannot be split into {n_parts} matrices")
            declared[parameter] = n_parts
    return declared


def _groups(config: TrainingConfig, model: nn.Module) -> list[dict[str, Any]]:
    """Parameters with the same number of matrices (0: not for Muon), weight decay and rate factor."""
    matrices = declared_matrices(model) if config.optimizer == "muon" else {}
    factors = _rate_factors(config.rate_factors, model)
    groups: dict[tuple[int, float, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        decay = config.weight_decay if parameter.dim() >= 2 else 0.0  # not for biases and norms
        groups[matrices.get(parameter, 0), decay, factors[name]].append(parameter)
    keys = ("n_parts", "weight_decay", "rate_factor")
    return [{"params": parameters} | dict(zip(keys, values, strict=True)) for values, parameters in groups.items()]


def _rate_factors(by_prefix: dict[str, float], model: nn.Module) -> dict[str, float]:
    """The factor of every parameter: that of the longest prefix, or 1."""
    prefixes = {
        name: [prefix for prefix in by_prefix if f"{name}.".startswith(f"{prefix}.")]
        for name, _ in model.named_parameters()
    }
    unused = set(by_prefix).difference(*prefixes.values())
    if unused:
        parts = ", ".join(dict.fromkeys(name.partition(".")[0] for name in prefixes))
        raise RecipeError(
            f"training.rate_factors: the model has no part {min(unused)!r}",
            hint=f"its parts are {parts}; a smaller one has a longer name, such as {next(iter(prefixes))}",
        )
    return {name: by_prefix[max(found, key=len)] if found else 1.0 for name, found in prefixes.items()}
