"""What stands aside until it is complete, and the debris that it becomes when its writer is killed.

It is called `.<name>.<why>-<token>`: the dot and the ending make it recognisable, and a lock that dies with its
process tells whether the writer still lives (process numbers repeat, above all in containers).
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
READ_UNTRUSTED = READ | os.O_NOFOLLOW | os.O_NONBLOCK  # a link is refused, and a FIFO can not make us wait

_ASIDE = re.compile(r"\.(?P<name>.+)\.(?P<why>writing|replaced|removing)-[0-9a-f]{8}")


def temporary_path(path: Path, why: str) -> Path:
    """A name beside `path` that nobody else uses; `why` is writing, replaced or removing."""
    return path.parent / f".{path.name}.{why}-{os.urandom(4).hex()}"


def remove_leftovers(parent: Path) -> list[str]:
    """Remove what killed writers left in `parent`, put back what they had only moved, and name what was removed."""
    removed = []
    for entry in sorted(parent.iterdir()) if parent.is_dir() else []:
        match = _ASIDE.fullmatch(entry.name)
        if match is None or is_in_use(entry):
            continue
        if match["why"] == "replaced":
            recover(parent / match["name"])
        discard(entry)
        removed.append(entry.name)
    return removed


def recover(final: Path) -> None:
    """Put back what a writer, killed in the middle of a two-step exchange, had moved out of the way."""
    if os.path.lexists(final):
        return
    for parked in sorted(final.parent.glob(f".{glob.escape(final.name)}.replaced-*")):
        if _ASIDE.fullmatch(parked.name) and not is_in_use(parked):
            parked.rename(final)
            return


def discard(path: Path) -> None:
    """Remove a file or a tree as far as that is possible: what stays is recognised as debris later."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """While this lasts, others see that the directory has a living writer."""
    descriptor = os.open(path, READ)
    try:
        try_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def is_in_use(path: Path) -> bool:
    """Whether the writer of what lies at `path` still lives."""
    try:
        descriptor = os.open(path, READ_UNTRUSTED)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the lock that dies with this process, or say that another one has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: better to work there unguarded than not at all
        return True
    return True


def reason(error: OSError) -> str:
    """The system's own words for an error, as part of a sentence."""
    words = error.strerror or str(error)
    return words[:1].lower() + words[1:]
