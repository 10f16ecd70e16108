"""Linear transformations: in inference on an x86 CPU by oneDNN with packed weights, else as torch chooses.

torch multiplies float32 matrices with MKL, which does not use AVX-512 on AMD CPUs, and rearranges the weights in every
call. The operators that `torch.compile` uses for frozen models call oneDNN, with weights that were rearranged once.
They have no gradient. Both have float32 precision (docs/experiments.md, "Matrix products").
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

Range = tuple[int, int]  # the first, and one after the last
_Key = tuple[Range | None, Range | None]  # rows and columns; None is all of them

_MIN_ROWS = 2  # for one row, the call of oneDNN takes longer than the product
_HAS_ONEDNN = (
    torch.backends.mkldnn.is_available()
    and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
)


class _Packed(NamedTuple):
    """A copy of a weight, and what tells whether the weight has changed since."""

    version: int
    address: int
    weight: Tensor


_packed_parts: MutableMapping[Tensor, dict[_Key, _Packed]] = WeakIdKeyDictionary()  # forgotten with the weight


class LinearPart:
    """The transformation by some rows and columns of a weight (O, I), and the same rows of a bias."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, rows: Range | None = None, columns: Range | None = None
    ) -> None:
        self.whole, self.weight, self.bias = weight, weight, bias
        self.key = (rows, columns)
        if rows is not None:
            self.weight, self.bias = weight[slice(*rows)], None if bias is None else bias[slice(*rows)]
        if columns is not None:
            self.weight = self.weight[:, slice(*columns)]

    def __call__(self, x: Tensor) -> Tensor:
        """(…, I) → (…, O)."""
        if not self._uses_onednn(x):
            return F.linear(x, self.weight, self.bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x.contiguous(), self._pack(), self.bias, "none", [], "")
        return product

    def _uses_onednn(self, x: Tensor) -> bool:
        if not _HAS_ONEDNN or not torch.is_inference_mode_enabled() or torch.is_autocast_enabled("cpu"):
            return False
        is_float32 = x.dtype == self.weight.dtype == torch.float32 and x.device.type == "cpu"
        # other tensors than parameters are too short-lived to be packed
        is_packable = isinstance(self.whole, nn.Parameter) and not self.whole.is_inference()
        return is_float32 and is_packable and x.numel() >= _MIN_ROWS * x.shape[-1]

    def _pack(self) -> Tensor:
        """The packed weight, from a cache if it has not changed."""
        parts = _packed_parts.setdefault(self.whole, {})
        packed, version, address = parts.get(self.key), self.whole._version, self.whole.data_ptr()
        if packed is None or (packed.version, packed.address) != (version, address):
            weight = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach().contiguous(), None)
            packed = parts[self.key] = _Packed(version, address, weight)
        return packed.weight


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(…, I), (O, I), (O,) → (…, O)."""
    return LinearPart(weight, bias)(x)


class Linear(nn.Linear):
    """`nn.Linear` by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """(…, I) → (…, O)."""
        return linear(x, self.weight, self.bias)
