"""Temporary paths, and removing those that killed processes have left behind.

They are named `.<name>.<purpose>-<token>`. While a process uses one, it holds a lock on it, which ends with the process
(a process id in the name would not do: ids repeat, above all in containers).
"""

import fcntl
import glob
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

READ = os.O_RDONLY | os.O_CLOEXEC
READ_UNTRUSTED = READ | os.O_NOFOLLOW | os.O_NONBLOCK  # fails on a link, and does not block on a FIFO

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<purpose>writing|replaced|removing)-[0-9a-f]{8}")


def temporary_path(path: Path, purpose: str) -> Path:
    """An unused path beside `path`; `purpose` is writing, replaced or removing."""
    return path.parent / f".{path.name}.{purpose}-{os.urandom(4).hex()}"


def remove_leftovers(parent: Path) -> list[str]:
    """Remove the temporary paths of killed processes in `parent`, after `recover`; returns their names."""
    removed = []
    for entry in sorted(parent.iterdir()) if parent.is_dir() else []:
        match = _TEMPORARY.fullmatch(entry.name)
        if match is None or is_in_use(entry):
            continue
        if match["purpose"] == "replaced":
            recover(parent / match["name"])
        discard(entry)
        removed.append(entry.name)
    return removed


def recover(final: Path) -> None:
    """Restore `final` if a process was killed between the renames of an exchange."""
    if os.path.lexists(final):
        return
    for replaced in sorted(final.parent.glob(f".{glob.escape(final.name)}.replaced-*")):
        if _TEMPORARY.fullmatch(replaced.name) and not is_in_use(replaced):
            replaced.rename(final)
            return


def discard(path: Path) -> None:
    """Remove a file or a tree, ignoring errors: `remove_leftovers` will find the rest."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Mark a directory as in use by this process."""
    descriptor = os.open(path, READ)
    try:
        try_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def is_in_use(path: Path) -> bool:
    """Whether a living process has marked a path as in use."""
    try:
        descriptor = os.open(path, READ_UNTRUSTED)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the lock, until this process ends; False if another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: working without a lock is better than not working
        return True
    return True


def is_same_file(path: Path, descriptor: int) -> bool:
    """Whether a path still names the opened file: another process may have renamed or removed it."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False


def error_text(error: OSError) -> str:
    """The system's message for an error, in lower case."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
