"""Atomic writes: after a kill, a full disk or a power cut, the old state or the new one is there."""

import ctypes
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.durable.manifest import MANIFEST_FORMAT, MANIFEST_NAME, list_files
from regard.durable.temporary import READ, discard, error_text, in_use, temporary_path
from regard.errors import RunError


def make_directory(path: Path) -> None:
    """Make a directory and its parents, and flush them to disk."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        _flush(path.parent)


def commit_directory(final: Path, write: Callable[[Path], None]) -> None:
    """Call `write` with a temporary directory, add a manifest to it, and move it to `final` atomically.

    If the disk fails or is full, a RunError is raised, and `final` is unchanged.
    """
    with _saving(final) as temporary:
        make_directory(final.parent)
        temporary.mkdir()
        with in_use(temporary):
            write(temporary)
            _write_manifest(temporary)
            _move_into_place(temporary, final)


@contextmanager
def scratch_directory(final: Path) -> Iterator[Path]:
    """A directory for files that will become part of `final`, on the same disk; removed afterwards."""
    with _saving(final) as temporary:
        temporary.mkdir()
        with in_use(temporary):
            yield temporary


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically: readers find the old content or the new."""
    with _saving(path) as temporary:
        if path.exists() and not path.is_file():  # a device or a pipe, which must not become a file
            raise RunError(f"{path} exists and is not a regular file", hint="choose another name")
        _write_flushed(temporary, data)
        temporary.rename(path)
        _flush(path.parent)


def remove_directory(path: Path) -> None:
    """Remove a directory atomically: a kill may leave temporary files, but never half a directory under its name."""
    temporary = temporary_path(path, "removing")
    try:
        path.rename(temporary)
        try:
            _flush(path.parent)
        except OSError:  # the old name may still be on disk, so nothing may be deleted
            temporary.rename(path)
            raise
    except OSError as error:
        raise RunError(f"could not remove {path}: {error_text(error)}", hint=_hint(error)) from error
    discard(temporary)


@contextmanager
def _saving(final: Path) -> Iterator[Path]:
    """A temporary path for `final`, removed afterwards. An OSError becomes a RunError."""
    temporary = temporary_path(final, "writing")
    try:
        yield temporary
    except OSError as error:
        raise RunError(f"could not save {final}: {error_text(error)}", hint=_hint(error)) from error
    finally:
        discard(temporary)


def _write_manifest(directory: Path) -> None:
    """Flush all files, write the manifest, then flush the directories, inner ones first."""
    records = {}
    mode = directory.stat().st_mode & 0o666  # set by the umask; safetensors makes its files private
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


def _move_into_place(temporary: Path, final: Path) -> None:
    """Rename `temporary` to `final`, and an existing `final` to `temporary`; undone if the disk cannot be flushed."""
    exists = os.path.lexists(final)
    if exists:
        _exchange(temporary, final)
    else:
        temporary.rename(final)
    try:
        _flush(final.parent)
    except OSError:
        if exists:
            _exchange(temporary, final)
        else:
            final.rename(temporary)
        raise


def _exchange(temporary: Path, final: Path) -> None:
    """Swap two directories, by three renames if necessary; `recover` repairs what a kill between them leaves."""
    if _exchange_atomically(temporary, final):
        return
    replaced = temporary_path(final, "replaced")
    with in_use(final):
        final.rename(replaced)
        try:
            temporary.rename(final)
        except OSError:
            replaced.rename(final)
            raise
        replaced.rename(temporary)


def _exchange_atomically(first: Path, second: Path) -> bool:
    """Swap two paths with Linux's renameat2; False if the system or the file system does not support it."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    working_directory, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if renameat2(working_directory, os.fsencode(first), working_directory, os.fsencode(second), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):
        return False
    raise OSError(code, os.strerror(code), str(second))


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


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some disk space and run the same command again; what was saved before is unchanged"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "make that directory writable, or choose another one"
    return "check the disk; what was saved before is unchanged"
