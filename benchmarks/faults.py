"""Every fault of a training and of a stranger's model, made to happen; one table of what held.

    python benchmarks/faults.py              all of it, as in results/faults.md
    python benchmarks/faults.py --quick      fewer times each, to see that it works
    python benchmarks/faults.py --only 3 6   some rows

Linux, strace, and the right to mount (for rows 4 and 5) are needed. A row is one function of one of the modules in faults/.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # the models are tiny, and children are forked

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from faults import saves
from faults.lab import Figure, Lab

from environment import environment

RESULTS = Path(__file__).parent / "results" / "faults.md"


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    fault: str
    must_hold: str
    measure: Callable[[Lab], Figure]


ROWS = {
    3: Row("killed at every system call of a save", "the old or the new state loads", saves.killed_at_every_call_of_a_save),
    4: Row("fsync fails, disk full in a save", "said in words, the old one good, no debris", saves.the_disk_fails_a_save),
    6: Row("checkpoint cut, bit flipped, file missing or added", "detected, named, passed over", saves.a_damaged_checkpoint),
}
