"""Linear transformations: in inference on an x86 CPU by oneDNN, else as torch chooses.

torch multiplies float32 matrices with MKL, which does not use AVX-512 on AMD CPUs, and with AVX2 is slower than oneDNN
as well. The operator that `torch.compile` uses for frozen models calls oneDNN directly; it has no gradient. Both have
float32 precision.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_MIN_ROWS = 16  # for fewer rows, the call of oneDNN takes longer than the product
_HAS_ONEDNN = (
    torch.backends.mkldnn.is_available()
    and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(…, I), (O, I), (O,) → (…, O)."""
    if not _uses_onednn(x, weight):
        return F.linear(x, weight, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, bias, "none", [], "")
    return product


def _uses_onednn(x: Tensor, weight: Tensor) -> bool:
    if not _HAS_ONEDNN or not torch.is_inference_mode_enabled() or torch.is_autocast_enabled("cpu"):
        return False
    is_float32 = x.dtype == weight.dtype == torch.float32 and x.device.type == "cpu"
    # oneDNN has no fast kernel for a part of each row
    return is_float32 and weight.is_contiguous() and x.numel() >= _MIN_ROWS * x.shape[-1]


class Linear(nn.Linear):
    """`nn.Linear` by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """(…, I) → (…, O)."""
        return linear(x, self.weight, self.bias)
