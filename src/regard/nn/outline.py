"""Builds modules for the names and shapes of their weights alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_INITIALISERS = {
    *(getattr(nn.init, f"{name}_") for name in (
        "normal", "trunc_normal", "uniform", "xavier_uniform", "kaiming_uniform", "orthogonal", "constant",
    )),
    *(getattr(Tensor, f"{name}_") for name in ("normal", "uniform", "fill", "zero", "mul", "copy")),
}  # fmt: skip


@contextmanager
def without_values() -> Iterator[None]:
    """New tensors are on the device "meta", which has no memory, and are not initialised.

    PyTorch would import its compiler to initialise one there, which takes a second.
    """
    with torch.device("meta"), _NoInitialisation():
        yield


class _NoInitialisation(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _INITIALISERS:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))
