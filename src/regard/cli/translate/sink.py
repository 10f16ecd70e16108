"""Where translations go: standard output, or a file that appears when it is whole."""

import errno
import gzip
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import zstandard

from regard.durable import write_file
from regard.errors import UserError


class Sink(Protocol):
    """Where output goes; `n_lines` are there already, or it is `done`."""

    n_lines: int
    done: bool

    def __enter__(self) -> "Sink": ...

    def __exit__(self, *_: object) -> None: ...

    def write(self, data: bytes, n_lines: int) -> None: ...

    def finish(self) -> None: ...

    def forget(self) -> None: ...


class Pipe:
    """Standard output, each window at once."""

    n_lines = 0
    done = False

    def __enter__(self) -> "Pipe":
        if sys.stdout is None:
            raise UserError("standard output is closed", hint="give --out FILE")
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, data: bytes, n_lines: int) -> None:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            with suppress(OSError):  # else Python tries to flush once more at its end, and complains
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise UserError(f"can not write to standard output: {(error.strerror or str(error)).lower()}") from error

    def finish(self) -> None: ...

    def forget(self) -> None: ...


class File:
    """A file that appears when it is complete. Until then `.NAME.part`, and how far it is in `.NAME.part.json`."""

    def __init__(self, out: Path, resume: bool, identity: str, keep: bool) -> None:
        self._out, self._identity, self._keep = out, identity, keep
        self.done = False
        self._part = out.with_name(f".{out.name}.part")
        self._state = out.with_name(f".{out.name}.part.json")
        self.n_lines, self._n_bytes = self._found() if resume else (0, 0)
        self._file: BinaryIO | None = None

    def _found(self) -> tuple[int, int]:
        """Lines and bytes to go on behind; none where the part is not there, or not whole."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            identity, n_lines, n_bytes = state["identity"], int(state["n_lines"]), int(state["n_bytes"])
            done = state.get("done") is True and self._out.stat().st_size == n_bytes
            if not done and self._part.stat().st_size < n_bytes:
                return 0, 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0, 0
        if identity != self._identity:
            raise UserError(
                f"{self._part} is of another input, model or option",
                hint="translate without --resume to start anew",
            )
        self.done = done
        return n_lines, n_bytes

    def __enter__(self) -> "File":
        try:
            if not self._n_bytes:
                self._state.unlink(missing_ok=True)  # what it says is of an older part
            self._file = self._part.open("r+b" if self._part.exists() else "w+b")
            self._file.truncate(self._n_bytes)
            self._file.seek(self._n_bytes)
        except OSError as error:
            raise self._failed(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def write(self, data: bytes, n_lines: int) -> None:
        assert self._file is not None
        try:
            self._n_bytes += self._file.write(_packed(data, self._out))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failed(error) from error
        self.n_lines += n_lines
        self._remember(done=False)

    def finish(self) -> None:
        assert self._file is not None
        if not self._n_bytes:
            self.write(b"", 0)  # of a compressed file nothing is something, too
        try:
            self._file.close()
            self._part.replace(self._out)
        except OSError as error:
            raise self._failed(error) from error
        if self._keep:
            self._remember(done=True)
        else:
            self.forget()

    def forget(self) -> None:
        with suppress(OSError):
            self._state.unlink(missing_ok=True)

    def _remember(self, done: bool) -> None:
        state = {"identity": self._identity, "n_lines": self.n_lines, "n_bytes": self._n_bytes, "done": done}
        write_file(self._state, json.dumps(state).encode())

    def _failed(self, error: OSError) -> UserError:
        hint = "make room, then add --resume to go on" if error.errno == errno.ENOSPC else "choose another --out"
        return UserError(f"can not write {self._out}: {(error.strerror or str(error)).lower()}", hint=hint)


def _packed(data: bytes, out: Path) -> bytes:
    """As the name of the output says; each window is a member or frame of its own, and they add up."""
    if out.suffix == ".gz":
        return gzip.compress(data, mtime=0)
    if out.suffix == ".zst":
        return zstandard.ZstdCompressor().compress(data)
    return data
