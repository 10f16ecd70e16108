"""What is settled before the first step: nobody else trains here, and there is room to save."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.durable.atomic import make_directory
from regard.durable.temporary import discard, is_in_use, reason, temporary_path, try_lock
from regard.errors import RunError

LOCK_NAME = ".lock"

_TRIES = 4  # whoever only asks whether a run is held has the lock for a moment
_TRY_SECONDS = 0.03

_held: set[int] = set()


@contextmanager
def lock_directory(path: Path) -> Iterator[None]:
    """Hold a run directory for this process and refuse a second trainer; however the process ends, so does the lock.

    A directory that was made for this, and in which nothing was begun, is gone again afterwards.
    """
    was_there = path.exists()
    descriptor = _open_lock(path)
    try:
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:  # a full disk lets an empty file be made, and nothing be written to it
            raise _not_writable(path, error) from error
        yield
    finally:
        if descriptor in _held:  # not so in a forked child, where it is closed already
            _held.discard(descriptor)
            if not was_there:
                _remove_if_empty(path)
            os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a living process trains in a run directory."""
    return is_in_use(path / LOCK_NAME)


def check_writable(path: Path, needed_bytes: int) -> None:
    """Refuse, before anything is computed, a directory that can not be written or a disk without room for it."""
    probe = temporary_path(path / "probe", "writing")
    try:
        make_directory(path)
        free_bytes = shutil.disk_usage(path).free
        if free_bytes < needed_bytes:
            raise RunError(
                f"the checkpoints of {path} need {_size(needed_bytes)}, and its disk has {_size(free_bytes)} free",
                hint="free some space, choose another disk, keep fewer checkpoints or take a smaller model",
            )
        probe.write_bytes(bytes(4096))  # permission bits and free space do not tell of a read-only mount or a quota
    except OSError as error:
        raise _not_writable(path, error) from error
    finally:
        discard(probe)


def _open_lock(path: Path) -> int:
    """The descriptor of the directory's lock, taken; a RunError when another process has it."""
    for patience in range(_TRIES):
        try:
            make_directory(path)
            descriptor = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise _not_writable(path, error) from error
        _held.add(descriptor)
        if try_lock(descriptor) and _is_still(path / LOCK_NAME, descriptor):
            return descriptor
        owner = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
        _held.discard(descriptor)
        os.close(descriptor)
        time.sleep(_TRY_SECONDS * (patience + 1 < _TRIES))
    raise RunError(
        f"{path} is being trained by process {owner}",
        hint="wait until it has finished, stop it, or train in another directory",
    )


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether a path still names what was opened there: a run that was never begun takes its lock file with it."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False


def _remove_if_empty(path: Path) -> None:
    with suppress(OSError):
        if [entry.name for entry in path.iterdir()] == [LOCK_NAME]:
            (path / LOCK_NAME).unlink()
            path.rmdir()


def _not_writable(path: Path, error: OSError) -> RunError:
    return RunError(f"can not write in {path}: {reason(error)}", hint="choose a directory that you may write in")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


def _close_in_child() -> None:
    """A forked worker that outlives its trainer must not keep the run locked."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)
