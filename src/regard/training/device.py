"""Which processor, with how many threads, at what precision."""

import torch

from regard.errors import RecipeError


def choose_device(asked: str | None = None) -> torch.device:
    """cuda, then mps, then cpu; or the one that was asked for, if it is there."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if asked is None:
        return torch.device(next(name for name, present in there.items() if present))
    name, colon, number = asked.partition(":")
    if name not in there or (colon and not number.isdecimal()):
        raise RecipeError(f"no device is called {asked!r}", hint=f"one of {', '.join(there)}")
    n_devices = torch.cuda.device_count() if name == "cuda" else 1
    if not there[name] or int(number or 0) >= n_devices:
        found = ", ".join(name for name, present in there.items() if present)
        raise RecipeError(f"this machine has no {asked} that torch can use", hint=f"use one of: {found}")
    return torch.device(asked)


def has_fast_bfloat16(device: torch.device) -> bool:
    """Does the hardware multiply it? Elsewhere it is many times slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu" and torch.backends.mkldnn.is_available():
        used = torch.backends.cpu.get_cpu_capability() == "AVX512"  # what the processor has may be switched off
        return used and bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False


def check_precision(precision: str, device: torch.device, hint: str = "set training.precision = 'float32'") -> None:
    """bfloat16 only where it is fast."""
    if precision == "bfloat16" and not has_fast_bfloat16(device):
        raise RecipeError(f"this {device.type} has no fast bfloat16", hint=hint)
