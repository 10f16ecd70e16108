"""Where translations are written: standard output, or a file that appears when it is complete."""

import errno
import gzip
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import zstandard

from regard.durable import is_same_file, try_lock, write_file
from regard.errors import UserError


class StandardOutput:
    """Standard output, flushed after each batch."""

    n_lines = 0  # written by an earlier command
    finished = False  # whether an earlier command wrote all of it

    def __enter__(self) -> "StandardOutput":
        if sys.stdout is None:
            raise UserError("standard output is closed", hint="use --out FILE")
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, data: bytes, n_lines: int) -> None:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            with suppress(OSError):  # or Python flushes again at exit, and prints a second error
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise UserError(f"cannot write to standard output: {(error.strerror or str(error)).lower()}") from error

    def finish(self) -> None: ...

    def remove_state(self) -> None: ...


class ResumableFile:
    """A file that appears when it is complete. Until then it is `.NAME.part`, with its state in `.NAME.part.json`.

    The partial file is locked: a second command that would write the same output is refused.

    With `keep_state` the state of a finished file stays until `remove_state`, so that a command over several files can
    be resumed without repeating those that are finished.
    """

    def __init__(self, out: Path, resume: bool, identity: str, keep_state: bool) -> None:
        self._out, self._identity, self._keep_state = out, identity, keep_state
        self.finished = False
        self._part = out.with_name(f".{out.name}.part")
        self._state = state_path(out)
        self.n_lines, self._n_bytes = self._read_state() if resume else (0, 0)
        self._file: BinaryIO  # open inside the `with` block

    def _read_state(self) -> tuple[int, int]:
        """The number of lines and bytes already written; zero if the partial file is missing or too short."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            identity, n_lines, n_bytes = state["identity"], int(state["n_lines"]), int(state["n_bytes"])
            finished = state.get("done") is True and self._out.stat().st_size == n_bytes
            if not finished and self._part.stat().st_size < n_bytes:
                return 0, 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0, 0
        if identity != self._identity:
            raise UserError(
                f"{self._part} was written from another input, or with another model or other options",
                hint="start again without --resume",
            )
        self.finished = finished
        return n_lines, n_bytes

    def __enter__(self) -> "ResumableFile":
        try:
            self._file = self._open_locked()
            if not self._n_bytes:
                self._state.unlink(missing_ok=True)  # it belongs to an older partial file
            self._file.truncate(self._n_bytes)
            self._file.seek(self._n_bytes)
        except OSError as error:
            raise self._failed(error) from error
        return self

    def _open_locked(self) -> BinaryIO:
        """The partial file, which is ours until it is closed."""
        while True:
            file = os.fdopen(os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")
            if not try_lock(file.fileno()):
                file.close()
                hint = "wait until it has finished, or choose another --out"
                raise UserError(f"another command is writing {self._out}", hint=hint)
            if is_same_file(self._part, file.fileno()):
                break
            file.close()  # the other command has just finished, and renamed it
        if os.fstat(file.fileno()).st_size < self._n_bytes:
            file.close()
            raise UserError(f"another command has just written {self._out}", hint="start again without --resume")
        return file

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._file.close()

    def write(self, data: bytes, n_lines: int) -> None:
        try:
            self._n_bytes += self._file.write(_compress(data, self._out.suffix))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from error
        self.n_lines += n_lines
        self._write_state(finished=False)

    def finish(self) -> None:
        if not self._n_bytes:
            self.write(b"", 0)  # an empty compressed file is not empty
        try:
            self._part.replace(self._out)  # before its lock ends
            self._file.close()
        except OSError as error:
            raise self._failed(error) from error
        if self._keep_state:
            self._write_state(finished=True)
        else:
            self.remove_state()

    def remove_state(self) -> None:
        with suppress(OSError):
            self._state.unlink(missing_ok=True)

    def _write_state(self, finished: bool) -> None:
        state = {"identity": self._identity, "n_lines": self.n_lines, "n_bytes": self._n_bytes, "done": finished}
        write_file(self._state, json.dumps(state).encode())

    def _failed(self, error: OSError) -> UserError:
        hint = "free some space, then add --resume" if error.errno == errno.ENOSPC else "choose another --out"
        return UserError(f"cannot write {self._out}: {(error.strerror or str(error)).lower()}", hint=hint)


def state_path(out: Path) -> Path:
    """Where the state of an output file is."""
    return out.with_name(f".{out.name}.part.json")


def _compress(data: bytes, suffix: str) -> bytes:
    """Compress by file suffix; each batch becomes a member or frame, and their concatenation is a valid file."""
    if suffix == ".gz":
        return gzip.compress(data, mtime=0)
    if suffix == ".zst":
        return zstandard.ZstdCompressor().compress(data)
    return data
