"""float32 matrix multiplication by oneDNN on CPUs where MKL, PyTorch's default, is slow.

MKL does not use AVX-512 on AMD CPUs; oneDNN does, and is twice as fast there. PyTorch calls oneDNN when multiplication
may use bfloat16 internally. Only CPUs with AMX (no AMD CPU) have such a kernel, so the results are still float32, as is
tested at run time.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

MATMUL: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


@contextmanager
def fast_matmul() -> Iterator[bool]:
    """Uses oneDNN inside the `with` block where it is faster; yields whether it does. Precision stays float32.

    The choice depends on the CPU model, not on a measurement, so that a resumed run uses the same kernels.
    """
    if MATMUL.fp32_precision != "none" or not _mkl_is_slow():
        yield False
        return
    MATMUL.fp32_precision = "bf16"
    try:
        if not _keeps_float32_precision():
            MATMUL.fp32_precision = "none"
        yield MATMUL.fp32_precision == "bf16"
    finally:
        MATMUL.fp32_precision = "none"


def _mkl_is_slow() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and _cpu_vendor() == "AuthenticAMD"


def _cpu_vendor() -> str:
    """The vendor in /proc/cpuinfo; empty on systems without it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("vendor_id"):
                return line.partition(":")[2].strip()
    return ""


def _keeps_float32_precision() -> bool:
    """Whether a product keeps digits that bfloat16, with its 8 significant bits, would lose."""
    n = 64
    matrix = torch.full((n, n), 1 + 2.0**-12)
    return bool(torch.all(matrix @ torch.eye(n) == matrix))
