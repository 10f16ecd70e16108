"""Writing so that a kill, a full disk or a power cut leaves the old state or the new one, never neither."""

import ctypes
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.durable.manifest import MANIFEST_FORMAT, MANIFEST_NAME, list_files
from regard.durable.temporary import READ, discard, in_use, reason, temporary_path
from regard.errors import RunError


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, so that they outlast a power cut."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        _flush(path.parent)


def commit_directory(final: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a directory aside, seal it with a manifest, and put it in place of `final` in one move.

    When the disk fails or is full, what was there before stays as it was, and a RunError says so.
    """
    with _saving(final) as aside:
        make_directory(final.parent)
        aside.mkdir()
        with in_use(aside):
            write(aside)
            _seal(aside)
            _put_in_place(aside, final)


def write_file(path: Path, data: bytes) -> None:
    """Replace one file by `data`: a reader finds the old content or the new, whatever happens on the way."""
    with _saving(path) as aside:
        if path.exists() and not path.is_file():  # a device or a pipe: a file in its place would break it
            raise RunError(f"{path} is not a file that can be replaced", hint="choose another name")
        _write_flushed(aside, data)
        aside.rename(path)
        _flush(path.parent)


def remove_directory(path: Path) -> None:
    """Remove a directory so that a kill on the way leaves debris, never half a directory under its name."""
    doomed = temporary_path(path, "removing")
    try:
        path.rename(doomed)
        try:
            _flush(path.parent)
        except OSError:  # whether the disk has the new name is not known: what it may still name must stay whole
            doomed.rename(path)
            raise
    except OSError as error:
        raise RunError(f"could not remove {path}: {reason(error)}", hint=_advice(error)) from error
    discard(doomed)


@contextmanager
def _saving(final: Path) -> Iterator[Path]:
    """A path aside for `final`, gone afterwards; errors of the disk become a RunError."""
    aside = temporary_path(final, "writing")
    try:
        yield aside
    except OSError as error:
        raise RunError(f"could not save {final}: {reason(error)}", hint=_advice(error)) from error
    finally:
        discard(aside)


def _seal(directory: Path) -> None:
    """Flush every file, then write the manifest, then flush the directories, inner ones first."""
    records = {}
    mode = directory.stat().st_mode & 0o666  # what the person's umask gives; safetensors makes its files private
    for name in list_files(directory):
        with (directory / name).open("rb", buffering=0) as file:
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            records[name] = {"size": os.fstat(file.fileno()).st_size, "sha256": digest}
    text = json.dumps({"format": MANIFEST_FORMAT, "files": records}, indent=1)
    _write_flushed(directory / MANIFEST_NAME, text.encode() + b"\n")
    for inner in sorted({(directory / name).parent for name in records} | {directory}, reverse=True):
        _flush(inner)


def _put_in_place(aside: Path, final: Path) -> None:
    """Move `aside` to `final`, and what was there to `aside`; taken back when the disk does not confirm it."""
    replaces = os.path.lexists(final)
    if replaces:
        _exchange(aside, final)
    else:
        aside.rename(final)
    try:
        _flush(final.parent)
    except OSError:
        if replaces:
            _exchange(aside, final)
        else:
            final.rename(aside)
        raise


def _exchange(one: Path, other: Path) -> None:
    """Swap two directories. Where the system needs three renames for it, `recover` finishes what a kill interrupts."""
    if _exchange_at_once(one, other):
        return
    parked = temporary_path(other, "replaced")
    with in_use(other):
        other.rename(parked)
        try:
            one.rename(other)
        except OSError:
            parked.rename(other)
            raise
        parked.rename(one)


def _exchange_at_once(one: Path, other: Path) -> bool:
    """Swap two paths by Linux's renameat2, or say that this system or file system can not."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    working_directory, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if renameat2(working_directory, os.fsencode(one), working_directory, os.fsencode(other), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):
        return False
    raise OSError(code, os.strerror(code), str(other))


def _write_flushed(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush(directory: Path) -> None:
    descriptor = os.open(directory, READ)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _advice(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space there and run the same command again; what was saved before is untouched"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "make that directory writable, or choose another one"
    return "check that disk; what was saved before is untouched"
