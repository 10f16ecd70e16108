"""The device to train on, its precision, and how the process manages its memory."""

import ctypes
import sys

import torch

from regard.errors import RecipeError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def select_device(requested: str | None = None) -> torch.device:
    """The requested device if it is available; by default the first available one of cuda, mps and cpu."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    names = [name for name, is_available in available.items() if is_available]
    if requested is None:
        return torch.device(names[0])
    name, colon, number = requested.partition(":")
    if name not in available or (colon and not number.isdecimal()):
        raise RecipeError(f"unknown device {requested!r}", hint=f"use one of: {', '.join(available)}")
    n_devices = torch.cuda.device_count() if name == "cuda" else 1
    if not available[name] or int(number or 0) >= n_devices:
        raise RecipeError(
            f"device {requested} is not available to PyTorch on this machine", hint=f"use one of: {', '.join(names)}"
        )
    return torch.device(requested)


def rank_device(requested: str | None, local_rank: int) -> torch.device:
    """The device of one of several processes on a machine: each has a GPU of its own, or they share the CPU."""
    device = select_device(requested)
    if device.type != "cuda":
        return device
    if device.index is not None or local_rank >= torch.cuda.device_count():
        raise RecipeError(
            f"{torch.cuda.device_count()} GPUs for the process number {local_rank + 1} of this machine",
            hint="start one process for each GPU, with --device cuda",
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16; elsewhere it is many times slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu" and torch.backends.mkldnn.is_available():
        uses_avx512 = torch.backends.cpu.get_cpu_capability() == "AVX512"  # the user can switch it off
        return uses_avx512 and bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False


def check_precision(precision: str, device: torch.device, hint: str = "set training.precision = 'float32'") -> None:
    """Raises RecipeError for bfloat16 on a device where it is slow."""
    if precision == "bfloat16" and not has_fast_bfloat16(device):
        raise RecipeError(f"this {device.type} has no fast bfloat16", hint=hint)


def keep_freed_memory() -> bool:
    """Makes glibc keep large freed blocks for this process; returns False where there is no glibc.

    By default it returns them to the kernel, which hands them out again page by page. A training step frees and
    allocates the same tensors over and over, and would spend a third of its time in page faults.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    # older glibc refuses more than 32 MiB here
    threshold_set = bool(mallopt(_M_MMAP_THRESHOLD, 2**30)) or bool(mallopt(_M_MMAP_THRESHOLD, 2**25))
    return threshold_set and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


def seed_all(seed: int, device: torch.device) -> None:
    """`torch.manual_seed` for the CPU and this device alone: for all devices, it takes longer than a small step."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
