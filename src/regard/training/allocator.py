"""Keep freed memory. glibc gives large freed blocks back to the kernel, which hands them out again page by page.

A training step frees and takes the same tensors over and over; without this it spends a third of its
time in page faults.
"""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def keep_freed_memory() -> bool:
    """Sets glibc's thresholds for this process; False where there is no glibc, and nothing is lost."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    # older glibc refuses more than 32 MiB here
    mapped = bool(mallopt(_M_MMAP_THRESHOLD, 2**30)) or bool(mallopt(_M_MMAP_THRESHOLD, 2**25))
    return mapped and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
