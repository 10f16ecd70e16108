"""Atomic writes, and safe reads of files that may be damaged or come from an untrusted source.

Everything is written to a temporary path, flushed, and renamed, so that a kill at any system call leaves the old state
or the new one. Does not import torch.
"""

from regard.durable.atomic import commit_directory, make_directory, remove_directory, scratch_directory, write_file
from regard.durable.lock import check_writable, is_locked, lock_directory
from regard.durable.manifest import open_regular_file, read_json_file, read_regular_file, verify_directory
from regard.durable.temporary import is_same_file, remove_leftovers, try_lock

__all__ = [
    "check_writable",
    "commit_directory",
    "is_locked",
    "is_same_file",
    "lock_directory",
    "make_directory",
    "open_regular_file",
    "read_json_file",
    "read_regular_file",
    "remove_directory",
    "remove_leftovers",
    "scratch_directory",
    "try_lock",
    "verify_directory",
    "write_file",
]
