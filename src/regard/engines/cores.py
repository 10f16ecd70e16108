"""How many cores there are to compute on."""

import os


def n_cores() -> int:
    """Those that this process may use; where the system does not say (macOS), all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
