"""Sums of the gradients of several batches, in floats, or in whole numbers that are the same in every order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

_ALIGNMENT = 16  # floats: a cache line
# Gradients as multiples of 2**-50, in 64 bits: sums up to 8,192, and a resolution far below Adam's epsilon of 1e-9
_SCALE_BITS = 50
_LARGEST = 2.0 ** (63 - _SCALE_BITS)


class Sums(Protocol):
    """The sum of the gradients over the batches of an update, as flat numbers that can be summed over ranks."""

    def add(self, n_batches: int) -> bool:
        """After each of the `n_batches` of the update; returns False if its gradient is too large for a sum."""
        ...

    def pack(self) -> tuple[Tensor | None, list[bool]]:
        """The flat sum of this rank, and which parameters have a gradient."""
        ...

    def unpack(self, used: Sequence[bool]) -> None:
        """Writes the flat sum into `grad` of the parameters that have a gradient in any rank."""


class InPlace:
    """Autograd adds up the gradients of one process, where they are."""

    def add(self, n_batches: int) -> bool:
        return True

    def pack(self) -> tuple[None, list[bool]]:
        return None, []

    def unpack(self, used: Sequence[bool]) -> None:
        pass


class _Flat:
    """One flat tensor for the gradients of all parameters, in their order; each begins at a multiple of 16."""

    def __init__(self, parameters: Sequence[Tensor], dtype: torch.dtype) -> None:
        self._parameters = parameters
        sizes = [-(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT for parameter in parameters]
        self._flat = torch.zeros(sum(sizes), dtype=dtype, device=parameters[0].device)
        self._views = [
            chunk[: like.numel()].view(like.shape)
            for chunk, like in zip(self._flat.split(sizes), parameters, strict=True)
        ]


class FloatSums(_Flat):
    """Sums in float32; their last bits depend on the order, and so on the number of ranks if it is above two."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        super().__init__(parameters, torch.float32)

    def add(self, n_batches: int) -> bool:
        return True  # autograd adds up the batches of a rank

    def pack(self) -> tuple[Tensor, list[bool]]:
        for parameter, view in zip(self._parameters, self._views, strict=True):
            if parameter.grad is None:
                view.fill_(-0.0)  # x + -0.0 is x, also for -0.0
            else:
                view.copy_(parameter.grad)
        return self._flat, [parameter.grad is not None for parameter in self._parameters]

    def unpack(self, used: Sequence[bool]) -> None:
        for parameter, view, is_used in zip(self._parameters, self._views, used, strict=True):
            if not is_used:
                parameter.grad = None
            elif parameter.grad is None:  # in the memory layout of the parameter
                parameter.grad = torch.empty_like(parameter, requires_grad=False).copy_(view)
            else:
                parameter.grad.copy_(view)


class WholeSums(_Flat):
    """Sums of whole multiples of 2**-50, which are the same in every order and for every number of ranks."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        super().__init__(parameters, torch.int64)
        self._used = [False] * len(parameters)

    def add(self, n_batches: int) -> bool:
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        largest = torch.stack(torch._foreach_norm(gradients, float("inf"))).max()
        for number, (parameter, view) in enumerate(zip(self._parameters, self._views, strict=True)):
            if parameter.grad is not None:
                view.add_(parameter.grad.mul_(2.0**_SCALE_BITS).to(torch.int64))
                self._used[number] = True
                parameter.grad = None
        return bool(largest < _LARGEST / n_batches)  # not of NaN either

    def pack(self) -> tuple[Tensor, list[bool]]:
        return self._flat, self._used

    def unpack(self, used: Sequence[bool]) -> None:
        for parameter, view, is_used in zip(self._parameters, self._views, used, strict=True):
            if is_used:
                total = view.to(torch.float64).mul_(2.0**-_SCALE_BITS)
                parameter.grad = torch.empty_like(parameter, requires_grad=False).copy_(total)
        self._flat.zero_()
        self._used = [False] * len(self._used)


def make_sums(parameters: Sequence[Tensor], exact: bool, world_size: int) -> Sums:
    """As `training.exact` says; without it, one process alone leaves the sum to autograd."""
    if exact:
        return WholeSums(parameters)
    return FloatSums(parameters) if world_size > 1 else InPlace()
