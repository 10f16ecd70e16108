"""Matrix products by oneDNN where MKL leaves half of the processor unused.

On a CPU torch multiplies float32 matrices by MKL, which does not use AVX-512 on AMD's processors: there oneDNN is
twice as fast. torch turns to oneDNN when products may use bfloat16 inside; only processors with AMX (none of AMD's)
have such a kernel, so that here they are of float32 all the same. That is asked, not believed.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

MATMUL: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


@contextmanager
def quick_products() -> Iterator[bool]:
    """While this lasts, products are made the quickest way; True where that is oneDNN's. Precision stays float32's.

    What decides is the processor, not a measurement: a run that is resumed goes on with the same kernels.
    """
    if MATMUL.fp32_precision != "none" or not _mkl_is_slow():
        yield False
        return
    MATMUL.fp32_precision = "bf16"
    try:
        if not _exact():
            MATMUL.fp32_precision = "none"
        yield MATMUL.fp32_precision == "bf16"
    finally:
        MATMUL.fp32_precision = "none"


def _mkl_is_slow() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and _vendor() == "AuthenticAMD"


def _vendor() -> str:
    """Who made the processor, as Linux tells it; nobody knows elsewhere."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("vendor_id"):
                return line.partition(":")[2].strip()
    return ""


def _exact() -> bool:
    """Does a product keep what bfloat16, with its 8 bits, would lose?"""
    n = 64
    fine = torch.full((n, n), 1 + 2.0**-12)
    return bool(torch.all(fine @ torch.eye(n) == fine))
