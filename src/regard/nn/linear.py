"""Linear transformations: with packed weights by oneDNN, else as torch chooses.

torch multiplies float32 matrices with MKL, which does not use AVX-512 on AMD CPUs, and rearranges the weights in every
call. The operators that `torch.compile` uses for frozen models call oneDNN, with weights that were rearranged once.
They have no gradient. Both have float32 precision (docs/experiments.md, "Matrix products").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Range = tuple[int, int]  # the first, and one after the last

_MIN_ROWS = 2  # for one row, the call of oneDNN takes longer than the product
_HAS_ONEDNN = (
    torch.backends.mkldnn.is_available()
    and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
)


class PackedWeights:
    """Packed copies of weights, made on first use: for inference, while no weight changes.

    They cannot notice a change: the fused optimizers of torch do not count as one in the version of a tensor.
    """

    def __init__(self) -> None:
        self._packed: dict[tuple[int, Range | None, Range | None], tuple[Tensor, Tensor]] = {}

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside the `with` block, this thread multiplies with them, in inference mode."""
        token = _packed_weights.set(self)
        try:
            yield
        finally:
            _packed_weights.reset(token)

    def get(self, part: LinearPart) -> Tensor:
        key = (id(part.whole), part.rows, part.columns)
        if key not in self._packed:
            packed = torch.ops.mkldnn._reorder_linear_weight(part.weight.detach().contiguous(), None)
            self._packed[key] = (part.whole, packed)  # while the weight lives, no other tensor has its id
        return self._packed[key][1]


_packed_weights: ContextVar[PackedWeights | None] = ContextVar("packed_weights", default=None)


class LinearPart:
    """The transformation by some rows and columns of a weight (O, I), and the same rows of a bias."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, rows: Range | None = None, columns: Range | None = None
    ) -> None:
        self.whole, self.weight, self.bias = weight, weight, bias
        self.rows, self.columns = rows, columns
        if rows is not None:
            self.weight, self.bias = weight[slice(*rows)], None if bias is None else bias[slice(*rows)]
        if columns is not None:
            self.weight = self.weight[:, slice(*columns)]

    def __call__(self, x: Tensor) -> Tensor:
        """(…, I) → (…, O)."""
        packed = _packed_weights.get()
        if packed is None or not self._can_be_packed(x):
            return F.linear(x, self.weight, self.bias)
        weight = packed.get(self)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, self.bias, "none", [], "")
        return product

    def _can_be_packed(self, x: Tensor) -> bool:
        if not _HAS_ONEDNN or not torch.is_inference_mode_enabled() or torch.is_autocast_enabled("cpu"):
            return False
        is_float32 = x.dtype == self.weight.dtype == torch.float32 and x.device.type == "cpu"
        # other tensors than parameters are too short-lived
        return is_float32 and isinstance(self.whole, nn.Parameter) and x.numel() >= _MIN_ROWS * x.shape[-1]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(…, I), (O, I), (O,) → (…, O)."""
    return LinearPart(weight, bias)(x)


class Linear(nn.Linear):
    """`nn.Linear` by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """(…, I) → (…, O)."""
        return linear(x, self.weight, self.bias)
