"""Locks a run directory, and checks that its disk is writable and large enough."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.durable.atomic import make_directory
from regard.durable.temporary import discard, error_text, is_in_use, is_same_file, temporary_path, try_lock
from regard.errors import RunError

LOCK_NAME = ".lock"

_N_TRIES = 4  # `is_locked` in another process holds the lock for a moment
_RETRY_SECONDS = 0.03

_descriptors: set[int] = set()  # of the locks that this process holds


@contextmanager
def lock_directory(path: Path) -> Iterator[None]:
    """Lock a run directory, so that no other process trains in it. The lock ends with the process.

    If the directory is created here and stays empty, it is removed again.
    """
    existed = path.exists()
    descriptor = _open_lock(path)
    try:
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:  # a full disk allows an empty file, but no writing to it
            raise _not_writable(path, error) from error
        yield
    finally:
        if descriptor in _descriptors:  # in a forked child it is already closed
            _descriptors.discard(descriptor)
            if not existed:
                _remove_if_empty(path)
            os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process is training in a run directory."""
    return is_in_use(path / LOCK_NAME)


def check_writable(path: Path, needed_bytes: int) -> None:
    """Raise a RunError if a directory is not writable, or its disk has less than `needed_bytes` free."""
    probe = temporary_path(path / "probe", "writing")
    try:
        make_directory(path)
        free_bytes = shutil.disk_usage(path).free
        if free_bytes < needed_bytes:
            raise RunError(
                f"the checkpoints of {path} need {_size(needed_bytes)}, and its disk has {_size(free_bytes)} free",
                hint="free some space, use another disk, keep fewer checkpoints, or train a smaller model",
            )
        probe.write_bytes(bytes(4096))  # the only way to notice a read-only mount or a quota
    except OSError as error:
        raise _not_writable(path, error) from error
    finally:
        discard(probe)


def _open_lock(path: Path) -> int:
    """The file descriptor of the acquired lock; a RunError if another process holds it."""
    for attempt in range(_N_TRIES):
        try:
            make_directory(path)
            descriptor = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise _not_writable(path, error) from error
        _descriptors.add(descriptor)
        if try_lock(descriptor) and is_same_file(path / LOCK_NAME, descriptor):
            return descriptor
        owner = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
        _descriptors.discard(descriptor)
        os.close(descriptor)
        time.sleep(_RETRY_SECONDS * (attempt + 1 < _N_TRIES))
    raise RunError(
        f"{path} is being trained by process {owner}",
        hint="wait until it finishes, stop it, or train in another directory",
    )


def _remove_if_empty(path: Path) -> None:
    with suppress(OSError):
        if [entry.name for entry in path.iterdir()] == [LOCK_NAME]:
            (path / LOCK_NAME).unlink()
            path.rmdir()


def _not_writable(path: Path, error: OSError) -> RunError:
    return RunError(f"cannot write in {path}: {error_text(error)}", hint="choose a directory that you can write to")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


def _close_in_child() -> None:
    """A forked worker that outlives the training process must not keep the lock."""
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_close_in_child)
